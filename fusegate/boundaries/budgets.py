"""`max_launches` and `max_temp_bytes`: a program is held to them before it runs for the first time.

A program's first launch is on the runtime's slow path, where its executable is at hand: looking at it there
costs no compile and a warm call nothing. A refused launch leaves the fast path empty, so the next call comes
here again, and finds the program compiled.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from fusegate import ledger
from fusegate.boundaries import calls
from fusegate.boundaries.spec import BoundarySpec
from fusegate.config import Mode
from fusegate.errors import Finding, FusegateError
from fusegate.judge.deliver import deliver
from fusegate.judge.pins import check_budgets
from fusegate.observe import evidence, health
from fusegate.observe.health import guarded
from fusegate.runtime import compiled, frames, launch

OBSERVER: Final = "launch and memory budgets"
_MEMO: Final = "budgets"
_KEPT: Final = 1024
"""Programs of one boundary whose verdict is kept; beyond it they are looked at again."""


def install(spec: BoundarySpec) -> None:
    """Starts watching the first launches, where a boundary declares a budget.

    Args:
        spec: The boundary whose compiled function is made.
    """
    if spec.max_launches is None and spec.max_temp_bytes is None:
        return
    if not launch.before_slow_launch(_before):
        health.switch_off(OBSERVER, "this runtime has no ExecuteReplicated to observe")


def _before(call: frames.RuntimeCall, executor: Any) -> None:
    __tracebackhide__ = True
    spec = calls.owner_of(call)
    if spec is None or (spec.max_launches is None and spec.max_temp_bytes is None):
        return
    mode = spec.mode()
    if mode is not Mode.OFF:
        guarded(OBSERVER, mode, lambda: _judge(spec, call, executor, mode))


def _judge(spec: BoundarySpec, call: frames.RuntimeCall, executor: Any, mode: Mode) -> None:
    __tracebackhide__ = True
    if not calls.is_executing(call):  # a vmap or grad of the boundary launches a program of its own
        return
    found, again = _findings(spec, compiled.executable_launched_by(executor))
    if again and mode is not Mode.STRICT:  # a key is told once; in strict each call is refused
        return
    location = frames.user_location(call.frame)
    try:
        for one in found:
            deliver(dataclasses.replace(one, location=location), mode, spec, allow=spec.allow)
    except FusegateError:
        calls.launched(call)  # it will not launch
        raise


def _findings(spec: BoundarySpec, executable: Any) -> tuple[tuple[Finding, ...], bool]:
    """What a program breaks, and whether that was known: it is looked at once, then remembered."""
    known: dict[Any, tuple[Finding, ...]] = spec.attributes.setdefault(_MEMO, {})
    key = compiled.fingerprint_of(executable)
    if key is not None and key in known:
        return known[key], True
    figures = evidence.figures_of(executable)
    _tell_unseen(spec, figures)
    limits = (spec.max_launches, spec.max_temp_bytes)
    found = tuple(check_budgets(spec, figures, limits))
    if found:  # what it launches is looked up for the message only
        module = compiled.module_of(executable)
        kernels = () if module is None else evidence.kernels_of(module)
        found = tuple(check_budgets(spec, figures, limits, kernels))
    if key is not None:
        if len(known) >= _KEPT:
            known.clear()
        known[key] = found
    return found, False


def _tell_unseen(spec: BoundarySpec, figures: evidence.ProgramFigures) -> None:
    """A budget that cannot be checked is reported: it must not look like one that was kept."""
    if spec.max_launches is not None and figures.launches is None:
        ledger.mark_not_observed(
            "launches", "this backend shows no compiled module; max_launches is unchecked"
        )
    if spec.max_temp_bytes is not None and figures.temp_bytes is None:
        ledger.mark_not_observed(
            "temp bytes", "this backend shows no memory plan; max_temp_bytes is unchecked"
        )
