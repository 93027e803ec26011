"""Whose line it is: the user's frame behind an event, and the runtime call that an event belongs to."""

from __future__ import annotations

import functools
import os
import sys
from types import CodeType, FrameType, TracebackType
from typing import Any

from fusegate.errors import Location
from fusegate.runtime import resolve

OWN_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple(
    os.path.join(os.path.dirname(os.path.abspath(os.__file__)), name)
    for name in ("contextlib.py", "functools.py", "dataclasses.py")
)


@functools.lru_cache(maxsize=4096)
def _is_library(filename: str, runtime_directory: str) -> bool:
    """Whether a file is fusegate's, the runtime's, or plumbing that no user line stands in."""
    path = os.path.abspath(filename) if not filename.startswith("<") else filename
    return (
        path.startswith((OWN_DIRECTORY, runtime_directory, *_STDLIB))
        or filename.startswith("<frozen")
        or f"{os.sep}site-packages{os.sep}equinox{os.sep}" in path
        or f"{os.sep}site-packages{os.sep}wrapt{os.sep}" in path
    )


def is_library_file(filename: str) -> bool:
    """Whether a file belongs to the runtime, fusegate, Equinox or wrapt, not to user code.

    Args:
        filename: As in a code object or in a jaxpr's debug info.
    """
    runtime = resolve.loaded()
    return _is_library(filename, runtime.directory if runtime else OWN_DIRECTORY)


def location_of(frame: FrameType) -> Location:
    """The line a frame stands at."""
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def user_location(start: FrameType | None = None) -> Location | None:
    """The innermost user line of the running thread.

    Args:
        start: Frame to start from; the caller's where not given.

    Returns:
        The line; None where no frame is the user's.
    """
    frame: FrameType | None = start if start is not None else sys._getframe(1)
    while frame is not None:
        if not is_library_file(frame.f_code.co_filename):
            return location_of(frame)
        frame = frame.f_back
    return None


def raised_at(traceback: TracebackType | None) -> Location | None:
    """The innermost user line that an exception passed through."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if not is_library_file(frame.f_code.co_filename):
            found = Location(frame.f_code.co_filename, traceback.tb_lineno, frame.f_code.co_name)
        traceback = traceback.tb_next
    return found


def definition_of(code: CodeType | None) -> Location | None:
    """Where a code object is defined."""
    return Location(code.co_filename, code.co_firstlineno, code.co_name) if code else None


class RuntimeCall:
    """The call into the runtime that an event on this thread belongs to.

    Attributes:
        function: The traced Python callable, the very object that was given to `jit`.
        args: Positional arguments of the call, statics included.
        kwargs: Keyword arguments of the call.
        direct: True for a call of the jit, False for `.lower()` and `.trace()`.
        frame: The runtime's frame; its caller is the user's call.
    """

    __slots__ = ("args", "direct", "frame", "function", "kwargs")

    def __init__(self, frame: FrameType, function: Any, *, direct: bool) -> None:
        self.frame = frame
        self.function = function
        self.direct = direct
        scope = frame.f_locals
        self.args: tuple[Any, ...] = tuple(scope.get("args", ()))
        self.kwargs: dict[str, Any] = dict(scope.get("kwargs", {}))


def runtime_call(start: FrameType | None = None, *, limit: int = 200) -> RuntimeCall | None:
    """The innermost jit call on the stack of this thread.

    Reaches the local variables of `jax._src.pjit`'s `cache_miss` (a call) and of `jit_trace`, `jit_lower`
    and `jit_eval_shape` (the methods of those names): an event carries a name, which two functions may share; the local `fun` is the
    function object itself. No public route tells the owner of an event. Ran on frx 0.10.2, jax 0.7.2,
    0.10.2 and the newest; where the frames are named otherwise, events stay without an owner.

    Args:
        start: Frame to start from; the caller's where not given.
        limit: How many frames to look at.

    Returns:
        The call, or None where no jit call is found: an eager `vmap` or `grad` of a jit, an eager op.
    """
    frame: FrameType | None = start if start is not None else sys._getframe(1)
    while frame is not None and limit:
        name = frame.f_code.co_name
        if name == "cache_miss":
            function = frame.f_locals.get("fun")
            if function is not None and _in_pjit(frame):
                return RuntimeCall(frame, function, direct=True)
        elif name in {"jit_trace", "jit_lower", "jit_eval_shape"} and _in_pjit(frame):
            jitted = frame.f_locals.get("jit_func")
            function = getattr(jitted, "_fun", None)
            if function is not None:
                return RuntimeCall(frame, function, direct=False)
        frame = frame.f_back
        limit -= 1
    return None


def _in_pjit(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(f"_src{os.sep}pjit.py")
