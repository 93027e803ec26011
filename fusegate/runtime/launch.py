"""Launches that take the slow path, where Python still runs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from fusegate.runtime import resolve
from fusegate.runtime.frames import RuntimeCall, runtime_call

SlowLaunch = Callable[[RuntimeCall], None]
_installed: dict[str, SlowLaunch] = {}


def on_slow_launch(listener: SlowLaunch) -> bool:
    """Calls `listener` after each launch that missed the fast path and belongs to a jit call.

    Reaches `jax._src.interpreters.pxla.ExecuteReplicated.__call__`: the fast path leaves no public sign
    of having been missed, and this method runs on the slow path only, so a warm fast call pays nothing.
    Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest. Installed once per process.

    Args:
        listener: Called with the jit call that launched.

    Returns:
        Whether the runtime has the method.
    """
    runtime = resolve.required()
    if runtime.name in _installed:
        _installed[runtime.name] = listener
        return True
    executor = runtime.private("interpreters.pxla", "ExecuteReplicated")
    if executor is None or "__call__" not in vars(executor):
        return False
    original = executor.__call__
    _installed[runtime.name] = listener

    @functools.wraps(original)
    def call(self: Any, *args: Any) -> Any:
        __tracebackhide__ = True
        out = original(self, *args)
        owner = runtime_call(sys._getframe(1), limit=24)
        if owner is not None and owner.direct:
            _installed[runtime.name](owner)
        return out

    executor.__call__ = call
    return True
