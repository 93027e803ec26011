"""What a value is called in a message: classes with their module, functions with their line."""

from __future__ import annotations

import functools
import os
import types
from typing import Any


def of_type(cls: type) -> str:
    """`zorch.hash.sponge.Sponge`; builtins go without their module."""
    if cls.__module__ == "builtins":
        return f"a {cls.__qualname__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def of_callable(value: Any) -> str:
    """`lambda (prover.py:33)`, `partial of fold`, `bound method Layer.step`."""
    if isinstance(value, functools.partial):
        return f"partial of {of_callable(value.func)}"
    if (
        isinstance(value, (types.MethodType, types.BuiltinMethodType))
        and value.__self__ is not None
    ):
        owner = value.__self__
        if not isinstance(owner, types.ModuleType):
            return f"bound method {type(owner).__qualname__}.{value.__name__}"
    code = getattr(value, "__code__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if name is None:
        return of_type(type(value))
    if isinstance(code, types.CodeType):
        place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        return f"{'lambda' if code.co_name == '<lambda>' else f'function {name}'} ({place})"
    return f"{type(value).__qualname__} {name}"
