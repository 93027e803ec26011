"""The constructor of a state class: the fields, the key of the metadata, a look at the data.

A state is made anew in every round of a driver, so its constructor is what it costs there. A frozen
dataclass sets each field through `object.__setattr__`; where nothing of the user's would notice, the
constructor is generated to fill the instance directly, and the time saved pays for the key and the look.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Final

from fusegate.runtime import registry
from fusegate.runtime.registry import HIDDEN, MARK, Meta
from fusegate.state import construct, leaves
from fusegate.state.description import StateClass, describe, description_of

_REMEMBERED: Final = 256
"""Metadata that one class keeps at hand, by its values."""
_LONGEST: Final = 64
"""Characters or bytes of a value that is kept at hand."""
_WIDEST: Final = 1 << 64
"""Integers below this are."""
_ABSENT: Final = object()
"""Default of a parameter that has none: the runtime passes the data alone, and no metadata."""

_FILE: Final = os.path.join(os.path.dirname(__file__), "<constructor>")
"""File of the generated code: one of this package's, so that no finding points at it."""

Constructor = Callable[..., None]


def constructor(known: StateClass, original: Constructor, *, generated: bool) -> Constructor:
    """The constructor of a state class; called with `HIDDEN` as a keyword it only puts the fields in place.

    Args:
        known: The class.
        original: Its own constructor.
        generated: Whether that is the one that `dataclasses` made for this class.
    """
    plain = generated and _is_plain(known)
    made = _Generated(known, original).made() if plain else _around(known, original)
    return functools.wraps(original)(made)


def _around(known: StateClass, original: Constructor) -> Constructor:
    """The original, then the checks; or neither, to unflatten."""
    stores_in_slots = bool(known.slotted)

    def __init__(self: Any, /, *args: Any, _fusegate_meta: Any = None, **kwargs: Any) -> None:  # noqa: N807
        __tracebackhide__ = True
        if _fusegate_meta is None:
            original(self, *args, **kwargs)
            _constructed(self, known)
        elif not stores_in_slots:
            kept = self.__dict__
            kept.update(kwargs)
            kept.update(_fusegate_meta.attributes)
            kept[HIDDEN] = _fusegate_meta
        else:
            for name, value in (*kwargs.items(), *_fusegate_meta.attributes.items()):
                object.__setattr__(self, name, value)
            object.__setattr__(self, HIDDEN, _fusegate_meta)

    return __init__


def _constructed(state: Any, known: StateClass) -> None:
    """Seals a state whose fields are set, unless a subclass's constructor is still at work on it."""
    __tracebackhide__ = True
    kind: Any = type(state)
    if kind is known.cls:
        construct.seal(state, known)
        return
    own = _own_description(kind, known)
    # A subclass with a constructor of its own is not done yet; the outermost one seals.
    if kind.__init__ is known.cls.__init__:  # type: ignore[misc]
        construct.seal(state, own)


_adopting: Final = RLock()


def _own_description(cls: Any, known: StateClass) -> StateClass:
    """The description of a subclass; one that was not decorated is adopted with its parent's fields."""
    with _adopting:
        own = description_of(cls)
        if own is None:
            own = describe(cls, known.defined)
            setattr(cls, MARK, own)
            inherits = "__init__" not in cls.__dict__ and own.has_plain_constructor()
            registry.when_runtime_loads(lambda: registry.register(cls, own.data, compiled=inherits))
        return own


def _is_plain(known: StateClass) -> bool:
    """Whether setting the fields is all that the constructor which `dataclasses` made does."""
    cls: Any = known.cls
    fields = dataclasses.fields(cls)
    names = [f.name for f in fields]
    return bool(
        len(cls.__init__.__code__.co_varnames) == 1 + len(names)  # and no InitVar
        and all(f.init for f in fields)
        and not hasattr(cls, "__post_init__")
        and cls.__getattribute__ is object.__getattribute__
        and not any(name == "self" or name.startswith("_fusegate") for name in names)
        and not any(_is_descriptor(cls, name) and name not in known.slotted for name in names)
        and (not known.slotted or known.slotted >= {*names, HIDDEN})
    )


def _is_remembered(value: Any) -> bool:
    """Whether a metadata value is found by `==` among those of its own type, and small enough to be kept."""
    kind = type(value)
    if kind is int:
        return bool(-_WIDEST < value < _WIDEST)
    if kind is str or kind is bytes:
        return len(value) <= _LONGEST
    if kind is float:
        return bool(value) and value == value  # noqa: PLR0124 - neither zero, of which there are two, nor NaN
    return kind is bool or value is None


