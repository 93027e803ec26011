"""The one mutable object: what was counted and found since the last reset, bounded in memory.

Floor 4: imports the ground below it. Observers write here, reports read snapshots; nothing here decides.
Abstract signatures are kept as opaque values, so that the ledger knows no array library.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary, WeakSet

from fusegate.errors import Cause, Finding, Location
from fusegate.records import (
    BoundaryEntry as BoundaryEntry,
    Counters as Counters,
    DriverCounters as DriverCounters,
    DriverEntry as DriverEntry,
    KeySpace as KeySpace,
    Snapshot as Snapshot,
    Spec as Spec,
    TraceEntry as TraceEntry,
    Unflushed as Unflushed,
)

MAX_KEYS: Final = 1024
"""Signatures kept per boundary. Beyond it they are counted and no longer compared."""
MAX_CAUSES: Final = 256
"""Causes kept per boundary, the first ones; later ones are counted with their violation."""
MAX_FINDINGS: Final = 2000
"""Distinct findings kept. Beyond it they are only counted, in `Ledger.dropped`."""
MAX_BOUNDARIES: Final = 10_000
"""Boundaries kept by definition site; later ones are counted under one name."""


class Ledger:
    """Counters and findings since it was made. All methods are safe under threads.

    Attributes:
        frozen: How many `freeze()` and `with frozen()` are in force; beyond zero, every trace or compile of
            a boundary is a violation.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.frozen = 0
        self._sites: dict[tuple[str, str, Location | None], Counters] = {}
        self._spaces: WeakKeyDictionary[Any, KeySpace] = WeakKeyDictionary()
        self._drivers: dict[tuple[str, Location | None], DriverCounters] = {}
        self._findings: dict[tuple[Any, ...], Finding] = {}
        self._dropped = 0
        self._allowed: dict[tuple[str, str], int] = {}
        self._unused: dict[tuple[str, str, Location | None], None] = {}
        self._programs: dict[Any, Any] = {}

    def space(self, spec: Spec) -> KeySpace:
        """The key space of a boundary, made on first use."""
        with self._lock:
            space = self._spaces.get(spec)
            if space is None:
                space = self._spaces[spec] = KeySpace()
            return space

    def site(self, spec: Spec) -> Counters:
        """The counters of a boundary's definition site, shared by all that were built there."""
        key = (spec.name, spec.role, spec.defined)
        with self._lock:
            counters = self._sites.get(key)
            if counters is None:
                if len(self._sites) >= MAX_BOUNDARIES:
                    key = ("(further boundaries)", "boundary", None)
                counters = self._sites.setdefault(key, Counters())
            return counters

    def count(self, spec: Spec, **amounts: float) -> None:
        """Adds to counters of a boundary, by name: `count(spec, traces=1, trace_s=0.2)`."""
        with self._lock:
            for counters in (self.space(spec).counters, self.site(spec)):
                for name, amount in amounts.items():
                    setattr(counters, name, getattr(counters, name) + amount)

    def driver(self, name: str, defined: Location | None = None) -> DriverCounters:
        """The counters of a driver, made on first use."""
        with self._lock:
            if (name, defined) not in self._drivers and len(self._drivers) >= MAX_BOUNDARIES:
                name, defined = "(further drivers)", None
            return self._drivers.setdefault((name, defined), DriverCounters())

    def count_driver(
        self, name: str, defined: Location | None, op: str = "", *, jit: str = "", **amounts: int
    ) -> None:
        """Adds to counters of a driver, by name.

        Args:
            name: Name of the driver.
            defined: Its definition site.
            op: Reason of a host op that ran once more.
            jit: Name of a jit that was launched once more.
            **amounts: Counter -> what to add.
        """
        with self._lock:
            counters = self.driver(name, defined)
            for what, amount in amounts.items():
                setattr(counters, what, getattr(counters, what) + amount)
            for key, table in ((op, counters.host_ops), (jit, counters.jits)):
                if key and (key in table or len(table) < MAX_CAUSES):
                    table[key] = table.get(key, 0) + 1

    def remember(self, key: Any, value: Any) -> Any:
        """Keeps a value under a key, and returns the one that was kept before; None for the first."""
        with self._lock:
            earlier = self._programs.get(key)
            if earlier is not None or len(self._programs) < MAX_FINDINGS:
                self._programs[key] = value
            return earlier

    def add_trace(self, spec: Spec, entry: TraceEntry, *, repeated: bool) -> None:
        """Records a finished trace; one whose signature was `repeated` adds no key."""
        with self._lock:
            space = self.space(spec)
            if len(space.traced) < MAX_KEYS:
                space.traced.append(entry)
            if repeated:
                return
            space.budgeted += not entry.aside
            for counters in (space.counters, self.site(spec)):
                if len(counters.keys) < MAX_KEYS and entry.signature not in counters.keys:
                    counters.keys.append(entry.signature)

    def add_compile(self, spec: Spec, call: Any) -> None:
        """Records the call signature of a finished compile."""
        with self._lock:
            compiled = self.space(spec).compiled
            if len(compiled) < MAX_KEYS:
                compiled.append(call)

    def add_cause(self, spec: Spec, cause: Cause) -> None:
        """Records why a boundary traced or compiled again."""
        with self._lock:
            for counters in (self.space(spec).counters, self.site(spec)):
                if len(counters.causes) < MAX_CAUSES:
                    counters.causes.append(cause)

    def add_finding(self, finding: Finding, spec: Spec | None = None) -> bool:
        """Records a finding.

        Args:
            finding: What was found.
            spec: The boundary that it is about, where it is about one.

        Returns:
            Whether it is the first of its kind, so that it is worth a warning.
        """
        with self._lock:
            if spec is not None and finding.is_error:
                for counters in (self.space(spec).counters, self.site(spec)):
                    counters.violations += finding.count
            earlier = self._findings.get(finding.key)
            if earlier is not None:
                self._findings[finding.key] = replace(earlier, count=earlier.count + finding.count)
                return False
            if len(self._findings) >= MAX_FINDINGS:
                self._dropped += finding.count
                return False
            self._findings[finding.key] = finding
            return True

    def add_allowed(self, finding: Finding, reason: str) -> None:
        """Counts a finding that a `with allow()` let pass."""
        with self._lock:
            key = (finding.code, reason)
            if key in self._allowed or len(self._allowed) < MAX_FINDINGS:
                self._allowed[key] = self._allowed.get(key, 0) + finding.count

    def add_unused_allow(self, code: str, reason: str, location: Location | None) -> None:
        """Records a `with allow()` that nothing used."""
        with self._lock:
            if len(self._unused) < MAX_FINDINGS:
                self._unused[code, reason, location] = None

    def snapshot(self) -> Snapshot:
        """Returns a frozen copy of everything counted and found."""
        for one in list(_Current.unflushed):
            one.flush()
        with self._lock:
            return Snapshot(
                boundaries=tuple(
                    BoundaryEntry(name, role, defined, counters.copy())
                    for (name, role, defined), counters in self._sites.items()
                ),
                findings=tuple(self._findings.values()),
                dropped=self._dropped,
                allowed=tuple((*key, count) for key, count in self._allowed.items()),
                unused_allows=tuple(key for key in self._unused if key[:2] not in self._allowed),
                not_observed=dict(_Current.not_observed),
                drivers=tuple(
                    DriverEntry(*key, counters.copy()) for key, counters in self._drivers.items()
                ),
            )

    def counters_of(self, spec: Spec) -> Counters:
        """Returns a frozen copy of one boundary's counters."""
        with self._lock:
            return self.space(spec).counters.copy()


