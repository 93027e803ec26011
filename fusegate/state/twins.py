"""Values with an `__eq__` of their own: does it compare values, and are two equal ones strictly equal?

A user's `__eq__` may hand on to a part that compares by identity; that is the one fault which costs a
retrace per proof and which no annotation shows. So it is tried out: a twin is the same object built
again, down to the parts, and a value that does not equal its twin does not compare by value.
"""

from __future__ import annotations

import enum
import functools
import math
import struct
import types
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

from fusegate.runtime import arrays
from fusegate.state import content, identity, names
from fusegate.state.identity import Fault

_DEPTH: Final = 6
_PARTS: Final = 5000
_ATOMIC: Final = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    type(Ellipsis),
    type,
    types.ModuleType,
    enum.Enum,
)


class ByEquality:
    """A key that compares by a user's `__eq__`, and tells apart what that takes for the same.

    `Scale(2.0) == Scale(2)` holds for most ways to write that `__eq__`; the programs differ.
    """

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash((type(value), hash(value)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByEquality):
            return False
        if self.value is other.value:
            return True
        return (
            self._hash == other._hash
            and type(self.value) is type(other.value)
            and equal(self.value, other.value)
            and next(strict_differences(self.value, other.value), None) is None
        )

    def __hash__(self) -> int:
        return self._hash


def equal(before: Any, after: Any) -> bool:
    """Whether a user's `__eq__` says True; one that fails or answers with an array says no."""
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything; the runtime then misses as well
        return False


def strict_differences(
    before: Any, after: Any, path: str = "", depth: int = _DEPTH
) -> Iterator[str]:
    """Paths at which two values that compare equal hold parts that are equal and not the same.

    Args:
        before: One value.
        after: Another one, equal to it.
        path: Where they stand.
        depth: How many levels to look down.

    Yields:
        The path of each pair like 1 and True, 2 and 2.0, 0.0 and -0.0.
    """
    if before is after or not depth:
        return
    if _is_number(before) and _is_number(after):
        if number_key(before) != number_key(after) and equal(before, after):
            yield path
        return
    if type(before) is not type(after) or isinstance(before, _ATOMIC) or content.is_array(before):
        return
    if isinstance(before, (tuple, list)):
        for index, pair in enumerate(zip(before, after, strict=False)):
            yield from strict_differences(*pair, f"{path}[{index}]", depth - 1)
    elif isinstance(before, dict):
        for key in before.keys() & after.keys():
            yield from strict_differences(before[key], after[key], f"{path}[{key!r}]", depth - 1)
    elif isinstance(before, (frozenset, set)):
        partner = {item: item for item in after}
        for item in before - (before - after):
            yield from strict_differences(item, partner[item], f"{path}{{}}", depth - 1)
    elif not identity.is_function_like(before):
        old, new = identity.attributes_of(before), identity.attributes_of(after)
        for name in old.keys() & new.keys():
            yield from strict_differences(old[name], new[name], f"{path}.{name}", depth - 1)


def _is_number(value: Any) -> bool:
    if isinstance(value, enum.Enum):
        return False
    return isinstance(value, (bool, int, float, complex)) or (
        arrays.is_host_array(value) and not content.is_array(value)
    )


def number_key(value: Any) -> tuple[Any, ...]:
    """Type and bits of a number; every NaN has the same."""
    if isinstance(value, float):
        return (type(value), "nan" if math.isnan(value) else struct.pack("<d", value))
    if isinstance(value, complex):
        return (type(value), *number_key(value.real), *number_key(value.imag))
    if arrays.is_host_array(value):
        return (type(value), content.key_of(value))
    return (type(value), value)


_verified: Final[OrderedDict[ByEquality, None]] = OrderedDict()
_lock: Final = Lock()
_KEPT: Final = 256


def fault_of(box: ByEquality) -> Fault | None:
    """Why a value does not compare by value; None where it does.

    A value equal to one that was tried out before is not tried again.

    Args:
        box: The value.
    """
    with _lock:
        if box in _verified:
            return None
    fault = try_out(box.value)
    if fault is None:
        with _lock:
            _verified[box] = None
            while len(_verified) > _KEPT:
                _verified.popitem(last=False)
    return fault


def try_out(value: Any) -> Fault | None:
    """Builds a value again and compares the two."""
    what = names.of_type(type(value))
    try:
        answer = value == value  # noqa: PLR0124 - the question is what its __eq__ answers
    except Exception as error:  # noqa: BLE001 - a user's __eq__ may raise anything
        return Fault("", what, f"has an __eq__ that fails: {type(error).__name__}")
    if not isinstance(answer, bool) and content.is_array(answer):
        return Fault("", what, "has an __eq__ that answers with an array, not with True or False")
    twin = Rebuild().twin(value)
    if (
        twin is value
    ):  # nothing in it can be built again from here: an extension type, or only atoms
        return None
    if equal(twin, value):
        if hash(twin) == hash(value):
            return None
        return Fault("", what, "has a __hash__ by identity beside its value __eq__")
    return _culprit(value) or Fault(
        "", what, "compares by identity: its __eq__ tells equal copies apart"
    )


def _culprit(value: Any, depth: int = _DEPTH) -> Fault | None:
    """The part because of which an object does not equal its twin."""
    parts = identity.attributes_of(value)
    if not equal(_of_parts(type(value), parts), value):  # it is the object itself, not a part of it
        return None
    for name, part in parts.items():
        rebuilt = Rebuild().twin(part)
        if rebuilt is not part and not equal(
            _of_parts(type(value), parts | {name: rebuilt}), value
        ):
            return _deepest(part, f".{name}", depth)
    return None


def _of_parts(cls: type, parts: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(made, name, part)
    return made


def _deepest(part: Any, path: str, depth: int) -> Fault:
    if identity.is_function_like(part):
        return Fault(path, names.of_callable(part), "compares by identity", is_callable=True)
    if identity.has_eq_of(type(part), object):
        return Fault(
            path, names.of_type(type(part)), "compares by identity: it has no value __eq__"
        )
    if isinstance(part, (tuple, list)):
        for index, item in enumerate(part):
            if not equal(Rebuild().twin(item), item):
                return _deepest(item, f"{path}[{index}]", depth - 1)
    inner = _culprit(part, depth - 1) if depth else None
    if inner is not None:
        return inner._replace(path=path + inner.path)
    return Fault(
        path, names.of_type(type(part)), "compares by identity: its __eq__ tells equal copies apart"
    )


class Rebuild:
    """Builds values again as a program would that makes everything anew but what its modules hold."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._left = _PARTS

    def twin(self, value: Any, depth: int = _DEPTH) -> Any:
        """Another object of the same value; the value itself where that cannot be built from here."""
        if isinstance(value, _ATOMIC) or not depth or self._left <= 0 or content.is_array(value):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        self._left -= 1
        self._made[id(value)] = value
        self._made[id(value)] = twin = self._build(value, depth - 1)
        return twin

    def _build(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if cls in {list, set, frozenset}:
            return cls(self.twin(item, depth) for item in value)
        if cls is tuple:
            return tuple([self.twin(item, depth) for item in value])
        if cls is dict:
            return {key: self.twin(item, depth) for key, item in value.items()}
        if isinstance(value, functools.partial):
            args = [self.twin(item, depth) for item in value.args]
            keywords = {key: self.twin(item, depth) for key, item in value.keywords.items()}
            held = identity.is_module_level(value)
            return (
                value
                if held
                else functools.partial(self.twin(value.func, depth), *args, **keywords)
            )
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self.twin(value.__self__, depth))
        if identity.is_function_like(value):
            if not isinstance(value, types.FunctionType) or identity.is_module_level(value):
                return value
            parts = (
                value.__code__,
                value.__globals__,
                value.__name__,
                value.__defaults__,
                value.__closure__,
            )
            return types.FunctionType(*parts)
        return self._object(value, depth)

    def _object(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if cls is object or hasattr(cls, "__del__") or identity.is_kept_by_its_module(value):
            return value
        parts = identity.attributes_of(value)
        try:
            twin = object.__new__(cls)
            self._made[id(value)] = twin
            for name, part in parts.items():
                object.__setattr__(twin, name, self.twin(part, depth))
        except (TypeError, AttributeError):  # an extension type; it is made by its own means only
            return value
        return twin
