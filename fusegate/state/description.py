"""What is known of a state class: its fields, where it is defined, how its instances are filled."""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from typing import Any

from fusegate.errors import Location
from fusegate.judge.state import Owner
from fusegate.runtime import registry

STATIC = "static"
"""Metadata key of a dataclass field that is no data; the runtime and Equinox read the same one."""


@dataclass(frozen=True, eq=False)
class StateClass:
    """Description of one state class.

    Attributes:
        cls: The class.
        data: Names of its data fields, in order.
        metas: Names of its metadata fields, in order.
        defined: Definition site.
        slotted: Names that are stored in slots, not in the instance's dict.
    """

    cls: type
    data: tuple[str, ...]
    metas: tuple[str, ...]
    defined: Location | None
    slotted: frozenset[str]

    @property
    def owner(self) -> Owner:
        """What a finding about the class names."""
        return Owner(self.cls.__qualname__.rpartition("<locals>.")[2], "state", self.defined)

    def has_plain_constructor(self) -> bool:
        """Whether calling the class does nothing but run `__init__` on a new object."""
        return type(self.cls).__call__ is type.__call__ and self.cls.__new__ in _PLAIN_NEW  # type: ignore[comparison-overlap]


_PLAIN_NEW = (object.__new__,)


def describe(cls: type, defined: Location | None) -> StateClass:
    """Describes a dataclass by its fields."""
    fields = dataclasses.fields(cls)
    names = [f.name for f in fields] + [registry.HIDDEN]
    return StateClass(
        cls,
        tuple(f.name for f in fields if not f.metadata.get(STATIC, False)),
        tuple(f.name for f in fields if f.metadata.get(STATIC, False)),
        defined,
        frozenset(name for name in names if _is_slot(cls, name)),
    )


def _is_slot(cls: type, name: str) -> bool:
    for base in cls.__mro__:
        if name in base.__dict__:
            return isinstance(base.__dict__[name], types.MemberDescriptorType)
    return False


def description_of(cls: type) -> StateClass | None:
    """The description of a class decorated with `@state`; None for any other."""
    found: Any = cls.__dict__.get(registry.MARK)
    return found if isinstance(found, StateClass) else None
