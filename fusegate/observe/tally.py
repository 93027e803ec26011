"""Counting while a program is read: what was found, by the place that it belongs to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusegate.observe.primitives import Kind
from fusegate.observe.program import MARKER, Loop, NestedCall, Region, Repeat, Site
from fusegate.runtime import jaxprs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fusegate.errors import Location

OPAQUE: Final = "(opaque)"
"""The place of everything inside a name-routed composite."""

# `value` of an enum member is a Python call, and a region is made for each call of a round body.
_REDUCTION: Final = Kind.REDUCTION.value
_BREAKER: Final = Kind.BREAKER.value
_UNKNOWN: Final = Kind.UNKNOWN.value


class Place(NamedTuple):
    """Which contract an equation belongs to.

    Attributes:
        marker: Scope name of the melted round body around it.
        derived: Whether a derivative was taken of that round body.
        fused: Name of the marker composite around it, or `OPAQUE`.
    """

    marker: str | None = None
    derived: bool = False
    fused: str = ""

    def seen_from(self, scope: Scope, fused: str) -> Place:
        """The same place, seen from the equation that runs the sub-program.

        Args:
            scope: What the name stack of that equation says.
            fused: What a composite makes of its inside; empty for any other equation.
        """
        region = OPAQUE if OPAQUE in {fused, self.fused} else self.fused or fused
        if self.marker is not None:
            return Place(self.marker, self.derived or scope.differentiates, region)
        return Place(scope.marker, scope.derived, region)


class Scope(NamedTuple):
    """What a name stack says: the innermost marker, and whether a derivative was taken around it."""

    marker: str | None
    derived: bool
    differentiates: bool

    @classmethod
    def of(cls, equation: Any) -> Scope:
        """Reads a name stack: what stands before a marker was done to the round body as a whole."""
        marker, derived, differentiates = None, False, False
        for name, transform in jaxprs.scopes(equation):
            if transform:
                differentiates = differentiates or name in {"jvp", "transpose"}
            elif name.startswith(MARKER):
                marker, derived = name, differentiates
        return cls(marker, derived, differentiates)


class Item(NamedTuple):
    """One fact that has a line; `where` is None until the call of a library function gives it one."""

    kind: str
    name: str
    where: Location | None
    more: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class Tally:
    """What was found at one place: primitives by name, and items in program order."""

    counts: dict[str, int] = field(default_factory=dict)
    items: dict[Item, int] = field(default_factory=dict)

    def add(self, item: Item, count: int = 1) -> None:
        """Counts an item."""
        self.items[item] = self.items.get(item, 0) + count

    def take_in(self, part: Tally, where: Location | None) -> None:
        """Adds another tally; items without a line get this one."""
        for name, count in part.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        for item, count in part.items.items():
            self.add(item if item.where is not None else item._replace(where=where), count)


@dataclass(slots=True, eq=False)
class Summary:
    """One program, its sub-programs included, free of the place that it is called from."""

    equations: int = 0
    tallies: dict[Place, Tally] = field(default_factory=dict)
    composites: Counter[str] = field(default_factory=Counter)
    repeats: dict[Repeat, None] = field(default_factory=dict)

    def tally(self, place: Place) -> Tally:
        """The tally of a place, made on first use."""
        found = self.tallies.get(place)
        if found is None:
            found = self.tallies[place] = Tally()
        return found


def widest(branches: Iterable[Summary]) -> Summary:
    """Several branches as one: all that they hold, with the reductions of the one that has most."""
    joined = Summary()
    most: dict[Place, dict[Item, int]] = {}
    for branch in branches:
        for place, part in branch.tallies.items():
            sums = {item: n for item, n in part.items.items() if item.kind == _REDUCTION}
            if sum(sums.values()) > sum(most.get(place, {}).values()):
                most[place] = sums
            rest = {item: n for item, n in part.items.items() if item not in sums}
            joined.tally(place).take_in(Tally(part.counts, rest), None)
    for place, sums in most.items():
        joined.tally(place).items.update(sums)
    return joined


def region(parts: Iterable[tuple[Place, Tally]]) -> Region:
    """One region of several tallies: what stands inside and outside of marker composites."""
    equations = 0
    plain: dict[str, int] = {}
    reductions: list[Site] = []
    breakers: list[Site] = []
    unknown: list[Site] = []
    sites = {_REDUCTION: reductions, _BREAKER: breakers, _UNKNOWN: unknown}
    calls: list[NestedCall] = []
    loops: list[Loop] = []
    for place, tally in parts:
        equations += sum(tally.counts.values())
        if not place.fused or place.fused == OPAQUE:
            for name, count in tally.counts.items():
                plain[name] = plain.get(name, 0) + count
        for (kind, name, where, more), count in tally.items.items():
            if kind in sites:
                sites[kind].append(Site(name, where, count))
            elif kind == "call":
                owner, defined, donates = more
                calls.append(NestedCall(name, owner, where, defined, donates, place.fused, count))
            elif kind == "loop":
                loops.append(Loop(name, more[0], where, count))
    return Region(
        equations,
        plain,
        tuple(reductions),
        tuple(breakers),
        tuple(unknown),
        tuple(calls),
        tuple(loops),
    )
