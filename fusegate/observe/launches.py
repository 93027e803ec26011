"""Launches inside a scope: each one counted once, and handed on where it is more than a warm boundary.

The scope that a launch belongs to is found by context, so threads and interleaved asyncio tasks each see
their own. `on_launch` runs after every launch on the fast path: its first lines are what a warm call of a
boundary pays, and everything else is behind them.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final

from fusegate.observe import owners
from fusegate.observe.dependence import WATCHED, Run
from fusegate.observe.owners import Owner
from fusegate.runtime import launch, trees


class Limited(dict[Any, Owner | None]):
    """Settled functions of a scope that wants to see so many launches and no more; then there are none.

    Each launch on the fast path asks it, so that the limit costs nothing where there is none.
    """

    def __init__(self, scope: Scope, limit: int) -> None:
        super().__init__()
        self._scope = weakref.ref(scope)
        self._limit = limit

    def __contains__(self, fn: object) -> bool:
        scope = self._scope()
        return scope is not None and scope.launches < self._limit and super().__contains__(fn)


class Scope:
    """One `with` block, or one call of a decorated driver, in which launches are observed.

    Attributes:
        launches: Launches so far.
        settled: Compiled functions of boundaries of which nothing but the number is of interest any more
            -> their owner where some of their arguments are static, else None.
        array: The type of a concrete array.
        flatten: Flattens a pytree: (leaves, structure).
        outer: The scope around it.
        closed: Whether it has ended; a context may hold it for longer.
        frame: The frame that opened it.
        bound: Whether that is a generator's, so that the scope counts only while the frame runs.
        run: The run of one boundary that is going on.
        watched: How many launches of each boundary were looked at.
    """

    __slots__ = (
        "__weakref__", "array", "bound", "closed", "flatten", "frame", "launches", "outer", "run", "settled",
        "tangled", "watched",
    )  # fmt: skip

    def __init__(self, array: Any, frame: FrameType | None = None, *, bound: bool = False) -> None:
        self.array = array
        self.flatten = trees.flattener()
        self.frame = frame
        self.bound = bound
        self.tangled = bound
        self.outer: Scope | None = None
        self.closed = False
        self.launches = 0
        self.settled: dict[Any, Owner | None] = {}
        self.run = Run()
        self.watched: dict[Any, int] = {}

    def open(self) -> None:
        """Makes this the scope of the running context."""
        self.outer = _top()
        self.tangled = self.bound or (self.outer is not None and self.outer.tangled)
        _current.set(self)

    def leave(self) -> None:
        """Takes the scope out of the running context; it may be opened again."""
        top = _top()
        if top is self:
            top = self.outer
        while top is not None and top.closed:
            top = top.outer
        _current.set(_OUTSIDE if top is None else top)

    def close(self) -> None:
        """Ends the scope, also in another context or another order than it was opened in."""
        self.closed = True
        self.settled = {}
        self.frame = None
        self.run.interrupted()
        self.leave()

    def note_boundary(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType) -> None:
        """A boundary was launched with an argument that lives on the host."""

    def note_jit(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType, host: bool) -> None:
        """Another jit was launched; `host` where an argument lives on the host."""

    def note_op(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType, slow: bool) -> None:
        """An eager op was launched; `slow` as in `launched`."""

    def note_run(self, owner: Owner, length: int, frame: FrameType) -> bool:  # noqa: ARG002
        """A boundary was launched again, independent of before; whether that is settled now."""
        return False

    def launched(
        self,
        key: Any,
        owner: Owner,
        args: Any,
        kwargs: Any,
        out: Any,
        frame: FrameType,
        *,
        slow: bool,
    ) -> None:
        """Takes in one launch that was not settled; `slow` where it went through Python's call of a jit."""
        __tracebackhide__ = True
        self.launches += 1
        inputs = owner.traced(args, kwargs)
        if owner.kind == "op":
            if self.run.length:
                self.run.passed_on(inputs, out)
            self.note_op(owner, args, kwargs, frame, slow)
            return
        host = self.lives_on_host(
            inputs, arrays_only=owner.kind == "jit" or not owner.statics_known
        )
        if owner.kind == "jit":
            self.run.interrupted()
            self.note_jit(owner, args, kwargs, frame, host)
            return
        self._watch(key, owner, (args, kwargs), inputs, out, frame, slow)
        if host:
            self.note_boundary(owner, args, kwargs, frame)

    def _watch(
        self,
        key: Any,
        owner: Owner,
        call: tuple[Any, Any],
        inputs: list[Any],
        out: Any,
        frame: FrameType,
        slow: bool,
    ) -> None:
        spec = owner.spec
        seen = self.watched.get(spec, 0)
        if seen <= WATCHED:
            self.watched[spec] = seen + 1
            length = self.run.launched(spec, inputs, out)
            if length > 1 and self.note_run(owner, length, frame):
                self.watched[spec] = WATCHED + 1
        elif not slow:
            self.settle(key, owner, *call)

    def settle(self, key: Any, owner: Owner, args: Any, kwargs: Any) -> None:
        """From now on a launch of this compiled function on arrays is counted and no more."""
        if not self.tangled:
            statics = owner.static_nums or owner.static_names
            # Without the declaration, which holds the compiled function: what is remembered by that function
            # must not keep it alive.
            self.settled[key] = dataclasses.replace(owner, spec=None) if statics else None
            kinds = set(map(type, trees.leaves_of(owner.traced(args, kwargs))[0]))
            _on_device.update(kind for kind in kinds if not owners.is_host_type(kind))

    def lives_on_host(self, inputs: list[Any], *, arrays_only: bool) -> bool:
        """Whether a traced argument is a number or a numpy array, so is uploaded by the launch."""
        kinds = set(map(type, inputs))
        kinds.discard(self.array)
        if not kinds:
            return False
        kinds = set(map(type, trees.leaves_of(inputs)[0]))
        test = owners.is_host_array_type if arrays_only else owners.is_host_type
        return any(map(test, kinds))


