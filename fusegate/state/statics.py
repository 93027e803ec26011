"""Static arguments: what a jit mis-keys without a word, with the path to it."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator
from typing import Any, Final

from fusegate.judge.state import ValueFact
from fusegate.runtime import arrays
from fusegate.state import content, identity, twins
from fusegate.state.keys import NotByValue, value_key

_LOOSE_FIX: Final = (
    "pass it on its own, where its type counts, or key the whole value with fusegate.bind"
)
_DEPTH: Final = 6


def unsafe_static(value: Any, path: str) -> list[ValueFact]:
    """Says which parts of a static argument a jit would mis-key.

    Args:
        value: The argument.
        path: Its name.

    Returns:
        At most one refusal (`identity`, `mutable`, `array`), the first that was found: this value costs a
        trace per call, or a stale program. Then one `loose` fact per part for which a value of another
        type or sign would be served the same program, if it ever came: these are facts for a report, the
        fault is only there once both were seen (`static_collisions`).
    """
    found: list[ValueFact] = []
    try:
        value_key(value)
    except NotByValue as error:
        found.append(error.fact(path))
    found.extend(_loose(value, path, _DEPTH, top=True))
    return found


def static_collisions(before: Any, after: Any, path: str) -> list[ValueFact]:
    """Says where two values that a jit takes for the same key differ in type or sign.

    Args:
        before: A value that was traced.
        after: A value that the same program is served for.
        path: Name of the argument.

    Returns:
        One fact per part like 1 and True, 2 and 2.0, 0.0 and -0.0; empty where the two differ for the jit
        as well, or not at all.
    """
    if not twins.equal(before, after):
        return []
    reason = (
        "equals the value of an earlier call and is not the same: the earlier one's program runs"
    )
    return [
        ValueFact("loose", place, "a number of another type or sign", reason, _LOOSE_FIX)
        for place in twins.strict_differences(before, after, path)
    ]


def _loose(value: Any, path: str, depth: int, *, top: bool = False) -> Iterator[ValueFact]:
    what = _look_alike(value, top=top)
    if what is not None:
        reason = (
            "is equal to a value of another type or sign, for which a jit serves the same program"
        )
        yield ValueFact("loose", path, what, reason, _LOOSE_FIX)
    if not depth or isinstance(value, (str, bytes, enum.Enum, type)) or content.is_array(value):
        return
    if isinstance(value, (tuple, frozenset)):
        for index, item in enumerate(value):
            yield from _loose(item, f"{path}[{index}]", depth - 1)
    elif dataclasses.is_dataclass(value):
        for name, item in identity.attributes_of(value).items():
            yield from _loose(item, f"{path}.{name}", depth - 1)


def _look_alike(value: Any, *, top: bool) -> str | None:
    """What a number is that others are equal to; ints are left out: they are sizes nearly everywhere."""
    if isinstance(value, enum.Enum):
        return None
    if isinstance(value, float) and value == 0.0:
        return "a zero with a sign"
    if top:  # the jit compares the type of the argument itself
        return None
    if isinstance(value, bool):
        return "a bool"
    if arrays.is_host_array(value) and not content.is_array(value):
        return f"a numpy {value.dtype} scalar"
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return "a float with an integer's value"
    return None
