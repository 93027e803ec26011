"""Device-to-host reads: the three choke points that every read passes, and the transfer guard's level.

On the CPU backend the runtime's own guard never sees a read (the data is shared, not copied), so the
reads are observed where Python can see them. The same hooks serve an accelerator, where a second read of
an array comes from its host copy and is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fusegate.runtime import bufferslot, resolve

ReadHook = Callable[[str, Any], None]
"""Called as `hook(how, array)` before a read; `how` is `value`, `buffer` or `dlpack`. May raise."""


class _Pending(threading.local):
    """Per thread: what a read through the C buffer slot found, on its way to a place that can raise."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.array = 0


_lock = threading.RLock()
_pending = _Pending()


class _Process:
    count = 0
    # Made once: a ctypes callback is dear to make, and the same hook comes each time.
    made_for: tuple[Any, Any] = (None, None)
    put: Callable[[], None]
    restore: Callable[[], None]


def install(hook: ReadHook) -> bool:
    """Starts observing reads; counted, so that scopes may overlap on any number of threads.

    Reaches `ArrayImpl._value`, `ArrayImpl.__dlpack__` and the type's buffer slot: no public hook sees a
    read, and the guard is blind on CPU. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest.

    Args:
        hook: The same function on every call.

    Returns:
        Whether the runtime's arrays have all three.
    """
    kind = array_type()
    if kind is None or not isinstance(vars(kind).get("_value"), property):
        return False
    with _lock:
        if _Process.made_for != (kind, hook):
            assert not _Process.count
            _Process.put, _Process.restore = _patcher(kind, hook)
            _Process.made_for = (kind, hook)
        if not _Process.count:
            _Process.put()
        _Process.count += 1
    return True


def remove() -> None:
    """Ends one `install`; the last one leaves the array type as it was."""
    with _lock:
        if _Process.count:
            _Process.count -= 1
            if not _Process.count:
                _Process.restore()


def array_type() -> Any:
    """The type of a concrete array; None where it is not where it used to be."""
    return resolve.required().private("array", "ArrayImpl")


def _patcher(kind: Any, hook: ReadHook) -> tuple[Callable[[], None], Callable[[], None]]:
    value, dlpack = vars(kind)["_value"], vars(kind).get("__dlpack__")
    fetch = value.fget

    def read_value(self: Any) -> Any:
        __tracebackhide__ = True
        error, _pending.error = _pending.error, None
        if error is not None and _pending.array == id(self):
            raise error
        if not (_is_remote(self) and self._npy_value is not None):
            hook("value", self)
        return fetch(self)

    def export(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not _is_remote(self):  # on an accelerator the export stays on the device
            hook("dlpack", self)
        return dlpack(self, *args, **kwargs)

    observed = property(read_value, doc=value.__doc__)
    put_buffer, restore_buffer = bufferslot.patcher(
        kind, lambda array: hook("buffer", array), _put_off
    )

    def put() -> None:
        kind._value = observed
        if dlpack is not None:
            kind.__dlpack__ = export
        put_buffer()

    def restore() -> None:
        restore_buffer()
        kind._value = value
        if dlpack is not None:
            kind.__dlpack__ = dlpack

    return put, restore


def _put_off(array: Any, error: BaseException) -> None:
    _pending.error, _pending.array = error, id(array)


def take_pending() -> BaseException | None:
    """What a read through the C buffer slot found and nothing has raised yet, on this thread."""
    error, _pending.error = _pending.error, None
    return error


def _is_remote(array: Any) -> bool:
    try:
        return any(device.platform != "cpu" for device in array.sharding.device_set)
    except (AttributeError, RuntimeError):  # a deleted array
        return False


def guard_level() -> Any:
    """The transfer guard's level for device-to-host reads on this thread, to compare; None where unset.

    Reaches `jax._src.lib.guard_lib`, whose state `with jax.transfer_guard(...)` sets and which has no
    public reader. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest.
    """
    guard = resolve.required().private("lib", "guard_lib")
    if guard is None:
        return None
    level = guard.thread_local_state().device_to_host
    return level if level is not None else guard.global_state().device_to_host


def guard_disallows(array: Any) -> bool:
    """Whether the guard in force would refuse a read, where it cannot speak itself: on the CPU backend.

    As the guard does it: `disallow` lets an explicit `device_get` pass, `disallow_explicit` does not.
    """
    level = guard_level()
    if level is None or _is_remote(array):
        return False
    guard = resolve.required().private("lib", "guard_lib")
    levels = guard.TransferGuardLevel
    if level == levels.DISALLOW:
        return not guard.thread_local_state().explicit_device_get
    return bool(level == levels.DISALLOW_EXPLICIT)


def guard_error() -> type[BaseException]:
    """The class that the guard raises."""
    runtime = resolve.required()
    found: type[BaseException] = getattr(runtime.module.errors, "JaxRuntimeError", RuntimeError)
    return found
