"""Which boundary a call into the runtime belongs to, and what is known of calls under way."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from fusegate import ledger
from fusegate.boundaries import filtering
from fusegate.boundaries.spec import BoundarySpec
from fusegate.observe import owners, signature
from fusegate.runtime import arrays, context, frames, trees

_OWNER = owners.SPEC_MARK
_ASIDE = frozenset({"jit_trace", "jit_lower", "jit_eval_shape", "eval_shape", "make_jaxpr_f"})


def own(body: Callable[..., Any], spec: BoundarySpec) -> None:
    """Marks the function that a boundary hands to `jit`."""
    setattr(body, _OWNER, spec)


def owner_of(call: frames.RuntimeCall | None) -> BoundarySpec | None:
    """The boundary whose program a runtime call runs; None for another jit's."""
    return getattr(call.function, _OWNER, None) if call is not None else None


_lowered: weakref.WeakKeyDictionary[Any, tuple[BoundarySpec, bool]] = weakref.WeakKeyDictionary()


def lowered(lowering: Any, spec: BoundarySpec, *, elsewhere: bool = False) -> None:
    """Notes what `.lower()` gave, so that its compile has an owner.

    Args:
        lowering: The runtime's lowering object; None where it is unknown.
        spec: The boundary.
        elsewhere: Whether it is for a device that the process does not have, so none of its own programs.
    """
    if lowering is not None:
        _lowered[lowering] = (spec, elsewhere)


def lowered_by(lowering: Any) -> tuple[BoundarySpec, bool] | None:
    """The boundary whose `.lower()` gave a lowering, and whether that was for a device elsewhere."""
    return None if lowering is None else _lowered.get(lowering)


def call_of(spec: BoundarySpec, start: FrameType | None) -> frames.RuntimeCall | None:
    """The innermost runtime call on the stack, where it is one of this boundary."""
    call = frames.runtime_call(start)
    return call if owner_of(call) is spec else None


def cache_epoch(spec: BoundarySpec) -> tuple[object, int]:
    """Changes whenever the caches are cleared, all of them or this boundary's own."""
    return context.cache_epoch(), spec.attributes.get("clears", 0)


def is_aside(frame: FrameType | None) -> bool:
    """Whether the trace under way was asked for its own sake: `.lower`, `eval_shape`, `make_jaxpr`."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in _ASIDE and code.co_filename.endswith(
            (f"_src{os.sep}pjit.py", f"_src{os.sep}api.py")
        ):
            return True
        frame = frame.f_back
    return False


def is_executing(call: frames.RuntimeCall) -> bool:
    """Whether a call of a jit will run its program, not become part of another trace."""
    if not call.direct:
        return False
    leaves, _ = trees.leaves_of((call.args, call.kwargs))
    return not any(arrays.is_tracer(leaf) for leaf in leaves)


def has_own_program(call: frames.RuntimeCall) -> bool:
    """Whether a call leads to a program of its own: it executes, or asks for one by `.lower` or `.trace`."""
    return not call.direct or is_executing(call)


def traced_arguments(
    spec: BoundarySpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """(name, value) of each argument that a boundary traces, whichever way it hands them on."""
    if spec.filter:
        args, kwargs = filtering.joined(spec, *args)[1:]
    return spec.arguments.traced(args, kwargs)


def result_of(out: Any) -> Any:
    """What the user's function returned, whichever way the boundary hands it on."""
    return out.token.combine(out.data) if type(out) is filtering.Mixed else out


def capture(
    spec: BoundarySpec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    passed: tuple[tuple[Any, ...], Mapping[str, Any]] | None,
) -> signature.Signature:
    """Captures the signature of a trace or call, whichever way the boundary hands arguments on."""
    if spec.filter:
        return filtering.capture(spec, args, passed)
    return signature.capture(spec.arguments, args, kwargs, passed)


class _Calls(threading.local):
    """Per thread: calls whose trace or compile has happened and whose launch has not.

    Keyed by the identity of the runtime's frame, which lives until the call returns.
    """

    def __init__(self) -> None:
        self.cold: dict[int, tuple[ledger.TraceEntry | None, Any]] = {}


_calls = _Calls()


def traced_now(call: frames.RuntimeCall, entry: ledger.TraceEntry, zone: Any) -> None:
    """Notes that a call traced, so that its compile is expected and its launch is cold."""
    if len(_calls.cold) > 64:  # calls that raised between their trace and their launch
        _calls.cold.clear()
    _calls.cold[id(call.frame)] = (entry, zone)


def compiled_now(call: frames.RuntimeCall) -> None:
    """Notes that a call compiled, so that its launch is cold."""
    _calls.cold.setdefault(id(call.frame), (None, None))


def trace_of(call: frames.RuntimeCall) -> tuple[ledger.TraceEntry | None, Any]:
    """The trace that happened in a call, with its zone; (None, None) where there was none."""
    return _calls.cold.get(id(call.frame), (None, None))


def launched(call: frames.RuntimeCall) -> bool:
    """Notes the launch of a call; whether it was cold."""
    return _calls.cold.pop(id(call.frame), None) is not None
