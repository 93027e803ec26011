"""Launches as they happen: the slow path, where Python still runs, and the fast path's own hook."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from fusegate.runtime import hookslot, resolve
from fusegate.runtime.frames import RuntimeCall, runtime_call

SlowLaunch = Callable[[RuntimeCall], None]
BeforeLaunch = Callable[[RuntimeCall, Any], None]


class Origin:
    """Where a launch without a named jit behind it comes from, or one on the slow path.

    Attributes:
        name: Name of the program, without `jit(...)` around it.
        function: The traced Python callable, where a call of a jit launched.
        file: File of the traced function, for a program made from a jit by vmap or grad.
        args: Positional arguments of the call, statics included.
        kwargs: Keyword arguments of the call.
        jitted: Whether the program is one of a jit (derived or compiled ahead), not of an eager op.
    """

    __slots__ = ("args", "file", "function", "jitted", "kwargs", "name")

    def __init__(self, name: str, function: Any = None, *, jitted: bool = False) -> None:
        self.name = name.removeprefix("jit(").removesuffix(")")
        self.function = function
        self.file = ""
        self.jitted = jitted
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}


ScopedSlow = Callable[[Origin, Any, FrameType], None]


class _Slow:
    """The wrapped method of the slow path, and who listens."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.original: Any = None
        self.boundaries: SlowLaunch | None = None
        self.before: BeforeLaunch | None = None
        self.scoped: ScopedSlow | None = None
        self.scopes = 0


_lock = threading.Lock()
_slow: dict[str, _Slow] = {}


def _wrapped() -> _Slow | None:
    """Wraps the slow path's method, once per process; None where the runtime has no such method.

    Reaches `jax._src.interpreters.pxla.ExecuteReplicated.__call__`: the fast path leaves no public sign
    of having been missed, and this method runs on the slow path only, so a warm fast call pays nothing.
    Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest.
    """
    runtime = resolve.required()
    slow = _slow.get(runtime.name)
    if slow is None:
        executor = runtime.private("interpreters.pxla", "ExecuteReplicated")
        if executor is None or "__call__" not in vars(executor):
            return None
        slow = _slow.setdefault(runtime.name, _Slow(executor))
    if slow.original is None:
        slow.original = original = slow.executor.__call__

        @functools.wraps(original)
        def call(self: Any, *args: Any) -> Any:
            __tracebackhide__ = True
            frame = sys._getframe(1)
            if slow.before is not None:
                owner = runtime_call(frame, limit=24)
                if owner is not None and owner.direct:
                    slow.before(owner, self)
            out = original(self, *args)
            if slow.boundaries is not None:
                owner = runtime_call(frame, limit=24)
                if owner is not None and owner.direct:
                    slow.boundaries(owner)
            if slow.scoped is not None:
                slow.scoped(_slow_origin(self, frame), out, frame)
            return out

        slow.executor.__call__ = call
    return slow


def on_slow_launch(listener: SlowLaunch) -> bool:
    """Calls `listener` after each launch that missed the fast path and belongs to a jit call.

    Installed once per process.

    Args:
        listener: Called with the jit call that launched.

    Returns:
        Whether the runtime has the method that is wrapped for it.
    """
    with _lock:
        slow = _wrapped()
        if slow is None:
            return False
        slow.boundaries = listener
    return True


def before_slow_launch(listener: BeforeLaunch) -> bool:
    """Calls `listener` before each launch on the slow path that belongs to a jit call.

    A program's first launch is on the slow path, and an exception of the listener ends the call before
    anything runs; the next call comes here again. Installed once per process.

    Args:
        listener: Called with the jit call and the runtime's executor, see `compiled.executable_launched_by`.

    Returns:
        Whether the runtime has the method that is wrapped for it.
    """
    with _lock:
        slow = _wrapped()
        if slow is None:
            return False
        slow.before = listener
    return True


