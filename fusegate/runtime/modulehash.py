"""Every request for a compiled program, before it is compiled, with a fingerprint of its module."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from fusegate.runtime import resolve
from fusegate.runtime.frames import is_library_file, runtime_call

Request = Callable[[str, Callable[[], bytes], FrameType], None]
"""Called as `listener(program, fingerprint, frame)`; the fingerprint is computed when it is asked for."""

_lock = threading.Lock()
_installed: dict[str, Request] = {}


def on_compile(listener: Request) -> bool:
    """Calls `listener` before each backend compile; an exception of its reaches the program's call.

    Reaches `jax._src.compiler.compile_or_get_cached`, whose argument `computation` is the module: the
    events name a program, and two different programs may share a name. Installed once per process; it
    runs where a compile runs and nowhere else. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest.

    Returns:
        Whether the runtime has the function.
    """
    runtime = resolve.required()
    with _lock:
        if runtime.name in _installed:
            _installed[runtime.name] = listener
            return True
        compiler = runtime.private("compiler")
        original = getattr(compiler, "compile_or_get_cached", None)
        if original is None:
            return False
        _installed[runtime.name] = listener

        @functools.wraps(original)
        def compile_or_get_cached(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            module = kwargs.get("computation", args[1] if len(args) > 1 else None)
            _installed[runtime.name](_name(module), lambda: fingerprint(module), sys._getframe(1))
            return original(*args, **kwargs)

        compiler.compile_or_get_cached = compile_or_get_cached
    return True


def _name(module: Any) -> str:
    attributes = getattr(getattr(module, "operation", None), "attributes", None)
    try:
        symbol = attributes["sym_name"] if attributes is not None else None
    except KeyError:
        return ""
    return str(getattr(symbol, "value", "")).removeprefix("jit_")


class _Sink:
    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, text: bytes | str) -> None:
        self.digest.update(text.encode() if isinstance(text, str) else text)


def fingerprint(module: Any) -> bytes:
    """A digest of a module's text, without its debug locations; constants are part of it."""
    sink = _Sink()
    operation = getattr(module, "operation", None)
    if operation is None:
        sink.write(str(module))
    else:
        operation.print(file=sink, binary=True, enable_debug_info=False, assume_verified=True)
    return sink.digest.digest()


_LOOPS = frozenset({"scan", "while", "cond"})


def callables_of(program: str, frame: FrameType) -> tuple[tuple[Any, ...], bool, FrameType | None]:
    """The user's callables that a program is compiled for.

    Reaches the local variables of the functions in `jax._src.lax.control_flow`: an eager loop is compiled
    as one primitive, and the body's function object is nowhere else. Ran on frx 0.10.2, jax 0.7.2, 0.10.2
    and the newest.

    Args:
        program: Name of the program.
        frame: The frame that asked for the compile.

    Returns:
        The callables; whether they are bodies of an eager loop; the frame of the runtime's call. No
        callable for an eager op, and for a program asked for by `.lower().compile()`.
    """
    call = runtime_call(frame, limit=40)
    if call is None or not call.direct:
        return (), False, None
    if not getattr(call.function, "_apply_primitive", False):
        given = (*call.args, *call.kwargs.values())
        return (call.function, *(one for one in given if is_user_callable(one))), False, call.frame
    if program not in _LOOPS:
        return (), False, None
    found: list[Any] = []
    current: FrameType | None = call.frame
    while current is not None and is_library_file(current.f_code.co_filename):
        if f"{os.sep}control_flow{os.sep}" in current.f_code.co_filename:
            for value in current.f_locals.values():
                for one in value if isinstance(value, (tuple, list)) else (value,):
                    if is_user_callable(one) and all(one is not other for other in found):
                        found.append(one)
        current = current.f_back
    return tuple(found), True, call.frame


def is_user_callable(value: Any) -> bool:
    """Whether a value is a Python function of the program's, or a partial or bound method of one."""
    for _ in range(8):
        if isinstance(value, functools.partial):
            value = value.func
        elif hasattr(value, "__func__"):
            value = value.__func__
        else:
            break
    code = getattr(value, "__code__", None)
    return code is not None and not is_library_file(code.co_filename)
