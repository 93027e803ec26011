"""Equinox, reached only after the program has imported a runtime: with FRX first, it runs on FRX."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from fusegate.runtime import arrays, resolve


@functools.cache
def _is_array(runtime_name: str) -> Callable[[Any], bool]:
    assert resolve.required().name == runtime_name
    import equinox

    return equinox.is_array  # type: ignore[no-any-return]


def array_predicate() -> Callable[[Any], bool]:
    """Equinox's `is_array`: device arrays, tracers and numpy arrays are data, everything else static."""
    return _is_array(resolve.required().name)


def abstract_array_predicate() -> Callable[[Any], bool]:
    """As `array_predicate`, of arguments that nothing runs on: a `ShapeDtypeStruct` is data as well."""
    is_array = array_predicate()
    return lambda leaf: is_array(leaf) or arrays.is_struct(leaf)


def is_module(value: Any) -> bool:
    """Whether a value is an Equinox module; False while the program has not imported Equinox."""
    equinox = sys.modules.get("equinox")
    module = getattr(equinox, "Module", None)
    return module is not None and isinstance(value, module)
