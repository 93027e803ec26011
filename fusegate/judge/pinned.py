"""FG501, FG502 and FG503 against a suite's pins: what moved, from what to what. Pure: facts in, findings out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fusegate.judge.pins import FIX_LAUNCHES, FIX_MEMORY, kernel_phrase
from fusegate.judge.wording import finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec
    from fusegate.observe.evidence import Kernel

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


def check_pins(
    spec: Spec,
    pinned: Mapping[str, int | Mapping[str, int]],
    now: Mapping[str, int | Mapping[str, int]],
    kernels: Sequence[Kernel],
    location: Location | None,
) -> list[Finding]:
    """Judges the figures of a program against its pins. Only more than pinned is told.

    Args:
        spec: The boundary.
        pinned: Figure -> value of the pin file; `kernels` holds launches by kind.
        now: The same of the program as it is; a figure that was not observed is left out.
        kernels: Its table of kernels, to name what is new.
        location: The line that asks.

    Returns:
        The findings in the order of the codes, one for each rule.
    """
    moved: dict[str, list[tuple[str, int, int]]] = {}
    for figure, code in CODES.items():
        before, after = pinned.get(figure), now.get(figure)
        if isinstance(before, int) and isinstance(after, int) and after > _allowed(figure, before):
            moved.setdefault(code, []).append((figure, before, after))
    likely = _likely(pinned, now, kernels)
    return [
        finding(
            code,
            spec,
            location,
            "; ".join(f"{figure} {before:,} -> {after:,}" for figure, before, after in rows)
            + f", against the pins{likely}",
            fix=f"{_FIXES[code]}; where it is meant, run pytest --fusegate-pins=update and commit the file",
            evidence={figure: {"pinned": before, "found": after} for figure, before, after in rows},
        )
        for code, rows in moved.items()
    ]


def _allowed(figure: str, pinned: int) -> float:
    return pinned * (1 + TOLERANCE) if figure.endswith("_bytes") else pinned


def _likely(
    pinned: Mapping[str, int | Mapping[str, int]],
    now: Mapping[str, int | Mapping[str, int]],
    kernels: Sequence[Kernel],
) -> str:
    """The likely cause: kernels of a kind that the pins hold fewer of, else more equations."""
    before, after = pinned.get("kernels"), now.get("kernels")
    if isinstance(before, int) or isinstance(after, int) or before is None or after is None:
        return ""
    grown = [kind for kind, count in after.items() if count > before.get(kind, 0)]
    if not grown:
        return ""
    parts = []
    for kind in grown[:3]:
        lines = [kernel_phrase(one) for one in kernels if kind_of(one) == kind][:3]
        parts.append(f"{kind} {before.get(kind, 0)} -> {after[kind]} ({'; '.join(lines)})")
    return "; likely cause: " + ", ".join(parts)


def kind_of(kernel: Kernel) -> str:
    """What a kernel counts as in the pins: its opcode, since fusion kinds are the compiler's choice."""
    return kernel.kind.partition(" ")[0]
