"""Functions by value: a key of code, cells and defaults, and a copy that later changes do not reach."""

from __future__ import annotations

import functools
import types
from collections.abc import Hashable
from typing import Any, Final

from fusegate.state import identity, names
from fusegate.state.identity import Same
from fusegate.state.keys import Keyer

_CELL_FIX: Final = "pass it as an argument of the function, or build the function once"


class CallableKeyer(Keyer):
    """Builds keys in which functions count by what they are made of.

    A function that a module holds is its own key. Any other counts by its code, the values in its cells,
    its defaults and the module it looks its globals up in.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: list[types.FunctionType] = []

    def callable(self, value: Any) -> Hashable:
        """The key of a function, a partial or a bound method.

        Raises:
            NotByValue: A cell, a default or a bound argument has no value, or it is a jit built anew.
        """
        if identity.is_module_level(value):
            return Same(value)
        if isinstance(value, functools.partial):
            keywords = sorted(value.keywords.items())
            return (
                type(value),
                *self.parts(((".func", value.func), (".args", value.args))),
                *((name, *self.parts(((f".{name}", item),))) for name, item in keywords),
            )
        if isinstance(value, types.MethodType):
            return (
                type(value),
                *self.parts(((".__func__", value.__func__), (".__self__", value.__self__))),
            )
        if isinstance(value, types.FunctionType):
            return self._function(value)
        return super().callable(value)

    def singleton(self, value: Any) -> bool:
        """Whether an object that compares by identity may: a sentinel is a value, and so is a default."""
        return (
            type(value) is object
            or identity.is_kept_by_its_module(value)
            or super().singleton(value)
        )

    def _function(self, function: types.FunctionType) -> Hashable:
        for depth, outer in enumerate(self._open):
            if outer is function:  # it calls itself, or one that calls it
                return ("itself", depth)
        self._open.append(function)
        try:
            cells = []
            code = function.__code__
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                try:
                    held = cell.cell_contents
                except ValueError:
                    what = names.of_callable(function)
                    reason = f"reads `{name}`, which is not assigned yet"
                    self.refuse("identity", what, reason, _CELL_FIX)
                cells.append((f".{name}", held))
            defaults = function.__defaults__ or ()
            firsts = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
            named = sorted((function.__kwdefaults__ or {}).items())
            return (
                types.FunctionType,
                code,
                Same(function.__globals__),
                self.parts(cells),
                self.parts(
                    (f".{name}", value) for name, value in zip(firsts, defaults, strict=True)
                ),
                tuple(name for name, _ in named),
                self.parts((f".{name}", value) for name, value in named),
            )
        finally:
            self._open.pop()


def frozen_copy(value: Any) -> Any:
    """Copies a callable with its cells, so that a `nonlocal` assigned later does not reach the copy.

    Args:
        value: A callable that `CallableKeyer` has a key for, or a tuple that holds some.

    Returns:
        The copy; the value itself where nothing in it can change.
    """
    return _Freezer().copy(value)


class _Freezer:
    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        if isinstance(value, tuple) and identity.has_eq_of(type(value), tuple):
            parts = [self.copy(item) for item in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)
        if not identity.is_function_like(value) or identity.is_module_level(value):
            return value
        if isinstance(value, functools.partial):
            keywords = {name: self.copy(item) for name, item in value.keywords.items()}
            return type(value)(self.copy(value.func), *self.copy(value.args), **keywords)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.copy(value.__func__), value.__self__)
        return self._function(value) if isinstance(value, types.FunctionType) else value

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        made = self._copies.get(id(function))
        if made is not None:
            return made  # type: ignore[no-any-return]
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            tuple(self.copy(item) for item in function.__defaults__ or ()) or None,
            cells or None,
        )
        self._copies[id(function)] = copy
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self.copy(original.cell_contents)
        copy.__kwdefaults__ = {
            n: self.copy(v) for n, v in (function.__kwdefaults__ or {}).items()
        } or None
        functools.update_wrapper(copy, function)
        del copy.__wrapped__  # type: ignore[attr-defined]
        if hasattr(function, "__wrapped__"):
            copy.__wrapped__ = function.__wrapped__  # type: ignore[attr-defined]
        return copy
