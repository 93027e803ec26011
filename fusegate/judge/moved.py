"""The likely cause of a pinned figure that grew: new kernels, new calls, a loop that unrolled. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fusegate.judge.pins import kernel_phrase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fusegate.errors import Location
    from fusegate.observe.evidence import Kernel
    from fusegate.observe.program import NestedCall

    Figures = Mapping[str, int | float | Mapping[str, int]]
    """Figure -> value: `launches`, and tables such as `kernels`, launches by kind."""

LOOP: Final = 4
"""Rounds from which a line whose equations repeat is called a loop."""
SHARE: Final = 0.2
"""Part of the growth that a line holds at least, to be named."""
SHOWN: Final = 3
"""Kinds, calls and primitives that a message names."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The equations that one user line leaves in a program.

    Attributes:
        location: The line.
        primitives: Primitive -> how many, the most frequent first.
        times: How often its most frequent equation comes from one place in the line: the rounds of a loop
            that Python ran.
    """

    location: Location
    primitives: Mapping[str, int]
    times: int = 1

    @property
    def equations(self) -> int:
        """How many equations."""
        return sum(self.primitives.values())


@dataclass(frozen=True, slots=True)
class Present:
    """What a program holds now, to name what is new in it.

    Attributes:
        kernels: Its table of kernels.
        calls: Its nested jits.
        origins: Its user lines; may be left empty where its equations did not grow.
    """

    kernels: Sequence[Kernel] = ()
    calls: Sequence[NestedCall] = ()
    origins: Sequence[Origin] = ()


def new_kernels(pinned: Figures, now: Figures, present: Present) -> str:
    """The kinds of kernels that the pins hold fewer of: `sort 0 -> 1 (1 sort at prover.py:12 (sort))`."""
    grown = _grown(pinned, now, "kernels") or {}
    parts = []
    for kind, (before, after) in list(grown.items())[:SHOWN]:
        rows = [kernel_phrase(one) for one in present.kernels if kind_of(one) == kind]
        # Of a long list with old ones in it, nobody can tell which are new: the pins hold no lines.
        told = f" ({'; '.join(rows[:SHOWN])})" if len(rows) <= SHOWN or not before else ""
        parts.append(f"{kind} {before} -> {after}{told}")
    return ", ".join(parts)


def new_equations(pinned: Figures, now: Figures, present: Present) -> str:
    """New calls, the lines that hold most of the new equations, and the primitives that there are more of.

    As `a new nested call `helper` at prover.py:20; a loop unrolled at prover.py:12 (30 x `mul`, `add`);
    `mul` 10 -> 40`.
    Pins of an older format hold no primitives: then every line and no count is told.
    """
    parts = _calls(pinned, now, present)
    grown = _grown(pinned, now, "primitives")
    parts += _lines(grown, _growth(pinned, now), present.origins)
    counts = [f"`{name}` {old:,} -> {new:,}" for name, (old, new) in (grown or {}).items()]
    if counts:
        more = f", ... ({len(counts)} primitives)" if len(counts) > SHOWN else ""
        parts.append(", ".join(counts[:SHOWN]) + more)
    return "; ".join(parts)


def _calls(pinned: Figures, now: Figures, present: Present) -> list[str]:
    if "primitives" not in pinned:  # an older format: no call is known to be new
        return []
    # A program without nested jits has no `calls` in its pins.
    grown = _grown({"calls": {}, **pinned}, now, "calls") or {}
    parts = []
    for name, (before, after) in list(grown.items())[:SHOWN]:
        places = dict.fromkeys(str(one.location) for one in present.calls if one.name == name)
        where = f" at {', '.join(list(places)[:SHOWN])}" if places else ""
        parts.append(
            f"nested call `{name}` {before} -> {after}{where}"
            if before
            else f"a new nested call `{name}`{where}"
        )
    return parts


def _lines(
    grown: Mapping[str, tuple[int, int]] | None, growth: int, origins: Sequence[Origin]
) -> list[str]:
    """The lines that hold most of what is new, as far as counts can tell; two at most."""
    added = None if grown is None else {name: new - old for name, (old, new) in grown.items()}
    rated = []
    for one in origins:
        held = {
            name: count for name, count in one.primitives.items() if added is None or name in added
        }
        size = sum(held.values())
        # What it holds beyond all that was added has been there before, and speaks against it.
        old = sum(max(0, count - added[name]) for name, count in held.items()) if added else 0
        if size - 2 * old > 0 and size - old >= SHARE * growth:
            rated.append((2 * old - size, size, one, tuple(held)))
    rated.sort(key=lambda row: row[0])
    parts, told = [], 0
    for _, size, one, names in rated[:2]:
        if told >= (1 - SHARE) * growth:
            break
        told += size
        listed = ", ".join(f"`{name}`" for name in names[:SHOWN]) + (
            ", ..." if len(names) > SHOWN else ""
        )
        parts.append(
            f"a loop unrolled at {one.location} ({one.times} x {listed})"
            if one.times >= LOOP
            else f"{size} equations at {one.location} ({listed})"
        )
    return parts


def _growth(pinned: Figures, now: Figures) -> int:
    before, after = pinned.get("equations"), now.get("equations")
    return after - before if isinstance(before, int) and isinstance(after, int) else 0


def _grown(pinned: Figures, now: Figures, table: str) -> dict[str, tuple[int, int]] | None:
    """What a table holds more of than its pin, the most first; None where one of the two is missing."""
    before, after = pinned.get(table), now.get(table)
    if before is None or after is None or isinstance(before, (int, float)):
        return None
    if isinstance(after, (int, float)):
        return None
    grown = {
        name: (before.get(name, 0), count)
        for name, count in after.items()
        if count > before.get(name, 0)
    }
    return dict(sorted(grown.items(), key=lambda row: row[1][0] - row[1][1]))


def kind_of(kernel: Kernel) -> str:
    """What a kernel counts as in the pins: its opcode, since fusion kinds are the compiler's choice."""
    return kernel.kind.partition(" ")[0]
