"""The hook that the runtime calls after every launch on its fast path.

`debug_nans` uses the same slot, so whatever is in it is called as well, and whatever the program puts
into it in the meantime is taken in and left there afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from fusegate.runtime import resolve

PostHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
"""Called as `hook(compiled_function, args, kwargs, out)` on the thread that launches."""

UNSET: Final = object()
"""In a thread's slot: nothing, so that the process's slot counts."""


class _Slots(Protocol):
    def get_local(self) -> Any: ...
    def set_local(self, hook: Any) -> None: ...
    def get_global(self) -> Any: ...
    def set_global(self, hook: Any) -> None: ...


class _ConfigSlots:
    """The slots as a configuration object; stands in its place while a scope is open.

    A `with debug_nans()` inside a scope sets the slot and later clears it: that is noted, and the
    observing hook stays.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._state = api._post_hook_state
        self._unset: Any = UNSET
        self.on_local: Callable[[Any], bool] = lambda _: False
        self.on_global: Callable[[Any], bool] = lambda _: False

    def get_local(self) -> Any:
        found = self._state.get_local()
        if found is None or callable(found):
            return found
        self._unset = found
        return UNSET

    def set_local(self, hook: Any) -> None:
        self._state.set_local(self._unset if hook is UNSET else hook)

    def get_global(self) -> Any:
        return self._state.get_global()

    def set_global(self, hook: Any) -> None:
        self._state.set_global(hook)

    def stand_in(self) -> None:
        self._api._post_hook_state = _StandIn(self, self._state)

    def stand_back(self) -> None:
        self._api._post_hook_state = self._state


class _StandIn:
    """What the runtime's own `debug_nans` finds while a scope is open."""

    def __init__(self, slots: _ConfigSlots, state: Any) -> None:
        self._slots = slots
        self._state = state

    def set_local(self, hook: Any) -> None:
        if not self._slots.on_local(hook):
            self._state.set_local(hook)

    def set_global(self, hook: Any) -> None:
        if not self._slots.on_global(hook):
            self._state.set_global(hook)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


class _StateSlots:
    """The slots as attributes of a thread's and the process's state (jax before 0.8)."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def get_local(self) -> Any:
        found = self._library.thread_local_state().post_hook
        return UNSET if found is None else found

    def set_local(self, hook: Any) -> None:
        self._library.thread_local_state().post_hook = None if hook is UNSET else hook

    def get_global(self) -> Any:
        return self._library.global_state().post_hook

    def set_global(self, hook: Any) -> None:
        self._library.global_state().post_hook = hook


class _Thread(threading.local):
    """Per thread: how many scopes are open, and what was in the slot before the first."""

    def __init__(self) -> None:
        self.count = 0
        self.before: Any = UNSET


class _Process:
    count = 0
    before: Any = None
    hook: PostHook | None = None
    # Scopes that were closed on another thread than the one that opened them, by the opener's identity.
    orphans: dict[int, int]


_lock = threading.RLock()
_thread = _Thread()
_process = _Process()
_process.orphans = {}
_found: dict[str, _Slots | None] = {}


def _slots() -> _Slots | None:
    """Finds the slots once per runtime.

    Reaches `jax._src.api._post_hook_state` (jax from 0.8, frx 0.10.2) or `jax._src.lib.jax_jit`'s
    `thread_local_state` and `global_state` (jax 0.7): no public hook sees a fast launch. Ran on frx
    0.10.2, jax 0.7.2, 0.10.2 and the newest.
    """
    runtime = resolve.required()
    if runtime.name not in _found:
        api = runtime.private("api")
        state = getattr(api, "_post_hook_state", None)
        library = runtime.private("lib", "jax_jit")
        slots: _Slots | None = None
        if all(
            hasattr(state, f"{verb}_{where}")
            for verb in ("get", "set")
            for where in ("local", "global")
        ):
            config = _ConfigSlots(api)
            config.on_local, config.on_global = _local_set, _global_set
            slots = config
        elif hasattr(getattr(library, "global_state", lambda: None)(), "post_hook"):
            slots = _StateSlots(library)
        _found[runtime.name] = slots
    return _found[runtime.name]


def _chained(hook: PostHook, other: Any) -> PostHook:
    """The observing hook, alone where nothing else is in the slot, for speed."""
    if not callable(other):
        return hook

    def both(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        __tracebackhide__ = True
        hook(fn, args, kwargs, out)
        other(fn, args, kwargs, out)

    return both


def install(hook: PostHook) -> bool:
    """Puts a hook into this thread's slot and the process's; counted per thread.

    The process's slot serves threads that a scope's context travels to, as with `asyncio.to_thread`:
    what a launch belongs to is decided by context, never by the slot.

    Args:
        hook: The same function on every call.

    Returns:
        Whether the runtime has the slot.
    """
    slots = _slots()
    if slots is None:
        return False
    with _lock:
        _settle(0)
        if not _process.count:
            _process.hook, _process.before = hook, slots.get_global()
            slots.set_global(_chained(hook, _process.before))
            if isinstance(slots, _ConfigSlots):
                slots.stand_in()
        _process.count += 1
        if not _thread.count:
            _thread.before = slots.get_local()
            _write_local(slots, hook)
        _thread.count += 1
    return True


def _write_local(slots: _Slots, hook: PostHook) -> None:
    before = _process.before if _thread.before is UNSET else _thread.before
    slots.set_local(_chained(hook, before))


def remove(thread: int) -> None:
    """Ends one `install`; the last one of a thread, and of the process, restores the slot.

    Args:
        thread: Identity of the thread that installed. Another thread cannot reach that one's slot; it is
            restored when that thread next installs or removes.
    """
    slots = _slots()
    if slots is None:
        return
    with _lock:
        if thread != threading.get_ident():
            _process.orphans[thread] = _process.orphans.get(thread, 0) + 1
        else:
            _settle(1)
        _process.count -= 1
        if not _process.count:
            slots.set_global(_process.before)
            if isinstance(slots, _ConfigSlots):
                slots.stand_back()
            _process.hook = None


def _settle(closed: int) -> None:
    """Counts scopes of this thread as closed; restores its slot once none is open any more."""
    slots = _slots()
    closed += _process.orphans.pop(threading.get_ident(), 0)
    if not closed or slots is None:
        return
    _thread.count = max(_thread.count - closed, 0)
    if not _thread.count:
        slots.set_local(_thread.before)
        _thread.before = UNSET


def _local_set(hook: Any) -> bool:
    """Takes in what the program puts into this thread's slot; whether it was taken in."""
    slots = _slots()
    with _lock:
        if not _thread.count or slots is None or _process.hook is None:
            return False
        _thread.before = hook
        _write_local(slots, _process.hook)
    return True


def _global_set(hook: Any) -> bool:
    slots = _slots()
    with _lock:
        if not _process.count or slots is None or _process.hook is None:
            return False
        _process.before = hook
        slots.set_global(_chained(_process.hook, hook))
        if _thread.count:
            _write_local(slots, _process.hook)
    return True
