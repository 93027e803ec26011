"""The way out of a finding about fusion: the `lax` spelling, or the tool that a loop wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fusegate.observe.program import NestedCall

LOOPS: Final = (
    "choose by what changes: independent items: jax.vmap; a small fixed count: a straight line; a carry "
    "of one shape: lax.scan; shapes that change: an eager @driver over islands"
)
"""The loop table."""

_LAX: Final = {
    "_where": "lax.select",
    "where": "lax.select",
    "clip": "lax.clamp",
    "floor_divide": "lax.div",
    "true_divide": "lax.div",
    "remainder": "lax.rem",
    "_power": "lax.integer_pow",
    "power": "lax.integer_pow",
    "square": "lax.square",
    "roll": "lax.slice and lax.concatenate",
    "_roll_static": "lax.slice and lax.concatenate",
    "pad": "lax.pad",
    "_pad": "lax.pad",
    "maximum": "lax.max",
    "minimum": "lax.min",
    "flip": "lax.rev",
    "_flip": "lax.rev",
    "atleast_1d": "lax.expand_dims",
    "atleast_2d": "lax.expand_dims",
    "squeeze": "lax.squeeze",
    "isnan": "lax.ne(x, x)",
    "logical_and": "lax.bitwise_and",
    "logical_or": "lax.bitwise_or",
    "logical_not": "lax.bitwise_not",
    "relu": "lax.max(x, 0)",
}
"""Library jit -> the `lax` functions that spell it without a call."""

_LOOPED: Final = frozenset({"scan", "while", "cond"})
_INDEXED: Final = frozenset({"gather", "dynamic_slice"})
_CONTRACTED: Final = frozenset({"dot_general", "ragged_dot_general", "conv_general_dilated"})


def of_breakers(primitives: Sequence[str]) -> str:
    """What to use instead of primitives that cannot ride in one fused kernel."""
    ways: list[str] = []
    names = set(primitives)
    if names & _LOOPED:
        ways.append(f"a loop runs around a round body, never in it; {LOOPS}")
    if names & _INDEXED:
        ways.append(
            "take static slices (lax.slice, also with strides), or pick the rows before the round body "
            "and pass them in"
        )
    if any(name.startswith(("scatter", "dynamic_update_slice")) for name in names):
        ways.append("build the result with lax.concatenate or lax.select on a mask")
    if names & _CONTRACTED:
        ways.append(
            "spell the product as lax.mul and the one sum, or give it an @island of its own"
        )
    if not ways:
        ways.append("move it out of the round body, into an @island of its own")
    allowed = ", ".join(repr(name) for name in primitives)
    comma = "," if len(primitives) == 1 else ""
    return f"{'; '.join(ways)}; or declare allow_primitives=({allowed}{comma})"


def of_calls(calls: Sequence[NestedCall]) -> str:
    """What to write instead of nested jits."""
    ways: list[str] = []
    known = {
        call.name: _LAX[call.name]
        for call in calls
        if call.owner == "library" and call.name in _LAX
    }
    ways += [f"spell `{name.strip('_')}` as {lax}" for name, lax in known.items()]
    if any(call.owner == "library" and call.name not in _LAX for call in calls):
        ways.append("use the `lax` primitives instead of the `numpy` wrapper")
    if any(call.owner != "library" for call in calls):
        ways.append(
            "call the plain function: drop its jit, reach through `__wrapped__`, or jit it with "
            "inline=True"
        )
    return "; ".join(ways)


def of_callbacks(primitives: Iterable[str]) -> str:
    """What to do about host callbacks."""
    names = set(primitives)
    if names <= {"debug_print", "debug_callback"}:
        return "remove the print; or return the value and print it from the driver"
    return (
        "split the boundary into two islands around the host step and run it in the driver, under "
        "host_op(...)"
    )
