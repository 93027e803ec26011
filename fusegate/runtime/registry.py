"""Registers state classes as pytrees, in whichever runtime the process has or is going to have.

The compiled flattening of `register_dataclass` reads attributes; a Python flatten function costs 8 % of
a warm call per state and more where states nest. So a state has one attribute that holds all of its
metadata (`HIDDEN`), and that attribute is the one metadata field the runtime is told of.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import wrapt

from fusegate.errors import RuntimeOrderError
from fusegate.runtime import arrays, resolve

MARK: Final = "__fusegate_state__"
"""Class attribute of a state class: its description. In the class's own dict only for the class itself."""
HIDDEN: Final = "_fusegate_meta"
"""Instance attribute of a state, and constructor keyword by which the runtime unflattens one."""

_lock = threading.RLock()
PENDING: Final[list[Callable[[], None]]] = []
"""Registrations that wait for a runtime."""


class Meta:
    """The metadata of a state: one canonical object per strict value key, compared by identity.

    Attributes:
        names: Names of the metadata fields.
        values: Their values, in the same order.
        attributes: The fields by name. Not this object itself: a cycle would outlive its states.
    """

    __slots__ = ("__weakref__", "attributes", "names", "values")

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self.names = names
        self.values = values
        self.attributes: dict[str, Any] = dict(zip(names, values, strict=True))

    def items(self) -> tuple[tuple[str, Any], ...]:
        """The fields as (name, value)."""
        return tuple(zip(self.names, self.values, strict=True))

    def __copy__(self) -> Meta:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Meta:
        return self

    def __repr__(self) -> str:
        """The field values as the runtime shows them where two structures do not match."""
        return ", ".join(
            f"{name}={'an array' if arrays.is_host_array(value) else repr(value)}"
            for name, value in self.items()
        )


def is_state(value: Any) -> bool:
    """Whether a value is an instance of a state class."""
    return MARK in type(value).__dict__


def register(cls: type, data_fields: tuple[str, ...], *, compiled: bool) -> None:
    """Registers a state class in the runtime of the process.

    Args:
        cls: The class. Called with its data fields and `HIDDEN` as keywords, it makes an instance
            without running a constructor of the user's.
        data_fields: Names of its data fields.
        compiled: Whether the class may be called that way; a class with a `__new__` of its own may not,
            and is registered with Python functions.
    """
    tree_util = resolve.required().public("tree_util")
    if compiled:
        with _as_dataclass_of(cls, (*data_fields, HIDDEN)):
            tree_util.register_dataclass(cls, data_fields=list(data_fields), meta_fields=[HIDDEN])
        return
    keys = [tree_util.GetAttrKey(name) for name in data_fields]

    def flatten(state: Any) -> tuple[tuple[Any, ...], Meta]:
        return tuple(getattr(state, name) for name in data_fields), getattr(state, HIDDEN)

    def flatten_with_keys(state: Any) -> tuple[tuple[tuple[Any, Any], ...], Meta]:
        children, meta = flatten(state)
        return tuple(zip(keys, children, strict=True)), meta

    def unflatten(meta: Meta, children: Any) -> Any:
        state: Any = object.__new__(cls)
        for name, child in zip(data_fields, children, strict=True):
            object.__setattr__(state, name, child)
        for name, value in (*meta.attributes.items(), (HIDDEN, meta)):
            object.__setattr__(state, name, value)
        return state

    tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


@contextmanager
def _as_dataclass_of(cls: type, names: tuple[str, ...]) -> Iterator[None]:
    """Lets `register_dataclass` see a dataclass of exactly these fields.

    It refuses a metadata field that is no constructor field, and the canonical metadata of a state is
    none. The class is not in use yet: it is registered while it is decorated, or while the runtime is
    being imported.
    """
    table = "__dataclass_fields__"
    own = cls.__dict__.get(table)
    seen = dataclasses.make_dataclass("Fields", names)
    setattr(cls, table, getattr(seen, table))
    try:
        yield
    finally:
        if own is None:  # a subclass that inherits its fields
            delattr(cls, table)
        else:
            setattr(cls, table, own)


def when_runtime_loads(work: Callable[[], None]) -> None:
    """Runs a registration now if a runtime is imported, else when one is.

    Args:
        work: The registration; run once.
    """
    with _lock:
        if resolve.loaded() is not None:
            work()
            return
        if not PENDING:
            for name in ("frx", "jax"):
                wrapt.register_post_import_hook(_imported, name)
        PENDING.append(work)


def _imported(_module: Any) -> None:
    try:
        register_pending()
    except RuntimeOrderError:
        return  # told by the first use of a boundary or a state, not from inside an import statement


def register_pending() -> None:
    """Runs the registrations that wait for a runtime; does nothing while there is none.

    Raises:
        RuntimeOrderError: `jax` was imported before `frx`.
    """
    if not PENDING:
        return
    with _lock:
        if resolve.loaded() is not None:
            while PENDING:
                PENDING.pop(0)()