def _is_descriptor(cls: type, name: str) -> bool:
    """Whether a class attribute takes over the setting of a field."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return hasattr(type(found), "__set__")


class _Generated:
    """Writes the constructor of one class, statement by statement.

    What the generated code reads besides the fields is in its globals, under names that begin as `HIDDEN`
    does, since a field may have any other name.
    """

    def __init__(self, known: StateClass, original: Constructor) -> None:
        self._known = known
        self._original = original
        self._fields = dataclasses.fields(known.cls)
        self._recent: dict[tuple[Any, ...], Meta] = {}
        self._scope: dict[str, Any] = {
            "_fusegate_absent": _ABSENT,
            "_fusegate_checked": lambda state: construct.check_data(state, known),
            "_fusegate_cls": known.cls,
            "_fusegate_inherited": self._inherited,
            "_fusegate_fit": leaves.FIT,
            "_fusegate_incomplete": self._incomplete,
            "_fusegate_nothing": construct.NOTHING,
            "_fusegate_pending": registry.PENDING,
            "_fusegate_recent": self._recent.get,
            "_fusegate_register": registry.register_pending,
            "_fusegate_settled": self._settled,
            "_fusegate_type": type,
            "__tracebackhide__": True,
        }
        for name in known.metas:
            self._scope[f"_fusegate_type_{name}"] = None
        for name in known.slotted:
            slot: Any = getattr(known.cls, name)
            self._scope[f"_fusegate_set_{name}"] = slot.__set__

    def made(self) -> Constructor:
        """The constructor."""
        lines = [f"def __init__({self._parameters()}):"]
        lines += [f"    {line}" for line in self._body()]
        exec(compile("\n".join(lines), _FILE, "exec"), self._scope)
        made: Constructor = self._scope["__init__"]
        return made

    def _settled(self, state: Any) -> None:
        """Settles a state whose metadata was not seen yet, and remembers it."""
        __tracebackhide__ = True
        meta = construct.settle(state, self._known)
        values = tuple([getattr(state, name) for name in self._known.metas])
        if not all(map(_is_remembered, values)):
            return
        slots = [f"_fusegate_type_{name}" for name in self._known.metas]
        types = [type(value) for value in values]
        if not self._recent:
            # One type per field, for good: whoever reads meanwhile finds no type or that one.
            for slot, kind in zip(slots, types, strict=True):
                self._scope[slot] = self._scope[slot] or kind
        if types == [self._scope[slot] for slot in slots]:
            if len(self._recent) >= _REMEMBERED:
                self._recent.clear()
            self._recent[values] = meta

    def _incomplete(self, state: Any, given: dict[str, Any]) -> None:
        """Calls the original with what was given; it raises for a parameter that is missing."""
        told = {name: value for name, value in given.items() if value is not _ABSENT}
        self._original(state, **told)

    def _inherited(self, state: Any, given: dict[str, Any]) -> None:
        """Constructs an instance of a subclass, which may set a field in a way of its own."""
        __tracebackhide__ = True
        self._incomplete(state, given)
        _constructed(state, self._known)

    def _parameters(self) -> str:
        """The signature: as the original's, but that anything may be left out.

        The runtime gives no metadata, and a call of the program that leaves out what it may not is refused
        by the original, in its words.
        """
        positional = ["self"]
        named: list[str] = []
        for field in self._fields:
            default = "_fusegate_absent"
            if field.default is not dataclasses.MISSING:
                default = f"_fusegate_default_{field.name}"
                self._scope[default] = field.default
            (named if field.kw_only else positional).append(f"{field.name}={default}")
        return ", ".join([*positional, "*", *named, f"{HIDDEN}=None"])

    def _body(self) -> list[str]:
        data, metas = self._known.data, self._known.metas
        names = [field.name for field in self._fields]
        fit = [f"_fusegate_type({name}) in _fusegate_fit" for name in data]
        given = ", ".join(f"{name!r}: {name}" for name in names)
        lines = [] if self._known.slotted else ["_fusegate_dict = self.__dict__"]
        lines += [f"if {HIDDEN} is None:"]
        lines += ["    if _fusegate_type(self) is not _fusegate_cls:"]
        lines += [f"        return _fusegate_inherited(self, {{{given}}})"]
        lines += [f"    {line}" for line in self._fill(given)]
        lines += [f"    {self._put(name)}" for name in names]
        lines += ["    if _fusegate_pending: _fusegate_register()"]
        lines += [f"    {line}" for line in self._keyed()]
        if fit:
            lines += [f"    if not ({' and '.join(fit)}): _fusegate_checked(self)"]
        lines += ["    return"]
        lines += [self._put(name) for name in data]
        if self._known.slotted:
            lines += [self._put(name, f"{HIDDEN}.attributes[{name!r}]") for name in metas]
        elif metas:
            lines += [f"_fusegate_dict.update({HIDDEN}.attributes)"]
        return [*lines, self._put(HIDDEN)]

    def _fill(self, given: str) -> list[str]:
        """Fills in what was not given, and refuses a call that leaves out what has no default."""
        lines: list[str] = []
        required: list[str] = []
        for field in self._fields:
            if field.default_factory is not dataclasses.MISSING:
                made = f"_fusegate_factory_{field.name}"
                self._scope[made] = field.default_factory
                lines.append(f"if {field.name} is _fusegate_absent: {field.name} = {made}()")
            elif field.default is dataclasses.MISSING:
                required.append(field.name)
        if required:
            missing = " or ".join(f"{name} is _fusegate_absent" for name in required)
            lines.insert(0, f"if {missing}: _fusegate_incomplete(self, {{{given}}})")
        return lines

    def _keyed(self) -> list[str]:
        """Finds the metadata of values that were seen before, or settles new ones."""
        metas = self._known.metas
        if not metas:
            return [self._put(HIDDEN, "_fusegate_nothing")]
        same = [f"_fusegate_type({name}) is _fusegate_type_{name}" for name in metas]
        return [
            f"if {' and '.join(same)}: {HIDDEN} = _fusegate_recent(({', '.join(metas)},))",
            f"if {HIDDEN} is None: _fusegate_settled(self)",
            f"else: {self._put(HIDDEN)}",
        ]

    def _put(self, name: str, value: str = "") -> str:
        """The statement that stores a value in the instance."""
        if self._known.slotted:
            return f"_fusegate_set_{name}(self, {value or name})"
        return f"_fusegate_dict[{name!r}] = {value or name}"
