"""What happens when a state is constructed: its metadata becomes a key, its data is looked at."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Final

from fusegate import config
from fusegate.config import Mode
from fusegate.errors import Location
from fusegate.judge import state as judge
from fusegate.judge.deliver import deliver
from fusegate.observe.health import guarded
from fusegate.runtime import arrays, frames, registry, resolve
from fusegate.runtime.registry import HIDDEN, Meta
from fusegate.state import leaves
from fusegate.state.canonical import by_identity, meta_anyway, meta_of
from fusegate.state.description import StateClass
from fusegate.state.keys import NotByValue

NOTHING: Final = Meta((), ())
"""The metadata of every state without metadata fields; unflattening needs one to be recognised by."""


def seal(state: Any, known: StateClass) -> None:
    """Gives a constructed state its canonical metadata, and judges what it was constructed with.

    Args:
        state: The instance; its fields are set.
        known: Its class.

    Raises:
        Violation: In strict: its metadata cannot be compared by value, or its data is no array.
    """
    __tracebackhide__ = True
    registry.register_pending()
    settle(state, known)
    check_data(state, known)


def settle(state: Any, known: StateClass) -> Meta:
    """Computes and stores the metadata of a state.

    Raises:
        Violation: In strict: it cannot be compared by value.
    """
    __tracebackhide__ = True
    if not known.metas:
        meta = NOTHING
    else:
        values = tuple([getattr(state, name) for name in known.metas])
        try:
            meta = meta_of(known.metas, values)
        except NotByValue:
            meta = _refused(known, values)
        except Exception:  # noqa: BLE001 - a method of a user's class may raise anything
            meta = _faulted(known, values)
    if HIDDEN in known.slotted:
        object.__setattr__(state, HIDDEN, meta)
    else:
        state.__dict__[HIDDEN] = meta
    return meta


def _refused(known: StateClass, values: tuple[Any, ...]) -> Meta:
    """Tells of metadata that has no value, and keeps it as it compares."""
    __tracebackhide__ = True
    meta, refused = meta_anyway(known.metas, values)
    mode = mode_of(known)
    if mode is not Mode.OFF:
        facts = [error.fact(name) for name, error in refused.items()]
        for finding in judge.check_values(known.owner, facts, constructed_at()):
            deliver(finding, mode)
    return meta


def _faulted(known: StateClass, values: tuple[Any, ...]) -> Meta:
    """Keeps metadata by identity where making its key failed.

    Raises:
        ObserverFault: In strict.
    """
    __tracebackhide__ = True
    guarded("state keys", mode_of(known), lambda: meta_of(known.metas, values))
    return by_identity(known.metas, values)


def check_data(state: Any, known: StateClass) -> None:
    """Judges the data of a state.

    Raises:
        Violation: In strict: it is no array.
    """
    __tracebackhide__ = True
    if leaves.all_fit([getattr(state, name) for name in known.data]):
        return
    mode = mode_of(known)
    if mode is Mode.OFF or resolve.loaded() is None:
        return

    def judged() -> list[Any]:
        facts = [
            fact for name in known.data for fact in leaves.facts_of(getattr(state, name), name)
        ]
        return judge.check_data(known.owner, facts, None)

    found = guarded("state data", mode, judged)
    if found:
        location = constructed_at()
        for finding in found:
            deliver(dataclasses.replace(finding, location=location), mode)


def mode_of(known: StateClass) -> Mode:
    """The mode that applies to a state class."""
    return config.resolve(None, known.cls.__module__)


def constructed_at() -> Location | None:
    """The user line that is constructing a state: the innermost one outside generated constructors."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file != "<string>" and not frames.is_library_file(file):
            return frames.location_of(frame)
        frame = frame.f_back
    return frames.user_location()


class LateMeta:
    """Class attribute that stands in for the metadata of an instance which no constructor made.

    An instance attribute of the same name wins over it, so that it costs a sealed state nothing.
    """

    def __get__(self, state: Any, owner: type) -> Any:
        if state is None:
            return self
        known: StateClass = owner.__dict__[registry.MARK]
        return settle(state, known)


def describe_value(value: Any) -> str:
    """A field value in the repr of a state: arrays by type, small static values as they are."""
    if isinstance(value, (list, tuple)) and type(value) in {list, tuple} and len(value) <= 8:
        inner = ", ".join(describe_value(item) for item in value)
        closing = "," if len(value) == 1 and type(value) is tuple else ""
        return f"[{inner}]" if type(value) is list else f"({inner}{closing})"
    if type(value) is dict and len(value) <= 8:
        return (
            "{" + ", ".join(f"{key!r}: {describe_value(item)}" for key, item in value.items()) + "}"
        )
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value) if not arrays.is_host_array(value) else arrays.describe(value)
    if registry.is_state(value):
        return repr(value)
    if resolve.loaded() is not None:
        shown = arrays.describe(value)
        if shown != type(value).__name__:
            return shown
    return str(getattr(value, "__qualname__", f"{type(value).__qualname__}(...)"))
