"""What is asked of an array without reading it: type, placement, and what kind of host value it is."""

from __future__ import annotations

import sys
from typing import Any

from fusegate.runtime import resolve

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def abstract(value: Any) -> Any:
    """The abstract value of an array, a tracer or a number; None for anything else."""
    aval = getattr(value, "aval", None)
    if aval is not None:
        return aval
    runtime = resolve.required()
    try:
        return runtime.module.typeof(value)
    except (TypeError, AttributeError):
        return None


def is_tracer(value: Any) -> bool:
    """Whether a value is a tracer, so stands for an array that is not there yet."""
    return isinstance(value, resolve.required().module.core.Tracer)


def is_device_array(value: Any) -> bool:
    """Whether a value is a concrete array of the runtime."""
    return isinstance(value, resolve.required().module.Array) and not is_tracer(value)


def is_struct(value: Any) -> bool:
    """Whether a value is a `ShapeDtypeStruct`, which describes an array and holds none."""
    return isinstance(value, resolve.required().module.ShapeDtypeStruct)


def is_host_array(value: Any) -> bool:
    """Whether a value is a numpy array or scalar; numpy is only asked where it is loaded."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def host_kind(value: Any) -> str:
    """What a caller passed: `array`, `numpy`, `python`, `tracer` or `other`."""
    if isinstance(value, (bool, int, float, complex)) and not is_host_array(value):
        return "python"
    if is_host_array(value):
        return "numpy"
    if is_tracer(value):
        return "tracer"
    return "array" if is_device_array(value) else "other"


def committed(value: Any) -> bool | None:
    """Whether an array is committed to its devices; None where the question makes no sense."""
    return bool(value.committed) if is_device_array(value) and hasattr(value, "committed") else None


def placement(value: Any) -> str:
    """Devices of an array as text, to compare and to show; empty for a host value."""
    return str(value.sharding) if is_device_array(value) else ""


def layout(value: Any) -> str:
    """Layout of an array in memory as text; empty for a host value."""
    if not is_device_array(value):
        return ""
    return str(getattr(getattr(value, "format", None), "layout", ""))


def short_dtype(dtype: Any) -> str:
    """`f32`, `i8`, `bf16`, `koalabear_mont`: the runtimes' own short names."""
    name = str(dtype)
    stem = name.rstrip("0123456789")
    return _SHORT[stem] + name[len(stem) :] if stem in _SHORT and stem != name else name


def describe(value: Any) -> str:
    """`f32[4,8]` for arrays and numbers, the class name for anything else; never a value."""
    aval = abstract(value)
    if aval is None or not hasattr(aval, "shape"):
        return type(value).__name__
    return describe_parts(tuple(aval.shape), short_dtype(aval.dtype))


def describe_parts(shape: tuple[Any, ...], dtype: str) -> str:
    """`f32[4,8]` from its parts; symbolic sizes stay as they are written."""
    return f"{dtype}[{','.join(str(size) for size in shape)}]"
