"""FG505: how long a call takes, as a ratio to the reference kernel, against its pin. Pure: facts in, findings out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fusegate.judge.wording import finding

if TYPE_CHECKING:
    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec

FACTOR: Final = 2.0
"""How many times its pin a ratio may be. Beside other busy processes the ratio of one program moved by up to 1.6
between runs, and another machine of the same kind speeds the two programs up differently."""

_FIX: Final = (
    "look at what grew with it in the same pins; where nothing did, the same kernels do more work: a size, the "
    "trips of a loop, a dtype; where it is meant, run pytest --fusegate-pins=update and commit the file"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Warm time of a call, as a ratio to the reference kernel that ran before and after it.

    Attributes:
        ratio: The fastest call over the fastest run of the reference.
        low: The same of each round with its neighbours, the lower quartile.
        high: The upper quartile.
        rounds: How many rounds.
    """

    ratio: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return (
            f"{self.ratio:.3g} times the reference kernel ({self.low:.3g} to {self.high:.3g} in "
            f"{self.rounds} rounds)"
        )


def verdict(pinned: float, pace: Pace) -> Literal["kept", "slower", "unsteady"]:
    """Whether a pace keeps its pin; `unsteady` where its own spread is too wide to say so."""
    limit = FACTOR * pinned
    if pace.ratio <= limit:
        return "kept"
    return "slower" if pace.low > limit else "unsteady"


def check_pace(spec: Spec, pinned: float, pace: Pace, location: Location | None) -> Finding | None:
    """FG505, where even the lower quartile is beyond the tolerance.

    Args:
        spec: The boundary.
        pinned: The ratio of the pin file.
        pace: What was measured.
        location: The line that asks.
    """
    if verdict(pinned, pace) != "slower":
        return None
    return finding(
        "FG505",
        spec,
        location,
        f"a warm call takes {pace}, pinned at {pinned:g}: {pace.ratio / pinned:.1f} times as long, where "
        f"{FACTOR:g} is let pass",
        fix=_FIX,
        evidence={"pinned": pinned, "found": pace.ratio, "low": pace.low, "high": pace.high},
    )


def settled(pinned: float | None, ratio: float) -> float:
    """The figure to write: two digits, and the old one while the new one is within the tolerance of it.

    Example:
        >>> settled(None, 3.2184), settled(3.2, 4.1), settled(3.2, 31.7), settled(3.2, 1.2)
        (3.2, 3.2, 32.0, 1.2)
    """
    if pinned is not None and pinned / FACTOR <= ratio <= pinned * FACTOR:
        return pinned
    return float(f"{ratio:.2g}")
