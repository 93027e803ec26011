"""Holds the programs of a suite to the pin file: the object behind the fixture `fusegate_pins`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal

from fusegate import ledger
from fusegate.config import Mode
from fusegate.errors import Cause, Location, violation
from fusegate.evidence import origins, pinfile
from fusegate.evidence.gather import Subject, evidence
from fusegate.evidence.model import Evidence
from fusegate.evidence.pace import UnmeasurableError, pace_of
from fusegate.judge import pace
from fusegate.judge.allow import allowed
from fusegate.judge.deliver import deliver
from fusegate.judge.moved import Present, kind_of
from fusegate.judge.pinned import CODES, check_pins, grown_figures
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
        advice: What was found and fails no test (FG505), each with how often.
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
        self.advice: dict[str, int] = {}

    def __call__(
        self,
        f: Any,
        *args: Any,
        name: str | None = None,
        runtime: bool | None = None,
        target: str | None = None,
        **kwargs: Any,
    ) -> Evidence | None:
        """Holds the program of a function to its pins, or notes its figures in update.

        Traces and compiles are those of the running test. Nothing is compiled that a call has compiled, and
        nothing runs unless the run time is measured.

        Args:
            f: A boundary, a jitted function or a plain one.
            *args: Its arguments; `ShapeDtypeStruct`s do, except for the run time.
            name: Name in the pin file; the function's own where not given.
            runtime: Whether to run the function some dozens of times and hold its time, as a ratio to a
                reference kernel, to the pins (FG505). Where not given, the pin file says so: it is measured
                where it is pinned. With False it is not, and update takes it out of the file.
            target: What to compile for, as in `evidence`; its figures are pins of their own.
            **kwargs: Its keyword arguments.

        Returns:
            The evidence; None in off.

        Raises:
            PinViolation: A figure grew (FG501, FG502, FG503). Further findings are its notes.
            NotPinnedHereError: It is pinned for other environments only, or cannot be compiled for the target.
            AssertionError: It is not pinned at all.
            ValueError: The pin file cannot be read, there is no such target, or `runtime` is asked of a target.
        """
        __tracebackhide__ = True
        if target is not None and runtime:
            raise ValueError(f"runtime=True: nothing runs on {target}, it is only compiled for")
        if self.mode == "off":
            return None
        subject = Subject.of(f, args, kwargs)
        found = evidence(subject.lowerable, *subject.args, target=target, **subject.kwargs)
        name = found.name if name is None else name
        if target is not None and found.launches is None:
            why = self.skipped[f"{name} for {target}"] = found.not_observed["launches"]
            raise NotPinnedHereError(f"`{name}` is not observed for {target}: {why}")
        environment = f"{found.runtime} {found.target}"
        content = origins.content_of(subject)
        row = _row(found, subject, content, here=target is None)
        pinned = pinfile.read(self.path).get(name)
        if self.mode == "update":
            # First, so that a run time that cannot be measured costs no other figure.
            self.found.setdefault(name, {})[environment] = row
            old = (pinned or {}).get(environment, {}).get("runtime")
            if target is None and (runtime or (runtime is None and old is not None)):
                row |= self._new_runtime(subject, name, old)
            return found
        if pinned is None:
            raise AssertionError(
                f"`{name}` is not pinned in {self.path.name}: run pytest --fusegate-pins=update, and commit it"
            )
        if environment not in pinned:
            why = f"pinned for {', '.join(sorted(pinned))}; this is {environment}"
            self.skipped[name] = why
            raise NotPinnedHereError(f"`{name}` is {why}")
        location = frames.user_location()
        held = pinned[environment]
        for figure in CODES:
            if figure in held and figure not in row:
                why = found.not_observed.get(figure, "it is no boundary any more")
                self._unseen(name, why, figure)
        self._check(subject, found, (held, row), content, location)
        if target is None and (runtime or (runtime is None and "runtime" in held)):
            self._check_runtime(subject, found, name, held.get("runtime"), location)
        return found

    def _check(
        self,
        subject: Subject,
        found: Evidence,
        sides: tuple[pinfile.Row, pinfile.Row],
        content: origins.Content,
        location: Location | None,
    ) -> None:
        __tracebackhide__ = True
        lines = content.origins() if "equations" in grown_figures(*sides) else ()
        present = Present(found.kernels, content.calls, lines)
        findings = check_pins(found, *sides, present, location, _cause(subject))
        told = [one for one in findings if not allowed(one)]
        for one in told:
            ledger.current().add_finding(one, subject.spec)
        if told:
            error = violation(told[0], also=AssertionError)
            for other in told[1:]:
                error.add_note(str(other))
            raise error

    def _check_runtime(
        self,
        subject: Subject,
        found: Evidence,
        name: str,
        pinned: Any,
        location: Location | None,
    ) -> None:
        """FG505: an advice, and told at the end of the session where it cannot be measured."""
        try:
            now = pace_of(subject)
            if pinned is not None and pace.verdict(pinned, now) != "kept":
                # Whatever ran beside it has most likely gone by now; the better of the two counts.
                now = min(now, pace_of(subject), key=lambda one: one.ratio)
        except UnmeasurableError as error:
            self._unseen(name, str(error))
            return
        if pinned is None:
            self._unseen(name, f"no runtime is pinned; a warm call takes {now}")
        else:
            self._judge_runtime(subject, found, name, pinned, now, location)

    def _judge_runtime(
        self,
        subject: Subject,
        found: Evidence,
        name: str,
        pinned: float,
        now: pace.Pace,
        location: Location | None,
    ) -> None:
        if pace.verdict(pinned, now) == "unsteady":
            self._unseen(name, f"the machine is too unsteady: {now}, pinned at {pinned:g}")
        told = pace.check_pace(found, pinned, now, location)
        if told is not None and not allowed(told):
            deliver(told, Mode.STRICT, subject.spec)
            self.advice[str(told)] = self.advice.get(str(told), 0) + 1

    def _new_runtime(self, subject: Subject, name: str, old: Any) -> dict[str, float]:
        """The figure to write: the old one where it cannot be measured, none where there is no old one."""
        try:
            return {"runtime": pace.settled(old, pace_of(subject).ratio)}
        except UnmeasurableError as error:
            self._unseen(name, str(error))
            return {} if old is None else {"runtime": old}

    def _unseen(self, name: str, why: str, figure: str = "runtime") -> None:
        self.skipped[f"{figure} of {name}"] = f"not observed: {why}"

    def data(self) -> dict[str, Any]:
        """What this process found, as plain data for another one."""
        return {"found": self.found, "skipped": self.skipped, "advice": self.advice}

    def merge(self, data: dict[str, Any]) -> None:
        """Takes in what another process found.

        Args:
            data: As of its `data()`.
        """
        for name, environments in data["found"].items():
            self.found.setdefault(name, {}).update(environments)
        self.skipped.update(data["skipped"])
        for text, count in data["advice"].items():
            self.advice[text] = self.advice.get(text, 0) + count

    def write(self) -> list[str]:
        """Writes what was found in update; returns what was changed.

        Raises:
            ValueError: The file that is there cannot be read; it is left as it is.
        """
        return pinfile.write(self.path, self.found) if self.found else []


def _row(
    found: Evidence, subject: Subject, content: origins.Content, *, here: bool
) -> dict[str, Any]:
    """The figures that are pinned, the run time apart; those that were not observed are left out.

    Args:
        found: The evidence.
        subject: What it is of.
        content: What its traced program holds.
        here: Whether the program is one that calls run, and not one for a target that is not there.
    """
    row: dict[str, Any] = {
        figure: getattr(found, figure) for figure in _SEEN if getattr(found, figure) is not None
    }
    if subject.spec is not None and here:
        counted = ledger.current().counters_of(subject.spec)
        # A test that finds its programs compiled by an earlier one still has one of each.
        row["traces"] = max(counted.traces, 1)
        row["compiles"] = max(counted.compiles + counted.cache_hits, 1)
    if found.kernels:
        kinds: Counter[str] = Counter()
        for one in found.kernels:
            kinds[kind_of(one)] += one.launches
        row["kernels"] = dict(sorted(kinds.items()))
    if content.counts is not None:
        row["primitives"] = content.primitives()
    calls: Counter[str] = Counter()
    for call in content.calls:
        if call.owner != "library":  # how the runtime spells a function is its own affair
            calls[call.name] += call.count
    if calls:
        row["calls"] = dict(sorted(calls.items()))
    return row


def _cause(subject: Subject) -> Cause | None:
    """Why the boundary traced or compiled again last, in the running test."""
    if subject.spec is None:
        return None
    causes = ledger.current().counters_of(subject.spec).causes
    return causes[-1] if causes else None
