"""Entering and leaving a driver: which calls are observed, and what has to be in place for it."""

from __future__ import annotations

import threading
import weakref
from types import FrameType
from typing import Any

from fusegate import config, ledger
from fusegate.boundaries import rebuilds, scope
from fusegate.boundaries.scope import DriverScope, DriverSpec
from fusegate.config import Mode
from fusegate.observe import health, launches
from fusegate.observe.owners import Owner
from fusegate.runtime import launch, resolve, transfer


class _Site:
    """One driver in the program, over all its calls since the last reset.

    Attributes:
        limits: The thresholds in force at its first call.
        calls: Times it was entered.
        settled: Boundaries that were looked at often enough, over its calls.
    """

    def __init__(self, book: ledger.Ledger) -> None:
        self.book = weakref.ref(book)
        self.limits = config.thresholds()
        self.calls = 0
        self.settled: weakref.WeakKeyDictionary[Any, Owner | None] = weakref.WeakKeyDictionary()


_lock = threading.Lock()
_sites: dict[Any, _Site] = {}


def _site(spec: DriverSpec) -> _Site:
    book = ledger.current()
    key = (spec.name, spec.defined)
    site = _sites.get(key)
    if site is None or site.book() is not book:
        if len(_sites) >= ledger.MAX_BOUNDARIES:
            _sites.clear()
        site = _sites[key] = _Site(book)
    return site


class Entry:
    """One call of a driver: observed, or not.

    Attributes:
        scope: The scope, where there is one.
    """

    __slots__ = ("_reads", "scope")

    def __init__(
        self, spec: DriverSpec, frame: FrameType | None = None, *, bound: bool = False
    ) -> None:
        self.scope: launches.Scope | None = None
        self._reads = False
        if not _active() and resolve.loaded() is None:
            return
        mode = spec.mode()
        observed = mode is not Mode.OFF and _is_sampled(spec, mode)
        if observed:
            health.guarded(
                scope.LAUNCHES, mode, lambda: self._observe(spec, mode, frame, bound=bound)
            )
        elif launches.current() is not None:
            # What happens in here is not the outer driver's: it is declared by this one.
            self.scope = launches.Scope(transfer.array_type(), frame, bound=bound)

    def _observe(
        self, spec: DriverSpec, mode: Mode, frame: FrameType | None, *, bound: bool
    ) -> None:
        rebuilds.install()
        site = _site(spec)
        found = DriverScope(spec, mode, frame, bound=bound, items=site.limits.item_launches)
        fast, slow = launch.observe(launches.on_launch, launches.on_slow_launch)
        found.hooked = True
        self._reads = reads = transfer.install(scope.on_read)
        found.settled.update(site.settled)
        ledger.watch_unflushed(found)
        self.scope = found
        for seen, what, why in (
            (
                fast,
                scope.LAUNCHES,
                "this runtime has no hook on its fast path: warm launches are not seen",
            ),
            (
                slow,
                scope.LAUNCHES,
                "this runtime has no ExecuteReplicated: first launches are not seen",
            ),
            (reads, scope.READS, "this runtime's arrays have no _value to observe"),
        ):
            if not seen:
                ledger.mark_not_observed(what, why)

    def open(self) -> None:
        """Makes the scope that of the running context."""
        if self.scope is not None:
            self.scope.open()

    def leave(self) -> None:
        """Takes the scope out of the running context until it is opened again."""
        if self.scope is not None:
            self.scope.leave()

    def finish(self, error: BaseException | None = None) -> None:
        """Ends the call; nothing is left behind once the last one has ended.

        Raises:
            Violation: In place of the SystemError that a read through the buffer slot ended with (strict,
                CPython 3.11: `memoryview(x)`).
        """
        __tracebackhide__ = True
        found = self.scope
        if found is None:
            return
        self.scope = None
        settled = found.settled
        found.close()
        if self._reads:
            transfer.remove()
        if isinstance(found, DriverScope):
            found.unhook()
            _site(found.spec).settled.update(settled)
            found.flush()
            late = transfer.take_pending()
            if late is not None and isinstance(error, SystemError):
                raise late from error


def _active() -> bool:
    return launches.current() is not None


def _is_sampled(spec: DriverSpec, mode: Mode) -> bool:
    """Whether this call is observed: every one in strict; in warn the first ones, then one in many."""
    with _lock:
        site = _site(spec)
        number, site.calls = site.calls, site.calls + 1
    limits = site.limits
    observed = (
        mode is Mode.STRICT
        or number < limits.driver_observed_calls
        or (number - limits.driver_observed_calls) % limits.driver_sample_every
        == limits.driver_sample_every - 1
    )
    ledger.current().count_driver(spec.name, spec.defined, calls=1, observed=int(observed))
    return observed
