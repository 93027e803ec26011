"""What a boundary is busy with right now: trace, lower, compile, as they start and end.

Floor 5: imports the standard library only. Counting happens in the ledger; this is for whoever waits. With
nobody listening a notice costs one look at an empty tuple.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal

Phase = Literal["trace", "lower", "compile"]
"""What a boundary is busy with."""

Listener = Callable[[Phase, str, bool], None]
"""Called as `listener(phase, boundary_name, started)`, on the thread that does the work."""

logger = logging.getLogger("fusegate")


class _Listeners:
    # A tuple that is replaced, never changed: `notify` reads it without a lock.
    active: tuple[Listener, ...] = ()


_listeners: Final = _Listeners()


def on_phase(listener: Listener) -> Callable[[], None]:
    """Subscribes to the start and the end of every phase of every boundary.

    Args:
        listener: Called on the working thread, so it must be quick and safe under threads. One that
            raises is logged and dropped; the program never sees its exception.

    Returns:
        A function that ends the subscription; calling it again does nothing.
    """
    _listeners.active = (*_listeners.active, listener)
    return lambda: _drop(listener)


def _drop(listener: Listener) -> None:
    _listeners.active = tuple(one for one in _listeners.active if one is not listener)


def notify(phase: Phase, name: str, started: bool) -> None:
    """Tells the listeners that a phase of a boundary starts or has ended.

    Args:
        phase: `trace`, `lower` or `compile`.
        name: Name of the boundary.
        started: True at the start; False at the end, also where the phase failed.
    """
    for listener in _listeners.active:
        try:
            listener(phase, name, started)
        except Exception:
            _drop(listener)
            logger.exception("fusegate: a progress listener failed and is switched off")
