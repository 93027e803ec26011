"""Results of a call: waiting for them, and comparing two without showing a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusegate.runtime import arrays, resolve, trees


def wait(out: Any) -> Any:
    """Waits until every array of a result is there; gives the result back."""
    return resolve.required().module.block_until_ready(out)


@dataclass(frozen=True, slots=True)
class Parity:
    """Whether two results agree.

    Attributes:
        agrees: Whether they do.
        exact: Whether every leaf is equal, none only within the tolerance.
        reason: Where and how they differ, in structure, shape, dtype or by value; empty where they agree.
    """

    agrees: bool
    exact: bool
    reason: str = ""

    def __str__(self) -> str:
        if not self.agrees:
            return f"differ: {self.reason}"
        return "equal" if self.exact else "agree within the tolerance"


def compare(ours: Any, theirs: Any, *, rtol: float, atol: float) -> Parity:
    """Compares two results leaf by leaf.

    Floating-point and complex leaves agree within the tolerance; every other leaf, field elements included,
    has to be equal. Arrays are compared where they are, and one boolean of each is read: a Python number made
    of a field element would end the interpreter.

    Args:
        ours: The one.
        theirs: The other.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
    """
    mine, structure = trees.leaves_of(ours)
    others, other_structure = trees.leaves_of(theirs)
    if structure != other_structure:
        return Parity(False, False, "their structures are not the same")
    exact = True
    for index, (one, other) in enumerate(zip(mine, others, strict=True)):
        kinds = arrays.describe(one), arrays.describe(other)
        if kinds[0] != kinds[1]:
            return Parity(False, False, f"leaf {index}: {kinds[0]} and {kinds[1]}")
        equal, near = _leaf(one, other, rtol, atol)
        if not near:
            return Parity(False, False, f"leaf {index}, {kinds[0]}: the values are not the same")
        exact = exact and equal
    return Parity(True, exact)


def _leaf(one: Any, other: Any, rtol: float, atol: float) -> tuple[bool, bool]:
    """Whether two leaves of one shape and dtype are equal, and whether they are near."""
    if not (hasattr(one, "dtype") and hasattr(one, "shape")):
        equal = bool(one == other)
        return equal, equal
    numpy = resolve.required().public("numpy")
    same = one == other
    floating = numpy.issubdtype(one.dtype, numpy.inexact)
    if floating:  # NaN agrees with NaN
        same = same | (numpy.isnan(one) & numpy.isnan(other))
    equal = bool(numpy.all(same))
    if equal or not floating:
        return equal, equal
    return False, bool(numpy.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True))
