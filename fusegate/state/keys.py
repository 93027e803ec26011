"""Strict value keys: two values have equal keys exactly when a program may stand in for the other's.

Floor 7: imports everything below it. Python says 1 == 1.0 == True and 0.0 == -0.0, so a program keyed by
`==` is served for a value it was not traced for. A key here tells types and signs apart, takes NaN for
itself, and refuses what compares by identity, can change, or is an array.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
import types
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, NoReturn

from fusegate.judge.state import ValueFact
from fusegate.runtime import arrays, resolve
from fusegate.state import content, identity, names, twins
from fusegate.state.identity import Same
from fusegate.state.twins import ByEquality

Kind = Literal["identity", "mutable", "array"]


class NotByValue(TypeError):
    """A value that cannot be compared by value.

    Attributes:
        kind: `identity`, `mutable` or `array`.
        path: Where inside the value: `.hasher`, `[0]`; empty for the value itself.
        what: The offending part, by class or function name; never a value.
        reason: Why it cannot be compared by value.
        fix: What to do about it.
    """

    def __init__(self, kind: Kind, what: str, reason: str, fix: str, path: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.what = what
        self.reason = reason
        self.fix = fix
        self.path = path

    def __str__(self) -> str:
        place = f"`{self.path.removeprefix('.')}`: " if self.path else ""
        return f"{place}{self.what} {self.reason}; {self.fix}"

    def fact(self, path: str) -> ValueFact:
        """The refusal as a fact about the field or argument `path`."""
        return ValueFact(self.kind, path + self.path, self.what, self.reason, self.fix)


IDENTITY_FIX: Final = "give the class a value __eq__ and __hash__ over all that its methods read (a frozen dataclass has both)"
CALLABLE_FIX: Final = (
    "define it at module level, or key it by value: fusegate.bind(fn, ...), @fusegate.stable"
)
MUTABLE_FIX: Final = "use a tuple, a frozenset or a frozen dataclass"
ARRAY_FIX: Final = "make it a data field, or an array argument; a small host array may be metadata as fusegate.by_content(a)"


def value_key(value: Any) -> Hashable:
    """Returns a key that is equal for strictly equal values only.

    Args:
        value: A static argument or a metadata value.

    Returns:
        A hashable key. It keeps the value alive.

    Raises:
        NotByValue: The value, or a part of it, compares by identity, is mutable, or is an array.

    Example:
        >>> value_key((1, 2)) == value_key((1, 2))
        True
        >>> value_key(1) == value_key(1.0) or value_key(0.0) == value_key(-0.0)
        False
        >>> value_key(float("nan")) == value_key(float("nan"))
        True
    """
    keyer = Keyer()
    key = keyer.key(value)
    keyer.verify()
    return key


def _float_key(value: float) -> Hashable:
    return (float, struct.pack("<d", value) if value == value else "nan")  # noqa: PLR0124 - NaN


def _complex_key(value: complex) -> Hashable:
    return (complex, _float_key(value.real), _float_key(value.imag))


def _atom_key(value: Any) -> Hashable:
    return (type(value), value)


_ATOMS: Final[dict[type, Callable[[Any], Hashable]]] = {
    type(None): _atom_key,
    bool: _atom_key,
    int: _atom_key,
    str: _atom_key,
    bytes: _atom_key,
    type(Ellipsis): _atom_key,
    float: _float_key,
    complex: _complex_key,
}
_BASES: Final = (int, str, bytes, float, complex)
_MUTABLE: Final = (list, dict, set, bytearray, deque, memoryview, types.MappingProxyType)


def atom_key(value: Any) -> Hashable | None:
    """The key of a number, a text, a None; None for anything else. The quick way of a construction."""
    atom = _ATOMS.get(type(value))
    return atom(value) if atom is not None else None


class Keyer:
    """Builds one key, and collects what its equality still rests on.

    Attributes:
        boxes: Values compared by their own `__eq__`, with their paths; `verify` looks into them.
    """

    def __init__(self) -> None:
        self.boxes: list[tuple[str, ByEquality]] = []
        self._path: list[str] = []

    def key(self, value: Any) -> Hashable:
        """The structural key of a value; says nothing yet of what a user's `__eq__` compares.

        Raises:
            NotByValue: As `value_key`.
        """
        atom = _ATOMS.get(type(value))
        return atom(value) if atom is not None else self.compound(value)

    def verify(self) -> None:
        """Makes sure that every value compared by its own `__eq__` is compared by value.

        Raises:
            NotByValue: One of them compares by identity, itself or in a part of it.
        """
        for path, box in self.boxes:
            fault = twins.fault_of(box)
            if fault is not None:
                fix = CALLABLE_FIX if fault.is_callable else IDENTITY_FIX
                kind: Kind = "identity"
                raise NotByValue(kind, fault.what, fault.reason, fix, path + fault.path)

    def parts(self, values: Any) -> tuple[Hashable, ...]:
        """Keys of named parts, given as (path suffix, value)."""
        keys = []
        for suffix, value in values:
            self._path.append(suffix)
            keys.append(self.key(value))
            self._path.pop()
        return tuple(keys)

    def refuse(self, kind: Kind, what: str, reason: str, fix: str) -> NoReturn:
        """Refuses the part that is being looked at."""
        raise NotByValue(kind, what, reason, fix, "".join(self._path))

    def compound(self, value: Any) -> Hashable:
        """The key of anything but an atom."""
        cls = type(value)
        if isinstance(value, (type, types.ModuleType, enum.Enum)):
            return Same(value)
        if isinstance(value, tuple) and identity.has_eq_of(cls, tuple):
            fields = getattr(cls, "_fields", None)
            suffixes = (
                [f".{f}" for f in fields] if fields else [f"[{i}]" for i in range(len(value))]
            )
            return (cls, *self.parts(zip(suffixes, value, strict=True)))
        if isinstance(value, frozenset):
            return (cls, frozenset(self.parts(("{}", item) for item in value)))
        if isinstance(value, (range, slice)):
            return (
                cls,
                *self.parts((f".{n}", getattr(value, n)) for n in ("start", "stop", "step")),
            )
        array = self._array(value)
        if array is not None:
            return array
        if identity.is_function_like(value):
            return self.callable(value)
        for base in _BASES:
            if isinstance(value, base) and identity.has_eq_of(cls, base):
                as_base: Callable[[Any], Any] = base
                return (cls, _ATOMS[base](as_base(value)))
        if isinstance(value, _MUTABLE):
            self.refuse("mutable", names.of_type(cls), "can change after it was keyed", MUTABLE_FIX)
        if dataclasses.is_dataclass(value):
            made = self._dataclass(value)
            if made is not None:
                return made
        return self._other(value)

    def _array(self, value: Any) -> Hashable | None:
        """The key of a host scalar, a dtype, or an array blessed by `by_content`."""
        if arrays.is_host_array(value):
            key = content.key_of(value)
            if key is not None:
                return key
            what = (
                f"a numpy array {arrays.describe(value)}" if resolve.loaded() else "a numpy array"
            )
            self.refuse("array", what, "is mutable and has no == that is one truth", ARRAY_FIX)
        if resolve.loaded() is not None:
            if arrays.is_tracer(value):
                what = f"a tracer {arrays.describe(value)}"
                self.refuse(
                    "array", what, "belongs to one trace and has no value to key", ARRAY_FIX
                )
            if arrays.is_device_array(value):
                what = f"a device array {arrays.describe(value)}"
                self.refuse("array", what, "is read from the device by every ==", ARRAY_FIX)
        return None

    def callable(self, value: Any) -> Hashable:
        """The key of a function, a partial or a bound method.

        Raises:
            NotByValue: It is none that a module holds under a name.
        """
        if not identity.is_module_level(value):
            reason = "compares by identity, and is built anew by each call"
            self.refuse("identity", names.of_callable(value), reason, CALLABLE_FIX)
        return Same(value)

    def singleton(self, value: Any) -> bool:
        """Whether an object that compares by identity is the only one of its value in the process."""
        return identity.is_process_singleton(value)

    def _dataclass(self, value: Any) -> Hashable | None:
        """The key of a dataclass with the generated `__eq__`; None where it has its own."""
        cls = type(value)
        if not identity.has_generated_eq(cls):
            return None
        if not cls.__dataclass_params__.frozen:
            reason = "is a dataclass that is not frozen, so it can change after it was keyed"
            self.refuse("mutable", names.of_type(cls), reason, "declare it @dataclass(frozen=True)")
        compared = [f.name for f in dataclasses.fields(value) if f.compare]
        return (cls, *self.parts((f".{name}", getattr(value, name)) for name in compared))

    def _other(self, value: Any) -> Hashable:
        cls = type(value)
        if identity.has_eq_of(cls, object):
            if self.singleton(value):
                return Same(value)
            what = names.of_type(cls)
            self.refuse(
                "identity", what, "compares by identity: it has no value __eq__", IDENTITY_FIX
            )
        if not isinstance(value, Hashable):
            held = identity.array_inside(value)
            if held is not None:
                reason = f"holds an array in `{held.removeprefix('.')}` and is not hashable"
                self.refuse("array", names.of_type(cls), reason, ARRAY_FIX)
            reason = "has __eq__ and no __hash__, so it can change after it was keyed"
            self.refuse("mutable", names.of_type(cls), reason, MUTABLE_FIX)
        try:
            box = ByEquality(value)
        except Exception as error:  # a user's __hash__ may raise anything
            raise self._unhashable(value, error) from error
        self.boxes.append(("".join(self._path), box))
        return box

    def _unhashable(self, value: Any, error: Exception) -> NotByValue:
        """The refusal of a value whose `__hash__` fails: what it holds is no value."""
        what = names.of_type(type(value))
        held = identity.array_inside(value)
        if held is not None:
            reason = f"holds an array in `{held.removeprefix('.')}`, which its __hash__ refuses"
            self.refuse("array", what, reason, ARRAY_FIX)
        self.refuse(
            "mutable", what, f"has a __hash__ that fails: {type(error).__name__}", MUTABLE_FIX
        )


def holder_of(value: Any) -> Any:
    """The function inside partials; the value itself for anything else."""
    while isinstance(value, functools.partial):
        value = value.func
    return value
