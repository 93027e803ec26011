"""The C buffer slot of an array type, through which numpy reads without any Python attribute.

From CPython 3.12 the slot follows the attribute `__buffer__` (PEP 688). On 3.11 it is set through ctypes;
a ctypes callback cannot set an exception, so an error found there is put off: numpy falls back to
`__array__`, where it is raised, and `memoryview(x)` fails with a SystemError that the scope translates.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_AS_BUFFER: Final = 20
"""`tp_as_buffer` is the 21st word of a type object on default builds of CPython 3.11 to 3.13."""


class _Procs(ctypes.Structure):
    _fields_ = (("get", ctypes.c_void_p), ("release", ctypes.c_void_p))


def _procs(kind: type) -> _Procs | None:
    address = ctypes.c_void_p.from_address(id(kind) + _AS_BUFFER * _WORD).value
    return _Procs.from_address(address) if address else None


def _offset_is_known() -> bool:
    """Proves the offset on types whose slot is known, before anything is written."""
    if sys.implementation.name != "cpython":
        return False
    known = _procs(bytes)
    return known is not None and bool(known.get) and _procs(int) is None


def pointer(kind: type) -> int | None:
    """The address in the slot, to compare; None where it cannot be told."""
    procs = _procs(kind) if _offset_is_known() else None
    return procs.get if procs is not None else None


def how() -> str:
    """The mechanism on this interpreter; empty where there is none."""
    if sys.version_info >= (3, 12):
        return "__buffer__ (PEP 688)"
    return "the buffer slot, through ctypes" if _offset_is_known() else ""


def patcher(
    kind: Any, hook: Callable[[Any], None], put_off: Callable[[Any, BaseException], None]
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Prepares to call `hook` before each buffer request.

    Args:
        kind: The array type.
        hook: Called with the array; may raise.
        put_off: Takes an array and the error that its buffer request ends with: numpy drops it, and from a
            ctypes callback it cannot even be raised.

    Returns:
        A function that sets the slot, and one that restores it.
    """
    if sys.version_info >= (3, 12):
        return _attribute_patcher(kind, hook, put_off)
    if _offset_is_known():
        return _slot_patcher(kind, hook, put_off)
    return _nothing, _nothing


def _nothing() -> None:
    """There is no slot to set on this interpreter."""


def _attribute_patcher(
    kind: Any, hook: Callable[[Any], None], put_off: Callable[[Any, BaseException], None]
) -> tuple[Callable[[], None], Callable[[], None]]:
    original = vars(kind).get("__buffer__")
    if original is None:
        return _nothing, _nothing

    def request(self: Any, flags: int) -> Any:
        __tracebackhide__ = True
        try:
            hook(self)
        except BaseException as error:
            # numpy clears it and asks `__array__` next, where it is raised again.
            put_off(self, error)
            raise
        return original(self, flags)

    def put() -> None:
        kind.__buffer__ = request

    def restore() -> None:
        kind.__buffer__ = original

    return put, restore


def _slot_patcher(
    kind: Any, hook: Callable[[Any], None], put_off: Callable[[Any, BaseException], None]
) -> tuple[Callable[[], None], Callable[[], None]]:
    procs = _procs(kind)
    if procs is None or not procs.get:
        return _nothing, _nothing
    address = procs.get
    request_type = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    original = request_type(address)

    def request(array: Any, view: Any, flags: int) -> int:
        try:
            hook(array)
        except BaseException as error:  # noqa: BLE001 - nothing can be raised here: it is put off
            put_off(array, error)
            return -1
        try:
            return int(original(array, view, flags))
        except (
            BufferError
        ):  # field arrays and sharded arrays have no buffer; numpy asks `__array__` next
            return -1

    callback = request_type(request)
    ours = ctypes.cast(callback, ctypes.c_void_p).value

    def put(_alive: Any = callback) -> None:
        procs.get = ours

    def restore() -> None:
        procs.get = address

    return put, restore