class _Current:
    ledger: Ledger = Ledger()
    # Beside the ledger: what this process cannot see stays unseen after a reset.
    not_observed: ClassVar[dict[str, str]] = {}
    unflushed: ClassVar[WeakSet[Unflushed]] = WeakSet()


def mark_not_observed(what: str, why: str) -> None:
    """Records that something cannot be seen in this process, with the reason.

    Args:
        what: The observation, `compiles` or `host reads`.
        why: Why not, in one line.
    """
    _Current.not_observed.setdefault(what, why)


def clear_not_observed(what: str) -> None:
    """Takes back `mark_not_observed`, once it can be seen again."""
    _Current.not_observed.pop(what, None)


def watch_unflushed(one: Unflushed) -> None:
    """Asks `one` to count what it has before each snapshot, for as long as it lives."""
    _Current.unflushed.add(one)


def current() -> Ledger:
    """The ledger in use."""
    return _Current.ledger


def reset() -> None:
    """Starts a new ledger: counters, keys, causes and findings begin again at nothing.

    The runtime's caches stay: a boundary that is warm stays warm and traces nothing anew.
    """
    _Current.ledger = Ledger()


@contextmanager
def fresh_ledger() -> Iterator[Ledger]:
    """Uses a new ledger inside a `with` block and goes back to the old one after it.

    Process-wide: other threads count into the new ledger as well.

    Yields:
        The new ledger.
    """
    outer = _Current.ledger
    _Current.ledger = Ledger()
    try:
        yield _Current.ledger
    finally:
        _Current.ledger = outer
