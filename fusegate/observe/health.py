"""An observer that fails switches itself off, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from fusegate import ledger
from fusegate.config import Mode
from fusegate.errors import FusegateError, ObserverFault, ViolationWarning

logger = logging.getLogger("fusegate")
_off: set[str] = set()

T = TypeVar("T")


def is_off(observer: str) -> bool:
    """Whether an observer has switched itself off."""
    return observer in _off


def guarded(observer: str, mode: Mode, work: Callable[[], T]) -> T | None:
    """Runs a piece of observation so that its own fault never reaches the program in warn.

    Args:
        observer: What is being observed; the name in the log and in the report.
        mode: The mode that applies.
        work: The observation, judgement and delivery.

    Returns:
        What `work` returns; None where it failed or the observer is off.

    Raises:
        Violation: The work found one, in strict.
        ObserverFault: The work failed, in strict: a check that does not run must not look like a pass.
    """
    __tracebackhide__ = True
    if observer in _off:
        return None
    try:
        return work()
    except (FusegateError, ViolationWarning):
        # A verdict, not a fault. A warning is only ever raised because a filter of the user's asks for it.
        raise
    except Exception as error:  # noqa: BLE001 - whatever fails in here is not the program's
        failed(observer, mode, error)
        return None


def failed(observer: str, mode: Mode, error: Exception) -> None:
    """Ends a piece of observation that failed by itself; called while the fault is handled.

    Raises:
        ObserverFault: In strict: a check that does not run must not look like a pass.
    """
    __tracebackhide__ = True
    if mode is Mode.STRICT:
        raise ObserverFault(
            f"fusegate cannot observe {observer}: {type(error).__name__}. This is a fault of fusegate, "
            "not of the program; run in warn mode to go on without this check, and report it."
        ) from error
    switch_off(observer, f"its observer failed with {type(error).__name__}", error)


def switch_off(observer: str, why: str, error: BaseException | None = None) -> None:
    """Stops an observer for the rest of the process; logged once and shown in the report.

    Args:
        observer: What is no longer observed.
        why: The reason, in one line.
        error: The fault, for the log.
    """
    if observer not in _off:
        _off.add(observer)
        ledger.mark_not_observed(observer, why)
        logger.warning("fusegate no longer observes %s: %s", observer, why, exc_info=error)


def switch_on(observer: str) -> None:
    """Lets an observer try again; for tests that inject a fault."""
    _off.discard(observer)
    ledger.clear_not_observed(observer)
