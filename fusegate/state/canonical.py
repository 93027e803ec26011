"""The canonical metadata of a state: one object per strict value key, so that comparing is `is`."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

from fusegate.runtime.registry import Meta
from fusegate.state.identity import Same
from fusegate.state.keys import Keyer, NotByValue, atom_key, value_key

# Weak: a key lives as long as a state, or a program in the runtime's caches, holds its metadata.
_metas: Final[WeakValueDictionary[Hashable, Meta]] = WeakValueDictionary()
_lock: Final = Lock()


def meta_of(names: tuple[str, ...], values: tuple[Any, ...]) -> Meta:
    """Returns the one metadata object of these values.

    Args:
        names: Field names.
        values: Their values.

    Raises:
        NotByValue: A value cannot be compared by value. Its path starts at the value.
    """
    key: tuple[Hashable, ...] = (names, *map(atom_key, values))
    keyer = None
    if None in key:
        keyer = Keyer()
        key = (names, *map(keyer.key, values))
    meta = _metas.get(key)
    if meta is not None:
        return meta
    if keyer is not None:
        # Only now: an equal value was looked into before, so the warm way pays for the key alone.
        keyer.verify()
    return _canonical(key, names, values)


def meta_anyway(
    names: tuple[str, ...], values: tuple[Any, ...]
) -> tuple[Meta, dict[str, NotByValue]]:
    """As `meta_of`, for values of which some have no key: those are kept as they compare.

    Args:
        names: Field names.
        values: Their values.

    Returns:
        The metadata, and the refusal of each field that was refused.
    """
    refused: dict[str, NotByValue] = {}
    settled = []
    for name, value in zip(names, values, strict=True):
        try:
            settled.append((value_key(value), value))
        except NotByValue as error:
            refused[name] = error
            settled.append(_settle(value))
    key = (names, *(part for part, _ in settled))
    return _metas.get(key) or _canonical(key, names, tuple(kept for _, kept in settled)), refused


def by_identity(names: tuple[str, ...], values: tuple[Any, ...]) -> Meta:
    """Returns the one metadata object of these very values, whatever they compare as."""
    return _canonical((names, *map(Same, values)), names, values)


def _canonical(key: Hashable, names: tuple[str, ...], values: tuple[Any, ...]) -> Meta:
    with _lock:
        meta = _metas.get(key)
        if meta is None:
            meta = _metas[key] = Meta(names, values)
        return meta


def _settle(value: Any) -> tuple[Hashable, Any]:
    """A key for what has none: containers by what they hold now, anything else by identity.

    A container is kept as a copy. The canonical object is shared by all states of that content, and none
    of them may see what is done to the list of another one.
    """
    try:
        return value_key(value), value
    except NotByValue:
        pass
    cls = type(value)
    if cls in {list, tuple}:
        parts = [_settle(item) for item in value]
        return (cls, *(key for key, _ in parts)), cls(kept for _, kept in parts)
    if cls is dict:
        keys = [_settle(name)[0] for name in value]
        parts = [_settle(item) for item in value.values()]
        kept = dict(zip(value, (item for _, item in parts), strict=True))
        return (cls, *keys, *(key for key, _ in parts)), kept
    if cls is set:
        return (cls, frozenset(_settle(item)[0] for item in value)), set(value)
    return Same(value), value
