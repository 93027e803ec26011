"""What type checkers see of `@state`, `meta`, `replace`, `bind` and `stable`. Checked, not run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar, assert_type

from fusegate.state.bind import bind, stable
from fusegate.state.content import by_content
from fusegate.state.declare import meta, replace, state

T = TypeVar("T")


@state
class Sponge:
    lanes: float
    rate: int = meta(default=8)


@state(kw_only=True, slots=True)
class Keyword:
    rate: int = meta(default=8)
    lanes: float


@state
class Wide(Sponge):
    tables: tuple[float, ...] = dataclasses.field(default_factory=tuple)


@state
class Boxed(Generic[T]):
    item: T


@stable
def scaling(factor: float) -> Callable[[float], float]:
    return lambda x: x * factor


def scaled(factor: float, x: float) -> float:
    return factor * x


def usage() -> None:
    sponge = Sponge(1.0, rate=4)
    assert_type(sponge, Sponge)
    assert_type(sponge.rate, int)
    assert_type(replace(sponge, rate=2), Sponge)
    assert_type(Wide(1.0, 4, (2.0,)).tables, tuple[float, ...])
    assert_type(Keyword(lanes=1.0).lanes, float)
    assert_type(Boxed(3).item, int)
    assert_type(scaling(2.0), Callable[[float], float])
    assert_type(scaling(2.0)(1.0), float)
    assert_type(bind(scaled, 2.0)(1.0), float)
    assert_type(by_content(3), int)


def misuse(sponge: Sponge) -> None:
    Sponge("four")  # type: ignore[arg-type]
    Sponge(1.0, rat=4)  # type: ignore[call-arg]
    Keyword(1, 2.0)  # type: ignore[call-arg]
    sponge.rate = 3  # type: ignore[misc]
    scaling("two")  # type: ignore[arg-type]


def anything(value: Any) -> Any:
    return replace(value, rate=3)
