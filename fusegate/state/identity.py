"""Who compares by identity, and for whom that is enough: functions and classes that a module holds."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from fusegate.runtime import resolve
from fusegate.state import content

_stable: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
"""The callables that `bind` and `stable` made, by id."""

_DESCRIPTORS: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_FUNCTIONS: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    functools.partial,
    *_DESCRIPTORS,
)


class Same:
    """Equal for the very same object only; keeps it alive, so that its identity is not reused."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Fault(NamedTuple):
    """Why a value that has an `__eq__` does not compare by value.

    Attributes:
        path: The part that compares by identity; empty for the value itself.
        what: Its class or function name.
        reason: In words, to follow `what`.
        is_callable: Whether that part is a function.
    """

    path: str
    what: str
    reason: str
    is_callable: bool = False


def is_function_like(value: Any) -> bool:
    """Whether a value is a function, a bound method, a partial, or a wrapper of one (a jit, a boundary)."""
    if isinstance(value, _FUNCTIONS):
        return True
    if not callable(value) or isinstance(value, type):
        return False
    own = has_eq_of(type(value), object)
    return hasattr(value, "__wrapped__") or (own and is_module_level(value))


def is_module_level(value: Any) -> bool:
    """Whether a callable is one object for the whole process: a module or a class holds it by name.

    Also true for what `bind` and `stable` return, which is one object per value.
    """
    if isinstance(value, _DESCRIPTORS):
        return True
    if _stable.get(id(value)) is value:
        return True
    module = module_of(value)
    if module is None:
        return False
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    *outer, last = name.split(".")
    holder: Any = module
    for part in outer:
        holder = getattr(holder, part, None)
        if holder is None:
            break
    else:
        found = inspect.getattr_static(holder, last, None)
        found = found.__func__ if isinstance(found, staticmethod) else found
        if any(item is value for item in _unwrapped(found)):
            return True
        if holder is not module and any(item is value for item in vars(holder).values()):
            return True
    # A lambda or a renamed function that a module keeps under another name than its own.
    return any(item is value for item in list(vars(module).values()))


def module_of(value: Any) -> types.ModuleType | None:
    """The module in which a callable, or the class of an object, is defined; None where it is gone."""
    name = getattr(value, "__module__", None)
    if not isinstance(name, str):
        return None
    module = sys.modules.get(name)
    if module is None and name.split(".")[0] == "jax":
        # FRX's functions say `jax.numpy` of themselves, a name that is only there once it was imported.
        runtime = resolve.loaded()
        module = sys.modules.get(runtime.name + name.removeprefix("jax")) if runtime else None
    return module


def _unwrapped(found: Any) -> Iterator[Any]:
    seen = 0
    while found is not None and seen < 16:
        yield found
        found = getattr(found, "__wrapped__", None)
        seen += 1


def is_process_singleton(value: Any) -> bool:
    """Whether an object that compares by identity exists once per value: a device, a PartitionSpec."""
    runtime = resolve.loaded()
    if runtime is None:
        return False
    return isinstance(value, runtime.module.Device) or (
        type(value).__module__.partition(".")[0] in {"jax", runtime.name} and _is_interned(value)
    )


def _is_interned(value: Any) -> bool:
    """Whether a class of the runtime hands out one object per value: a copy is the same one."""
    own: Any = type(value).__new__
    return own is not object.__new__ and copy.copy(value) is value


def has_eq_of(cls: type, base: type) -> bool:
    """Whether a class compares as one of its bases does: `object`, by identity."""
    own: Any = cls.__eq__
    return own is base.__eq__


def has_generated_eq(cls: type) -> bool:
    """Whether the `__eq__` of a dataclass is the generated one, which compares field by field."""
    code = getattr(cls.__eq__, "__code__", None)
    # dataclasses compiles its methods from a string; a method in a source file has the file's name.
    return isinstance(code, types.CodeType) and code.co_filename == "<string>"


def is_kept_by_its_module(value: Any) -> bool:
    """Whether the module of an object's class holds it: a strategy or a default that all users share."""
    module = module_of(value)
    return module is not None and any(item is value for item in list(vars(module).values()))


def attributes_of(value: Any) -> dict[str, Any]:
    """The instance attributes of an object, from its dict and its slots."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            mangled = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if name not in {"__dict__", "__weakref__"} and hasattr(value, mangled):
                found.setdefault(mangled, getattr(value, mangled))
    return found


def part_inside(value: Any, wanted: Callable[[Any], bool], depth: int = 4) -> str | None:
    """Path of the first part of an object that answers to `wanted`; None where there is none."""
    if isinstance(value, (tuple, list)):
        parts = [(f"[{i}]", item) for i, item in enumerate(value)]
    elif isinstance(value, dict):
        parts = [(f"[{key!r}]", item) for key, item in value.items()]
    else:
        parts = [(f".{name}", item) for name, item in attributes_of(value).items()]
    for suffix, item in parts:
        if wanted(item):
            return suffix
        if depth and not isinstance(item, (type, types.ModuleType, types.FunctionType)):
            inner = part_inside(item, wanted, depth - 1)
            if inner is not None:
                return suffix + inner
    return None


def array_inside(value: Any) -> str | None:
    """Path of the first array that an object holds; None where it holds none."""
    return part_inside(value, content.is_array)


def mark_stable(value: Any) -> None:
    """Marks a callable as the only one of its value."""
    _stable[id(value)] = value
