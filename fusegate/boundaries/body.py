"""The function that is traced: the user's own, with one observation around each trace.

It runs when the runtime traces and never otherwise, so a warm call pays nothing for it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from fusegate import ledger
from fusegate.boundaries import calls, melt, watch
from fusegate.boundaries.spec import BoundarySpec
from fusegate.config import Mode
from fusegate.errors import Cause, Violation
from fusegate.judge import causes, traces
from fusegate.judge.deliver import deliver
from fusegate.judge.state import Owner, check_drift, check_values
from fusegate.observe.drift import StateFacts, drift_facts, states_in
from fusegate.observe.health import guarded
from fusegate.observe.progress import notify
from fusegate.observe.signature import Signature, Static, same
from fusegate.rules import Severity
from fusegate.runtime import frames, jit
from fusegate.state.statics import static_collisions, unsafe_static

OBSERVER = "traces"
STATES = "states"


def traced_body(spec: BoundarySpec, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function that a boundary hands to `jit`.

    Args:
        spec: The boundary.
        fn: What to run; the user's function, or its form on partitioned arguments.
    """

    def body(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        trace = Trace.begin(spec, args, kwargs)
        with melt.tracing(spec) as zone:
            if trace is None:
                return fn(*args, **kwargs)
            try:
                out = fn(*args, **kwargs)
            except BaseException as error:
                trace.failed(error)
                raise
        trace.finished(zone, out)
        return out

    named = spec.fn
    while isinstance(named, functools.partial):
        named = named.func
    # Not the __dict__: marks that a user's function carries are not the body's.
    functools.update_wrapper(body, named, updated=())
    body.__name__ = getattr(named, "__name__", type(named).__name__)
    body.__wrapped__ = spec.fn  # type: ignore[attr-defined]
    calls.own(body, spec)
    return body


class Trace:
    """One run of a boundary's body under a jit trace."""

    __slots__ = (
        "_aside",
        "_call",
        "_entered",
        "_mode",
        "_signature",
        "_spec",
        "_start",
        "location",
    )

    def __init__(
        self,
        spec: BoundarySpec,
        mode: Mode,
        signature: Signature,
        entered: tuple[StateFacts, ...],
        call: frames.RuntimeCall | None,
    ) -> None:
        self._spec = spec
        self._mode = mode
        self._signature = signature
        self._entered = entered
        self._call = call
        self._aside = calls.is_aside(sys._getframe(2))
        self.location = frames.user_location(call.frame if call else sys._getframe(2))
        self._start = time.perf_counter()

    @classmethod
    def begin(
        cls, spec: BoundarySpec, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Trace | None:
        """Starts observing; None where nothing is to be observed: mode off, or no trace at all."""
        __tracebackhide__ = True
        mode = spec.mode()
        if mode is Mode.OFF:
            return None

        def start() -> Trace | None:
            if jit.jit_disabled() or not jit.under_jit():
                ledger.current().count(spec, eager_runs=1)
                return None
            # Here, not when the jit is made: a program that stays in off is left as it was found.
            watch.install(spec)
            call = calls.call_of(spec, sys._getframe(4))
            passed = (call.args, call.kwargs) if call is not None else None
            signature = calls.capture(spec, args, kwargs, passed)
            entered = drift_facts(calls.traced_arguments(spec, args, kwargs))
            notify("trace", spec.name, True)
            return cls(spec, mode, signature, entered, call)

        return guarded(OBSERVER, mode, start)

    def failed(self, error: BaseException) -> None:
        """Ends a trace whose body raised; a refused host read is told as FG211.

        Raises:
            Violation: The error is a refused host read, in strict.
        """
        __tracebackhide__ = True
        notify("trace", self._spec.name, False)
        ledger.current().count(self._spec, traces=1, failed_traces=1)
        if isinstance(error, Violation) or not isinstance(error, jit.traced_read_errors()):
            return
        if not getattr(error, "__fusegate_told__", False):  # not told by a boundary further in
            error.__fusegate_told__ = True  # type: ignore[attr-defined]
            guarded(OBSERVER, self._mode, lambda: self._told(error))

    def _told(self, error: BaseException) -> None:
        __tracebackhide__ = True
        found = traces.check_read(self._spec, error, frames.raised_at(error.__traceback__))
        error.add_note(str(found))
        deliver(
            found, self._mode, self._spec, also=type(error), allow=self._spec.allow, chained=error
        )

    def finished(self, zone: melt.Zone, out: Any) -> None:
        """Ends a trace whose body returned: counts it, finds its cause, and judges it.

        Raises:
            Violation: The trace breaks a rule, in strict. The runtime then keeps nothing of it.
        """
        __tracebackhide__ = True
        seconds = time.perf_counter() - self._start
        notify("trace", self._spec.name, False)
        guarded(OBSERVER, self._mode, lambda: self._judge(zone, seconds))
        guarded(STATES, self._mode, self._judge_statics)
        if self._entered:
            guarded(STATES, self._mode, lambda: self._judge_states(out))

    def _judge_statics(self) -> None:
        """Reports what the runtime mis-keys among static arguments and metadata, as advice.

        Never an error: what a retrace costs is told by FG201, with the same path.
        """
        spec = self._spec
        owner = Owner(spec.name, spec.role, spec.defined)
        for static in self._signature.statics:
            if static.keyed or (spec.filter and static.is_argument):  # keyed strictly already
                continue
            earlier = self._earlier(static)
            facts = [
                fact
                for fact in unsafe_static(static.value, static.path)
                if fact.kind in {"mutable", "array"}
                # One object that is held for good costs nothing; a second one shows that it does.
                or (fact.kind == "identity" and not all(same(static.value, one) for one in earlier))
            ]
            for value in earlier:
                facts += static_collisions(value, static.value, static.path)
            noun = "static argument" if static.is_argument else "metadata"
            for found in check_values(owner, facts, self.location, noun=noun):
                advice = dataclasses.replace(found, severity=Severity.ADVICE)
                deliver(advice, self._mode, spec, allow=spec.allow)

    def _earlier(self, static: Static) -> list[Any]:
        """The values that earlier traces had in the same place."""
        return [
            other.value
            for entry in ledger.current().space(self._spec).traced
            for other in entry.signature.statics
            if other.path == static.path
        ]

    def _judge_states(self, out: Any) -> None:
        __tracebackhide__ = True
        left = states_in(calls.result_of(out))
        once = self._spec.budget.max_traces == 1
        for found in check_drift(self._spec, self._entered, left, once, self.location):
            deliver(found, self._mode, self._spec, allow=self._spec.allow)

    def _judge(self, zone: melt.Zone, seconds: float) -> None:
        __tracebackhide__ = True
        spec, book = self._spec, ledger.current()
        book.count(spec, traces=1, trace_s=seconds, aside_traces=int(self._aside))
        space = book.space(spec)
        space.largest = max(space.largest, self._signature.leading_size)
        epoch = calls.cache_epoch(spec)
        cleared = bool(space.traced) and epoch != space.epoch
        space.epoch = epoch
        earlier = [entry for entry in space.traced if entry.confirmed or entry.aside]
        repeated = [entry for entry in space.traced if entry.signature == self._signature]
        certain = [entry for entry in repeated if entry.confirmed and not entry.aside]
        cause = self._cause(earlier, bool(repeated), bool(certain), cleared)
        if cause is not None:
            book.add_cause(spec, cause)
        if not self._aside and not jit.checking_leaks():
            found = traces.check_trace(
                spec,
                spec.budget,
                space,
                repeated=bool(repeated),
                cause=cause if certain or not repeated else None,
                frozen=book.frozen > 0,
                location=self.location,
            )
            if found is not None:
                deliver(found, self._mode, spec, allow=spec.allow)
        own = self._call is not None and calls.has_own_program(self._call)
        entry = ledger.TraceEntry(self._signature, aside=self._aside, confirmed=not own)
        book.add_trace(spec, entry, repeated=bool(repeated))
        if own and self._call is not None:
            calls.traced_now(self._call, entry, zone)

    def _cause(
        self, earlier: list[ledger.TraceEntry], repeated: bool, certain: bool, cleared: bool
    ) -> Cause | None:
        if repeated:
            if cleared:
                return causes.cause(
                    "cache_cleared", before="traced", after="dropped from the caches"
                )
            return causes.nothing_differs() if certain else None
        if not earlier:
            return None
        return causes.nearest(self._signature, [entry.signature for entry in earlier])
