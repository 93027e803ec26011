"""Holds the programs of a suite to the pin file: the object behind the fixture `fusegate_pins`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal

from fusegate import ledger
from fusegate.errors import violation
from fusegate.evidence import pinfile
from fusegate.evidence.gather import Subject, evidence
from fusegate.evidence.model import Evidence
from fusegate.judge.allow import allowed
from fusegate.judge.pinned import check_pins, kind_of
from fusegate.runtime import frames

PinMode = Literal["check", "update", "off"]
MODES: Final[tuple[PinMode, ...]] = ("check", "update", "off")
_SEEN: Final = ("launches", "temp_bytes", "peak_bytes", "equations")


class NotPinnedHereError(Exception):
    """A boundary is pinned, but not for this platform, runtime and version; a test is skipped with it."""


class PinSession:
    """The pins of a test session.

    Attributes:
        found: Figures to write, in update.
        skipped: What could not be checked, and why.
    """

    def __init__(self, path: Path, mode: PinMode) -> None:
        """Makes a session.

        Args:
            path: The pin file.
            mode: What to do with it.
        """
        self.path = path
        self.mode = mode
        self.found: pinfile.Pins = {}
        self.skipped: dict[str, str] = {}

    def __call__(
        self, f: Any, *args: Any, name: str | None = None, **kwargs: Any
    ) -> Evidence | None:
        """Holds the program of a function to its pins, or notes its figures in update.

        Traces and compiles are those of the running test. Nothing is compiled that a call has compiled.

        Args:
            f: A boundary, a jitted function or a plain one.
            *args: Its arguments; `ShapeDtypeStruct`s do.
            name: Name in the pin file; the function's own where not given.
            **kwargs: Its keyword arguments.

        Returns:
            The evidence; None in off.

        Raises:
            PinViolation: A figure grew (FG501, FG502, FG503). Further findings are its notes.
            NotPinnedHereError: It is pinned for other environments only.
            AssertionError: It is not pinned at all.
            ValueError: The pin file cannot be read.
        """
        __tracebackhide__ = True
        if self.mode == "off":
            return None
        found = evidence(f, *args, **kwargs)
        subject = Subject.of(f, args, kwargs)
        name = found.name if name is None else name
        environment = f"{found.runtime} {found.target}"
        row = _row(found, subject)
        if self.mode == "update":
            self.found.setdefault(name, {})[environment] = row
            return found
        pinned = pinfile.read(self.path).get(name)
        if pinned is None:
            raise AssertionError(
                f"`{name}` is not pinned in {self.path.name}: run pytest --fusegate-pins=update, and commit it"
            )
        if environment not in pinned:
            why = f"pinned for {', '.join(sorted(pinned))}; this is {environment}"
            self.skipped[name] = why
            raise NotPinnedHereError(f"`{name}` is {why}")
        findings = check_pins(
            found, pinned[environment], row, found.kernels, frames.user_location()
        )
        told = [one for one in findings if not allowed(one)]
        for one in told:
            ledger.current().add_finding(one, subject.spec)
        if told:
            error = violation(told[0], also=AssertionError)
            for other in told[1:]:
                error.add_note(str(other))
            raise error
        return found

    def data(self) -> dict[str, Any]:
        """What this process found, as plain data for another one."""
        return {"found": self.found, "skipped": self.skipped}

    def merge(self, data: dict[str, Any]) -> None:
        """Takes in what another process found.

        Args:
            data: As of its `data()`.
        """
        for name, environments in data["found"].items():
            self.found.setdefault(name, {}).update(environments)
        self.skipped.update(data["skipped"])

    def write(self) -> list[str]:
        """Writes what was found in update; returns what was changed.

        Raises:
            ValueError: The file that is there cannot be read; it is left as it is.
        """
        return pinfile.write(self.path, self.found) if self.found else []


def _row(found: Evidence, subject: Subject) -> pinfile.Row:
    """The figures that are pinned; those that were not observed are left out."""
    row: dict[str, Any] = {
        figure: getattr(found, figure) for figure in _SEEN if getattr(found, figure) is not None
    }
    if subject.spec is not None:
        counted = ledger.current().counters_of(subject.spec)
        # A test that finds its programs compiled by an earlier one still has one of each.
        row["traces"] = max(counted.traces, 1)
        row["compiles"] = max(counted.compiles + counted.cache_hits, 1)
    if found.kernels:
        kinds: Counter[str] = Counter()
        for one in found.kernels:
            kinds[kind_of(one)] += one.launches
        row["kernels"] = dict(sorted(kinds.items()))
    return row
