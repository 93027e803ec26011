"""Whom a launch belongs to: a boundary, another jit of the program, or an eager op."""

from __future__ import annotations

import functools
import sys
import weakref
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, Literal

from fusegate.runtime import launch, resolve

SPEC_MARK: Final = "__fusegate_spec__"
"""Attribute of the function that a boundary hands to `jit`: the boundary's declaration."""

_UPLOADS = frozenset({"stage", "convert_element_type"})

Kind = Literal["boundary", "jit", "op"]


@dataclass(slots=True, eq=False)
class Owner:
    """The owner of one compiled function.

    Attributes:
        kind: `boundary`, `jit` for any other jit of the program or of a package, `op` for an eager op.
        name: Name of the function or op.
        spec: The boundary's declaration.
        static_nums: Positions of static arguments.
        static_names: Names of static arguments.
        statics_known: Whether those could be told.
        literal: Whether the op is one that the runtime uploads a host value by.
    """

    kind: Kind
    name: str
    spec: Any = None
    static_nums: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()
    statics_known: bool = True
    literal: bool = False

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call that are not static."""
        if not self.static_nums and not self.static_names:
            return [*args, *kwargs.values()]
        count = len(args)
        skip = {index % count if index < 0 and count else index for index in self.static_nums}
        values = [value for index, value in enumerate(args) if index not in skip]
        return values + [v for name, v in kwargs.items() if name not in self.static_names]


_known: dict[int, tuple[weakref.ref[Any], Owner]] = {}


def owner_of(jitted: Any) -> Owner | None:
    """The owner of a compiled function; None where it holds no Python function.

    Remembered by identity for as long as the compiled function lives; that of a boundary is not, since its
    declaration holds the compiled function.
    """
    known = _known.get(id(jitted))
    if known is not None:
        return known[1]
    function = launch.python_function(jitted)
    if function is None:
        return None
    owner = classify(function, str(getattr(jitted, "__name__", "")), jitted)
    if owner.spec is not None:
        return owner
    key = id(jitted)
    try:
        reference = weakref.ref(jitted, lambda _: _known.pop(key, None))
    except TypeError:  # cannot be watched: classified anew on each launch
        return owner
    _known[key] = (reference, owner)
    return owner


def classify(function: Any, name: str, jitted: Any = None) -> Owner:
    """Tells whose a traced function is.

    Args:
        function: The Python function behind a program.
        name: Name of the program.
        jitted: The compiled function, where it is at hand.
    """
    spec = getattr(function, SPEC_MARK, None)
    if spec is not None:
        # The partitioned form of a `filter=True` boundary has its static parts in third place.
        nums = (2,) if spec.filter else tuple(spec.arguments.static_nums)
        return Owner("boundary", spec.name, spec, nums, tuple(spec.arguments.static_names))
    if launch.is_primitive(function):
        # Numbers among the arguments of a primitive are the runtime's own: `x[0]` passes one.
        return Owner("op", name, statics_known=False, literal=name in _UPLOADS)
    statics = launch.static_arguments(jitted) if jitted is not None else None
    nums, names = statics or ((), ())
    known = statics is not None
    if _is_runtimes_own(function):
        return Owner("op", name, None, nums, names, known)
    return Owner("jit", name, None, nums, names, known)


def of_origin(origin: launch.Origin) -> Owner:
    """The owner of a launch that came the slow way, or that has no Python function."""
    if origin.function is not None:
        return classify(origin.function, origin.name)
    if origin.jitted and not _is_runtime_file(origin.file):
        return Owner("jit", origin.name, statics_known=False)
    return Owner("op", origin.name)


@functools.lru_cache(maxsize=4096)
def _is_runtime_file(filename: str) -> bool:
    runtime = resolve.loaded()
    return bool(filename) and runtime is not None and filename.startswith(runtime.directory)


def _is_runtimes_own(function: Any) -> bool:
    """Whether a traced function is one that the runtime itself jits, not the program.

    A program may jit a function of the runtime: `jit(jnp.mean)`. What is exported as a plain function, or
    is wrapped already, was then jitted by the program.
    """
    if type(function) is not FunctionType or not _is_runtime_file(function.__code__.co_filename):
        return False
    # jit(grad(loss)), jit(vmap(f)): the runtime's wrapper around a function of the program.
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    if inner is not function and (code is None or not _is_runtime_file(code.co_filename)):
        return False
    # `_einsum`, `_interp`: plain functions that the runtime jits on the spot.
    if function.__name__.startswith("_"):
        return True
    module = sys.modules.get(function.__module__)
    return getattr(module, function.__name__, None) is not function


@functools.lru_cache(maxsize=4096)
def is_host_type(kind: type) -> bool:
    """Whether values of a type live on the host: numbers, and numpy's arrays and scalars."""
    if kind in {bool, int, float, complex}:
        return True
    runtime = resolve.loaded()
    # The runtime's own literals subclass these; they stand for a number that an op makes by itself.
    if runtime is not None and kind.__module__.partition(".")[0] in {
        runtime.name,
        f"{runtime.name}lib",
    }:
        return False
    numpy = sys.modules.get("numpy")
    arrays = (numpy.ndarray, numpy.generic) if numpy is not None else ()
    return issubclass(kind, (int, float, complex, *arrays))


def is_host_array_type(kind: type) -> bool:
    """Whether values of a type are numpy arrays, which no jit takes for a static argument."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and is_host_type(kind) and issubclass(kind, numpy.ndarray)
