"""FG501, FG502 and FG503 against a suite's pins: what moved, from what to what. Pure: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fusegate.judge.moved import new_equations, new_kernels
from fusegate.judge.pins import FIX_LAUNCHES, FIX_MEMORY
from fusegate.judge.wording import finding

if TYPE_CHECKING:
    from fusegate.errors import Cause, Finding, Location
    from fusegate.judge.moved import Figures, Present
    from fusegate.ledger import Spec

CODES: Final = {
    "launches": "FG501",
    "temp_bytes": "FG502",
    "peak_bytes": "FG502",
    "traces": "FG503",
    "compiles": "FG503",
    "equations": "FG503",
}
"""Pinned figure -> the rule that speaks when it grows."""
TOLERANCE: Final = 0.05
"""Part by which bytes may grow before they are told: the compiler's plan moves a little between programs."""

_FIXES: Final = {
    "FG501": FIX_LAUNCHES,
    "FG502": FIX_MEMORY,
    "FG503": "look for an argument that is new on each call, a nested call, or a loop that unrolls",
}


def grown_figures(pinned: Figures, now: Figures) -> dict[str, tuple[int, int]]:
    """The counts that are more than their pins let pass: figure -> (pinned, found), in the order of the codes.

    A figure that one side does not hold is not compared.
    """
    found = {}
    for figure in CODES:
        before, after = pinned.get(figure), now.get(figure)
        if isinstance(before, int) and isinstance(after, int) and after > _allowed(figure, before):
            found[figure] = (before, after)
    return found


def check_pins(
    spec: Spec,
    pinned: Figures,
    now: Figures,
    present: Present,
    location: Location | None,
    cause: Cause | None = None,
) -> list[Finding]:
    """Judges the figures of a program against its pins. Only more than pinned is told.

    Args:
        spec: The boundary.
        pinned: Figure -> value of the pin file; tables hold counts by kind.
        now: The same of the program as it is; a figure that was not observed is left out.
        present: What the program holds, to name what is new.
        location: The line that asks.
        cause: Why the boundary traced or compiled again, where it did.

    Returns:
        The findings in the order of the codes, one for each rule.
    """
    moved: dict[str, dict[str, tuple[int, int]]] = {}
    for figure, sides in grown_figures(pinned, now).items():
        moved.setdefault(CODES[figure], {})[figure] = sides
    kernels = new_kernels(pinned, now, present)
    equations = new_equations(pinned, now, present)
    found = []
    for code, rows in moved.items():
        # What grew speaks first: the program for its equations, the kernels for what it launches and holds.
        likely = (equations or kernels) if "equations" in rows else (kernels or equations)
        again = {"traces", "compiles"} & set(rows)
        if again and "equations" not in rows:
            likely = ""
        one = finding(
            code,
            spec,
            location,
            "; ".join(f"{figure} {old:,} -> {new:,}" for figure, (old, new) in rows.items())
            + ", against the pins"
            + (f"; likely cause: {likely}" if likely else ""),
            fix=f"{_FIXES[code]}; where it is meant, run pytest --fusegate-pins=update and commit the file",
            evidence={figure: {"pinned": old, "found": new} for figure, (old, new) in rows.items()},
        )
        found.append(replace(one, cause=cause) if again else one)
    return found


def _allowed(figure: str, pinned: int) -> float:
    return pinned * (1 + TOLERANCE) if figure.endswith("_bytes") else pinned
