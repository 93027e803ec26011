"""Round bodies melt: called while a boundary is being traced, they are inlined without a nested call.

A round body called eagerly must cost what a bare jit costs, so nothing may ask "am I inside a trace?" on
that path. Instead, while any boundary is being traced, every round body's callable is exchanged for one
that asks, and exchanged back afterwards. The exchanged callable is right on every thread: a round body
called eagerly in the meantime still runs its own program.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fusegate import ledger
from fusegate.boundaries.spec import BoundarySpec
from fusegate.config import Mode
from fusegate.errors import Location
from fusegate.observe.program import MARKER
from fusegate.runtime import arrays, frames, jit, resolve, trees

if TYPE_CHECKING:
    from collections.abc import Callable


class Exchangeable(Protocol):
    """A proxy whose callable can be exchanged."""

    def exchange(self, *, melting: bool) -> None:
        """Uses the asking callable, or goes back to the compiled function."""


@dataclass(frozen=True)
class Melted:
    """One melted call in a trace.

    Attributes:
        spec: The round body.
        shapes: What its traced arguments were, as text.
        location: The user line that calls it.
    """

    spec: BoundarySpec
    shapes: tuple[str, ...]
    location: Location | None


@dataclass
class Zone:
    """The trace of one boundary, with the round bodies that melted into it."""

    spec: BoundarySpec
    melted: list[Melted] = field(default_factory=list)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.zones: list[Zone] = []


_stack = _Stack()
_lock = threading.RLock()
_proxies: weakref.WeakSet[Any] = weakref.WeakSet()
_contracts: weakref.WeakValueDictionary[str, BoundarySpec] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


class _Depth:
    value = 0


def register(proxy: Exchangeable) -> None:
    """Makes a round body's proxy take part; one made while a trace is under way starts exchanged."""
    with _lock:
        _proxies.add(proxy)
        if _Depth.value:
            proxy.exchange(melting=True)


def is_melting() -> bool:
    """Whether some boundary is being traced, on any thread."""
    return _Depth.value > 0


@contextmanager
def tracing(spec: BoundarySpec) -> Iterator[Zone]:
    """Marks that a boundary's body is being traced on this thread.

    Yields:
        The zone that collects what melts into the trace.
    """
    zone = Zone(spec)
    with _lock:
        _Depth.value += 1
        if _Depth.value == 1:
            for proxy in list(_proxies):
                proxy.exchange(melting=True)
    _stack.zones.append(zone)
    try:
        yield zone
    finally:
        _stack.zones.pop()
        with _lock:
            _Depth.value -= 1
            if _Depth.value == 0:
                for proxy in list(_proxies):
                    proxy.exchange(melting=False)


def melting_callable(spec: BoundarySpec, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The callable of a round body while boundaries are being traced.

    Args:
        spec: The round body.
        compiled: Its own compiled function, for calls that are not inside a trace of this thread.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not _stack.zones or not jit.under_jit() or jit.jit_disabled():
            return compiled(*args, **kwargs)
        marker = _note(spec, args, kwargs)
        with resolve.required().module.named_scope(marker):
            return spec.fn(*args, **kwargs)

    return call


def contract_marker(spec: BoundarySpec) -> str:
    """The part of the name scope that all melted calls of one round body share."""
    marker = spec.attributes.get("marker")
    if marker is None:
        marker = f"{MARKER}{spec.name}#{next(_numbers)}"
        marker = spec.attributes.setdefault("marker", marker)
        _contracts[marker] = spec
    return str(marker)


def contract_of(marker: str) -> BoundarySpec | None:
    """The round body behind the shared part of a name scope, where it is still alive."""
    return _contracts.get(marker)


def _note(spec: BoundarySpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Notes one melted call in the innermost zone; the name scope for its equations."""
    zone = _stack.zones[-1]
    leaves, _ = trees.leaves_of((args, kwargs))
    shapes = tuple(arrays.describe(leaf) for leaf in leaves)
    zone.melted.append(Melted(spec, shapes, frames.user_location()))
    if spec.mode() is not Mode.OFF:
        ledger.current().count(spec, melted=1)
    return f"{contract_marker(spec)}.{len(zone.melted)}"
