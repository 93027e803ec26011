"""Lowerings and backend compiles as they happen, from the runtime's public monitoring events."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from fusegate.runtime import resolve
from fusegate.runtime.frames import RuntimeCall, runtime_call

_LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILE = "/jax/core/compile/backend_compile_duration"
_CACHE_HIT = "/jax/compilation_cache/cache_hits"

Phase = Literal["lowering", "lower", "compile"]


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """One start of a lowering, or one finished lowering or backend compile.

    Attributes:
        phase: `lowering` at the start; `lower` or `compile` at the end.
        program: The runtime's name of the program, `jit(fold)`.
        seconds: How long it took.
        from_cache: Whether the persistent cache served it; only for `compile`.
        failed: Whether it ended with an exception.
        call: The jit call that it belongs to; None for an eager op or a derived program.
        lowering: The runtime's lowering object that is being compiled, see `lowering_of`; None where unknown.
    """

    phase: Phase
    program: str
    seconds: float
    from_cache: bool
    failed: bool
    call: RuntimeCall | None
    lowering: Any = None


Listener = Callable[[CompileEvent], None]


class _ThreadState(threading.local):
    """Per thread: whether the persistent cache was hit since the last compile ended."""

    def __init__(self) -> None:
        self.cache_hit = False


_state = _ThreadState()
_installed: dict[str, Listener] = {}


def listen(listener: Listener) -> bool:
    """Calls `listener` before and after every lowering, and after every backend compile, on its thread.

    An exception of the listener reaches the program's own call, before the program has run: strict mode
    rests on that. Installed once per process; a listener cannot be public-ly removed on jax 0.7.

    Args:
        listener: Called with each event.

    Returns:
        Whether the runtime has the events.
    """
    runtime = resolve.required()
    if runtime.name in _installed:
        _installed[runtime.name] = listener
        return True
    monitoring = runtime.public("monitoring")
    needed = ("register_event_duration_secs_listener", "register_scalar_listener")
    if not all(hasattr(monitoring, name) for name in needed):
        return False
    _installed[runtime.name] = listener

    def on_duration(event: str, seconds: float, **details: Any) -> None:
        if event == _COMPILE:
            phase: Phase = "compile"
        elif event == _LOWER:
            phase = "lower"
        else:
            return
        from_cache = False
        if phase == "compile":
            from_cache, _state.cache_hit = _state.cache_hit, False
        frame = sys._getframe(1)
        _installed[runtime.name](
            CompileEvent(
                phase,
                str(details.get("fun_name", "")),
                seconds,
                from_cache,
                _is_unwinding(frame),
                runtime_call(frame),
                _lowering_in(frame) if phase == "compile" else None,
            )
        )

    def on_scalar(event: str, _: float, **details: Any) -> None:
        if event == _LOWER:
            frame = sys._getframe(1)
            program = str(details.get("fun_name", ""))
            _installed[runtime.name](
                CompileEvent("lowering", program, 0.0, False, False, runtime_call(frame))
            )

    def on_event(event: str, **_: Any) -> None:
        if event == _CACHE_HIT:
            _state.cache_hit = True

    monitoring.register_event_duration_secs_listener(on_duration)
    monitoring.register_event_listener(on_event)
    monitoring.register_scalar_listener(on_scalar)
    return True


def lowering_of(lowered: Any) -> Any:
    """The runtime's lowering object behind a `Lowered`, the one that its compile will name.

    Reaches `Lowered._lowering`: a compile that `.lower().compile()` asks for has no jit call on the stack,
    and its event names the program only. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest. None where it
    is gone, and such compiles then stay without an owner.
    """
    return getattr(lowered, "_lowering", None)


def _lowering_in(frame: FrameType | None) -> Any:
    """The lowering object whose `compile` is on the stack."""
    for _ in range(40):
        if frame is None:
            return None
        if frame.f_code.co_name == "compile" and frame.f_code.co_filename.endswith("pxla.py"):
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _is_unwinding(frame: FrameType | None) -> bool:
    """Whether the event is sent while an exception passes: the timer reports on every exit.

    Reads the local `exc_type` of the runtime's own `__exit__`, since `sys.exc_info()` would also show an
    exception that the user's caller is handling. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest;
    elsewhere a failed compile is counted as one.
    """
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code.co_name == "__exit__":
            return frame.f_locals.get("exc_type") is not None
        frame = frame.f_back
    return False
