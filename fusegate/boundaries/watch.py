"""What happens to a boundary's programs after their trace: lowered, compiled, launched the slow way."""

from __future__ import annotations

import weakref
from typing import Any

from fusegate import config, ledger
from fusegate.boundaries import budgets, calls, melt, programs, rebuilds
from fusegate.boundaries.spec import BoundarySpec
from fusegate.config import Mode
from fusegate.errors import Cause, FusegateError
from fusegate.judge import causes, traces
from fusegate.judge.deliver import deliver
from fusegate.observe import health
from fusegate.observe.health import guarded
from fusegate.observe.progress import notify
from fusegate.observe.signature import Signature
from fusegate.runtime import arrays, events, frames, launch, tracebacks, trees

COMPILES = "compiles"
DISPATCHES = "slow dispatches"
PROGRAMS = "programs"

_programs: weakref.WeakValueDictionary[str, BoundarySpec] = weakref.WeakValueDictionary()
"""Program name -> boundary, for compiles that no call on the stack belongs to. None of two boundaries that
share a name."""
_ambiguous: set[str] = set()


def install(spec: BoundarySpec) -> None:
    """Starts watching; called at each trace of a boundary that is not in off, and cheap after the first."""
    if spec.attributes.get("watched"):
        return
    spec.attributes["watched"] = True
    tracebacks.exclude_own_frames()
    program = f"jit({getattr(spec.fn, '__name__', type(spec.fn).__name__)})"
    known = _programs.get(program)
    if known is not None and known is not spec:
        _ambiguous.add(program)
    _programs[program] = spec
    if not events.listen(_on_event):
        health.switch_off(COMPILES, "this runtime sends no monitoring events")
    if not launch.on_slow_launch(_on_slow_launch):
        health.switch_off(DISPATCHES, "this runtime has no ExecuteReplicated to observe")
    rebuilds.install()
    budgets.install(spec)


def _on_event(event: events.CompileEvent) -> None:
    __tracebackhide__ = True
    spec = calls.owner_of(event.call)
    if spec is None:
        _on_derived(event)
        return
    mode = spec.mode()
    if mode is Mode.OFF or event.call is None:
        return
    if event.failed:
        notify("compile" if event.phase == "compile" else "lower", spec.name, False)
        return
    call = event.call
    guarded(COMPILES, mode, lambda: _own(event, call, spec, mode))


def _own(
    event: events.CompileEvent, call: frames.RuntimeCall, spec: BoundarySpec, mode: Mode
) -> None:
    __tracebackhide__ = True
    book = ledger.current()
    if call.direct and not calls.is_executing(call):
        if event.phase == "compile":  # an eager vmap or grad of the boundary
            book.count(spec, derived_compiles=1)
        return
    entry, zone = calls.trace_of(call)
    if event.phase == "lowering":
        if entry is not None:
            entry.confirmed = True
        guarded(PROGRAMS, mode, lambda: _program(spec, call, zone, mode))
        notify("lower", spec.name, True)
        return
    if event.phase == "lower":
        book.count(spec, lower_s=event.seconds)
        notify("lower", spec.name, False)
        notify("compile", spec.name, True)
        return
    notify("compile", spec.name, False)
    counter = "cache_hits" if event.from_cache else "compiles"
    book.count(spec, **{counter: 1, "compile_s": event.seconds})
    if not call.direct:  # .lower().compile() asks for a program on purpose
        return
    if entry is not None:
        entry.confirmed = True
    calls.compiled_now(call)
    signature = calls.capture(spec, call.args, call.kwargs, (call.args, call.kwargs))
    space = book.space(spec)
    cause = None if entry is not None else _recompile_cause(spec, space, signature)
    if cause is not None:
        book.add_cause(spec, cause)
    reason = cause or (space.counters.causes[-1] if space.counters.causes else None)
    space.forgiven += reason is not None and reason.kind == "cache_cleared"
    found = traces.check_compile(
        spec,
        spec.budget,
        space,
        cause=cause,
        frozen=book.frozen > 0,
        location=frames.user_location(call.frame),
    )
    if found is not None:
        calls.launched(call)  # it will not launch
        deliver(found, mode, spec, allow=spec.allow)
    book.add_compile(spec, signature)


def _program(
    spec: BoundarySpec, call: frames.RuntimeCall, zone: melt.Zone | None, mode: Mode
) -> None:
    __tracebackhide__ = True
    try:
        programs.check(spec, call, zone, mode)
    except FusegateError:
        calls.launched(call)  # it will not launch
        raise


def _recompile_cause(
    spec: BoundarySpec, space: ledger.KeySpace, signature: Signature
) -> Cause | None:
    """Why a call compiled although it did not trace; None where this key is new to the ledger."""
    earlier = [before for before in space.compiled if before == signature]
    if not earlier:
        return None
    if space.epoch != calls.cache_epoch(spec):
        return causes.cause("cache_cleared", before="compiled", after="dropped from the caches")
    return causes.recompiled(earlier, signature)


def _on_derived(event: events.CompileEvent) -> None:
    """Counts a compile that no call of a boundary on the stack belongs to.

    One that `.lower().compile()` asked for is the boundary's own. An eager vmap or grad of a boundary is told
    by the program's name, where no two boundaries share it.
    """
    if event.failed or event.phase != "compile":
        return
    spec, counter = None, "derived_compiles"
    asked = calls.lowered_by(event.lowering)
    if asked is not None:
        spec, elsewhere = asked
        if not elsewhere:
            counter = "cache_hits" if event.from_cache else "compiles"
    elif (
        event.call is None and event.program not in _ambiguous
    ):  # with a call: another jit of that name
        spec = _programs.get(event.program)
    if spec is not None and spec.mode() is not Mode.OFF:
        ledger.current().count(spec, **{counter: 1, "compile_s": event.seconds})


def _on_slow_launch(call: frames.RuntimeCall) -> None:
    __tracebackhide__ = True
    spec = calls.owner_of(call)
    if spec is None:
        return
    mode = spec.mode()
    if mode is not Mode.OFF:
        guarded(DISPATCHES, mode, lambda: _slow(call, spec, mode))


def _slow(call: frames.RuntimeCall, spec: BoundarySpec, mode: Mode) -> None:
    __tracebackhide__ = True
    if not calls.is_executing(call):
        return
    book = ledger.current()
    space = book.space(spec)
    if calls.launched(call):
        return
    book.count(spec, slow_dispatches=1)
    passed = _passed_key(call)
    threshold = config.thresholds().slow_dispatches
    if len(space.misses) > 64:
        space.misses.clear()
    misses = space.misses[passed] = space.misses.get(passed, 0) + 1
    if misses % threshold:  # told at each multiple, so that a count goes on
        return
    signature = calls.capture(spec, call.args, call.kwargs, (call.args, call.kwargs))
    found = traces.check_dispatch(
        spec, misses, threshold, traces.explain_misses(signature), frames.user_location(call.frame)
    )
    if found is not None:
        deliver(found, mode, spec, allow=spec.allow)


def _passed_key(call: frames.RuntimeCall) -> tuple[Any, ...]:
    """What was passed, as finely as the fast path tells it: a first numpy argument misses once."""
    leaves, _ = trees.leaves_of((call.args, call.kwargs))
    return tuple(
        (
            type(leaf),
            getattr(leaf, "shape", ()),
            str(getattr(leaf, "dtype", "")),
            arrays.committed(leaf),
        )
        for leaf in leaves
    )