_OUTSIDE: Final = Scope(None)
"""What a context holds where no scope is open: nothing is settled in it, so a launch asks no more of it."""
_current: ContextVar[Scope] = ContextVar("fusegate_scope", default=_OUTSIDE)
_get = _current.get

_on_device: set[type] = set()
"""Types of leaves that were met and are no host values: arrays, typed random keys."""


def _top() -> Scope | None:
    scope = _get()
    return None if scope is _OUTSIDE else scope


def current() -> Scope | None:
    """The innermost scope that is open in this context, and whose generator, if any, is running."""
    scope = _top()
    if scope is not None and scope.tangled:
        return _innermost(scope)
    while scope is not None and scope.closed:
        scope = scope.outer
    return scope


def _innermost(top: Scope) -> Scope | None:
    """Finds the scope by the stack: a generator may have opened one and be suspended since."""
    by_frame: dict[int, Scope] = {}
    plain: Scope | None = None
    scope: Scope | None = top
    while scope is not None:
        if not scope.closed:
            if scope.frame is not None:
                by_frame.setdefault(id(scope.frame), scope)
            if plain is None and not scope.bound:
                plain = scope
        scope = scope.outer
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found = by_frame.get(id(frame))
        if found is not None:
            return found
        frame = frame.f_back
    return plain


def on_launch(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Takes in a launch on the fast path; called by the runtime."""
    scope = _get()
    if fn in scope.settled:
        # A call on one array is the shortest, so the one that a loop would slow down most.
        if kwargs:
            pass
        elif len(args) == 1:
            if type(args[0]) is scope.array:
                scope.launches += 1
                return
        else:
            array = scope.array
            for value in args:
                if type(value) is not array:
                    break
            else:
                scope.launches += 1
                return
        owner = scope.settled.get(fn)
        try:
            traced = (args, kwargs) if owner is None else owner.traced(args, kwargs)
            known = _on_device.issuperset(map(type, scope.flatten(traced)[0]))
        except Exception:  # noqa: BLE001 - the flattening of a user's class may raise anything
            known = False
        if known:
            scope.launches += 1
            return
    if scope is not _OUTSIDE:
        _launched(fn, args, kwargs, out)


def _launched(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    __tracebackhide__ = True
    scope = current()
    if scope is None:
        return
    frame = sys._getframe(2)
    owner = owners.owner_of(fn)
    if owner is not None:
        scope.launched(fn, owner, args, kwargs, out, frame, slow=False)
    else:
        owner = owners.of_origin(launch.nameless_origin(frame))
        scope.launched(fn, owner, args, kwargs, out, frame, slow=True)


def on_slow_launch(origin: launch.Origin, out: Any, frame: FrameType) -> None:
    """Takes in a launch on the slow path; called by the runtime door."""
    __tracebackhide__ = True
    scope = current()
    if scope is not None:
        owner = owners.of_origin(origin)
        scope.launched(None, owner, origin.args, origin.kwargs, out, frame, slow=True)
