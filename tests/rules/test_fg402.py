"""FG402 mutable-meta: a metadata value that can change after it was keyed."""

import collections
import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest

from fusegate import ledger
from fusegate.config import mode
from fusegate.errors import StateViolation
from fusegate.state.declare import meta, state


@state
class Layer:
    kernel: Any
    widths: Any = meta()


@dataclasses.dataclass
class Unfrozen:
    a: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    sizes: Any


class EqOnly:  # noqa: PLW1641 - that is the point
    def __eq__(self, other):
        return isinstance(other, EqOnly)


@pytest.mark.parametrize(
    ("value", "path", "named"),
    [
        ([1.0], "widths", "a list"),
        ({"a": 1}, "widths", "a dict"),
        ({1}, "widths", "a set"),
        (collections.OrderedDict(a=1), "widths", "collections.OrderedDict"),
        (Unfrozen(), "widths", "test_fg402.Unfrozen"),
        (EqOnly(), "widths", "test_fg402.EqOnly"),
        (((1, [2]),), "widths[0][1]", "a list"),
        (Config([1]), "widths.sizes", "a list"),
    ],
)
def test_bites_where_a_value_can_change(value, path, named, here):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Layer(jnp.ones(4), value)  # BUILT
    error = caught.value
    assert (error.code, error.cause.kind, error.cause.path) == ("FG402", "meta_value", path)
    assert error.location.line == here.line(__file__, "BUILT")
    assert f"`Layer.{path}` is" in str(error)
    assert named in str(error)


def test_quiet_for_what_cannot_change_and_for_data():
    with mode("strict"):
        for value in ((1.0,), frozenset({1}), Config((1,)), range(3), "abc"):
            Layer([jnp.ones(4), {"a": jnp.ones(2)}], value)
    assert not ledger.current().snapshot().findings
