"""`@state`, `meta()` and `replace()`: a frozen dataclass that is a pytree, with metadata by value."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, dataclass_transform, overload

from fusegate.errors import Location
from fusegate.runtime import frames, registry
from fusegate.runtime.registry import HIDDEN, MARK
from fusegate.state import construct
from fusegate.state.constructor import constructor
from fusegate.state.description import STATIC, StateClass, describe

T = TypeVar("T")
_MISSING: Final = dataclasses.MISSING


def meta(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - as dataclasses.field names it
    compare: bool = True,
    kw_only: Any = _MISSING,
    metadata: Mapping[Any, Any] | None = None,
) -> Any:
    """Declares a metadata field of a state: part of the key of a program, compared by value.

    Args:
        default: As in `dataclasses.field`.
        default_factory: As in `dataclasses.field`.
        init: As in `dataclasses.field`.
        repr: As in `dataclasses.field`.
        compare: As in `dataclasses.field`; the key of a program always holds the field.
        kw_only: As in `dataclasses.field`.
        metadata: Further field metadata.

    Example:
        >>> import fusegate
        >>> @fusegate.state
        ... class Sponge:
        ...     lanes: object
        ...     rate: int = fusegate.meta(default=8)
        >>> Sponge(lanes=None).rate
        8
    """
    options: dict[str, Any] = {
        "default": default,
        "default_factory": default_factory,
        "kw_only": kw_only,
    }
    given = {name: value for name, value in options.items() if value is not _MISSING}
    field: Any = dataclasses.field(
        init=init, repr=repr, compare=compare, metadata={**(metadata or {}), STATIC: True}, **given
    )
    return field


@overload
def state(cls: type[T], /) -> type[T]: ...
@overload
def state(
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    order: bool = False,
    unsafe_hash: bool = False,
    match_args: bool = True,
    kw_only: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(meta, dataclasses.field))
def state(cls: type[T] | None = None, /, **options: bool) -> type[T] | Callable[[type[T]], type[T]]:
    """Makes a class a frozen dataclass and a pytree: fields are data unless declared with `meta()`.

    The constructor checks what it is given (FG401 to FG404) and runs for the program's own calls only,
    never when a jit, a `vmap` or a `tree.map` puts an instance together again. Metadata is compared by
    value and strictly: 1, 1.0 and True are three values, 0.0 and -0.0 two, NaN is one.

    Args:
        cls: The class, where the decorator is used without parentheses.
        **options: Options of `dataclasses.dataclass`, without `frozen`.

    Returns:
        The class, registered in the process's runtime: now, or as soon as one is imported.

    Raises:
        TypeError: The class is a pytree or a dataclass of another kind already, or an option is unknown.
    """
    defined = frames.user_location()
    if cls is not None:
        return _declare(cls, {}, defined)
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(
            f"state() has no option {min(unknown)!r}; it is always frozen, and has {_OPTIONS}"
        )
    return lambda decorated: _declare(decorated, options, defined)


_OPTIONS: Final = (
    *("init", "repr", "eq", "order", "unsafe_hash"),
    *("match_args", "kw_only", "slots", "weakref_slot"),
)


def replace(instance: T, /, **changes: Any) -> T:
    """Returns a copy of a state with some fields changed; the constructor checks the new values.

    Args:
        instance: A state, or any other dataclass instance.
        **changes: New values by field name.

    Raises:
        TypeError: It is no dataclass instance, or a name is no field of it.

    Example:
        >>> import fusegate
        >>> @fusegate.state
        ... class Sponge:
        ...     lanes: object
        ...     rate: int = fusegate.meta(default=8)
        >>> fusegate.replace(Sponge(lanes=None), rate=4).rate
        4
    """
    if not dataclasses.is_dataclass(instance) or isinstance(instance, type):
        raise TypeError(
            f"replace() takes an instance of a state, not {type(instance).__qualname__}"
        )
    known = {f.name for f in dataclasses.fields(instance)} | set(_init_only(type(instance)))
    unknown = changes.keys() - known
    if unknown:
        fields = ", ".join(sorted(known))
        raise TypeError(
            f"{type(instance).__qualname__} has no field {min(unknown)!r}; it has {fields}"
        )
    return dataclasses.replace(instance, **changes)


def _init_only(cls: type) -> list[str]:
    """Names of the `InitVar` pseudo-fields of a dataclass."""
    table: dict[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    fields = {f.name for f in dataclasses.fields(cls)}
    return [name for name, f in table.items() if name not in fields and "InitVar" in str(f)]


def _declare(cls: type[T], options: Mapping[str, bool], defined: Location | None) -> type[T]:
    _refuse(cls)
    shows = options.get("repr", True) and "__repr__" not in cls.__dict__
    pickles_itself = _pickles_itself(cls)
    # Only where the class has none, dataclasses makes a constructor.
    generated = (
        options.get("init", True) and not {"__init__", "__dataclass_params__"} & vars(cls).keys()
    )
    made = cls if "__dataclass_params__" in cls.__dict__ else _as_dataclass(cls, dict(options))
    if shows:
        made.__repr__ = _repr  # type: ignore[method-assign]
    _adopt(describe(made, defined), generated=generated, pickles_itself=pickles_itself)
    return made


def _refuse(cls: type) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"@state decorates a class, not {type(cls).__qualname__}")
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "equinox":
            raise TypeError(
                f"{cls.__qualname__} is an Equinox module and a pytree already: leave @state off, or make "
                "it a plain class"
            )
    params = cls.__dict__.get("__dataclass_params__")
    if params is not None and not params.frozen:
        raise TypeError(
            f"{cls.__qualname__} is a dataclass that is not frozen: leave @dataclass off"
        )
    if issubclass(cls, (tuple, list, dict)):
        raise TypeError(
            f"{cls.__qualname__} is a pytree already, as every {cls.__mro__[-2].__name__} is"
        )


def _as_dataclass(cls: type[T], options: dict[str, bool]) -> type[T]:
    options["repr"] = False
    if not options.get("slots"):
        return dataclasses.dataclass(frozen=True, **options)(cls)
    # The metadata object needs a slot as well. It is no field: as one it is taken back at once.
    cls.__annotations__ = {**inspect.get_annotations(cls), HIDDEN: object}
    setattr(cls, HIDDEN, dataclasses.field(init=False, repr=False, compare=False, kw_only=True))
    made = dataclasses.dataclass(frozen=True, **options)(cls)
    del made.__dataclass_fields__[HIDDEN]  # type: ignore[attr-defined]
    del made.__annotations__[HIDDEN]
    return made


def _adopt(known: StateClass, *, generated: bool, pickles_itself: bool) -> None:
    """Wraps the constructor of a state class and registers it."""
    cls: Any = known.cls
    setattr(cls, MARK, known)
    if HIDDEN not in known.slotted:
        setattr(cls, HIDDEN, construct.LateMeta())
    cls.__init__ = constructor(known, cls.__init__, generated=generated)
    if not pickles_itself:
        cls.__getstate__, cls.__setstate__ = _getstate, _setstate
    compiled = known.has_plain_constructor()
    registry.when_runtime_loads(lambda: registry.register(cls, known.data, compiled=compiled))


def _pickles_itself(cls: type) -> bool:
    """Whether a class says how its instances are pickled and copied."""
    ways = {name: getattr(cls, name) for name in ("__getstate__", "__reduce__", "__reduce_ex__")}
    return ways["__getstate__"] is not _getstate and any(
        way is not getattr(object, name) for name, way in ways.items()
    )


def _getstate(self: Any) -> dict[str, Any]:
    """The fields of a state: its metadata object belongs to this process."""
    saved = {name: value for name, value in getattr(self, "__dict__", {}).items() if name != HIDDEN}
    for f in dataclasses.fields(self):
        if hasattr(self, f.name):
            saved[f.name] = getattr(self, f.name)
    return saved


def _setstate(self: Any, saved: Mapping[str, Any]) -> None:
    for name, value in saved.items():
        object.__setattr__(self, name, value)
    construct.settle(self, type(self).__dict__[MARK])


def _repr(self: Any) -> str:
    """The fields of a state: arrays by shape and dtype, never by value."""
    shown = [
        f"{f.name}={construct.describe_value(getattr(self, f.name, None))}"
        for f in dataclasses.fields(self)
        if f.repr
    ]
    return f"{type(self).__qualname__.rpartition('<locals>.')[2]}({', '.join(shown)})"