def observe(fast: hookslot.PostHook, slow: ScopedSlow) -> tuple[bool, bool]:
    """Starts observing every launch; counted, so that scopes may overlap on any number of threads.

    Args:
        fast: Called after each launch on the fast path, on the thread that launches.
        slow: Called after each launch on the slow path with its origin, its outputs and the frame.

    Returns:
        Whether the fast path is observed, and whether the slow path is.
    """
    with _lock:
        state = _wrapped()
        if state is not None:
            state.scopes += 1
            state.scoped = slow
    return hookslot.install(fast), state is not None


def release(thread: int) -> None:
    """Ends one `observe`; the last one leaves the runtime as it was.

    Args:
        thread: Identity of the thread that called `observe`.
    """
    hookslot.remove(thread)
    with _lock:
        state = _slow.get(resolve.required().name)
        if state is None or not state.scopes:
            return
        state.scopes -= 1
        if not state.scopes:
            state.scoped = None
            if state.boundaries is None and state.before is None:
                state.executor.__call__, state.original = state.original, None


def _slow_origin(executor: Any, frame: FrameType) -> Origin:
    """What launched on the slow path: a call of a jit, a derived or an ahead-compiled program."""
    name = str(getattr(executor, "name", ""))
    start: FrameType | None = frame
    for _ in range(12):
        if start is None:
            break
        code = start.f_code
        if code.co_name == "call_impl_cache_miss":
            return derived_origin(start.f_locals, name)
        if code.co_name == "aot_cache_miss":
            return Origin(name, jitted=True)
        if code.co_name == "cache_miss" and code.co_filename.endswith(f"_src{os.sep}pjit.py"):
            call = runtime_call(start, limit=1)
            origin = Origin(name, call.function if call else None)
            if call is not None:
                origin.args, origin.kwargs = call.args, call.kwargs
            return origin
        start = start.f_back
    return Origin(name)


def derived_origin(scope: dict[str, Any], name: str = "") -> Origin:
    """The origin of a program that vmap or grad made from a jit, from the runtime's local variables.

    Reaches the locals `jaxpr` and `name` of `jax._src.pjit._pjit_call_impl`: such a program is run by a
    compiled function without a Python function of its own. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the
    newest.
    """
    origin = Origin(str(scope.get("name", "")) or name, jitted=True)
    info = getattr(getattr(scope.get("jaxpr"), "jaxpr", None), "debug_info", None)
    origin.file = str(getattr(info, "func_filename", "") or "")
    return origin


def nameless_origin(frame: FrameType | None) -> Origin:
    """The origin of a fast launch whose compiled function holds no Python function.

    Args:
        frame: The frame that called the compiled function.
    """
    if frame is None:
        return Origin("", jitted=True)
    if frame.f_code.co_name == "_pjit_call_impl":
        return derived_origin(frame.f_locals)
    owner = frame.f_locals.get("self")  # Compiled.__call__ of _src.stages
    call = getattr(getattr(owner, "_executable", None), "unsafe_call", None)
    return Origin(str(getattr(call, "name", "")), jitted=True)


def python_function(jitted: Any) -> Any:
    """The Python function of a compiled one, `PjitFunction._fun`; None where it has none."""
    return getattr(jitted, "_fun", None)


def is_primitive(function: Any) -> bool:
    """Whether a traced function is the runtime's own wrapper around one primitive."""
    return bool(getattr(function, "_apply_primitive", False))


def static_arguments(jitted: Any) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Which arguments of a compiled function are static, by position and by name.

    Reaches `PjitFunction._jit_info`: what was given to `jit` has no public reader. Ran on frx 0.10.2, jax
    0.7.2, 0.10.2 and the newest. None where it is gone.
    """
    info = getattr(jitted, "_jit_info", None)
    if info is None or not hasattr(info, "static_argnums"):
        return None
    return tuple(info.static_argnums or ()), tuple(info.static_argnames or ())
