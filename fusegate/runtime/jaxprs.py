"""What is reached of a traced program: its equations, their user lines, scopes, constants, donations.

A jaxpr is read by its attributes and never by its class: up to jax 0.11 a program with constants is a
`ClosedJaxpr` around a `Jaxpr`, from 0.12 there is one class, and both answer to `eqns`, `consts` and
`debug_info`. `jax.extend.core` makes the classes public and says nothing of what is in an equation, so
every attribute below is internal. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and 0.12.0; an attribute that is
missing makes the answer None or empty, never an error.
"""

from __future__ import annotations

import inspect
import math
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from fusegate.errors import Location
from fusegate.runtime import arrays, frames, resolve, trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_PLAIN = frozenset({bool, int, float, str, type(None)})
"""Types of parameters that hold no program, by far the most of them."""


def trace_program(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Traces a function and returns its closed jaxpr; nothing is compiled and nothing runs.

    Public: a jitted function's own `trace`, which knows its static arguments, else `make_jaxpr`. Every
    argument leaf that is neither an array nor a number is held fixed, as under `filter_jit`.

    Args:
        fn: A plain function, a jitted one or a boundary.
        args: Its arguments; arrays may be `ShapeDtypeStruct`s.
        kwargs: Its keyword arguments.
    """
    trace = getattr(fn, "trace", None)
    if callable(trace):
        return trace(*args, **kwargs).jaxpr
    fn = inspect.unwrap(fn)
    leaves, treedef = trees.leaves_of((args, kwargs))
    traced = [hasattr(x, "shape") or isinstance(x, (bool, int, float, complex)) for x in leaves]

    def run(arrays_only: list[Any]) -> Any:
        rest = iter(arrays_only)
        full = [next(rest) if given else x for x, given in zip(leaves, traced, strict=True)]
        inner_args, inner_kwargs = treedef.unflatten(full)
        return fn(*inner_args, **inner_kwargs)

    passed = [x for x, given in zip(leaves, traced, strict=True) if given]
    return resolve.required().module.make_jaxpr(run)(passed)


def identity(program: Any) -> tuple[int, ...]:
    """What stands for a program while it is held: two uses of one cached trace share it."""
    return (id(getattr(program, "jaxpr", program)), *map(id, getattr(program, "consts", ())))


def equations(program: Any) -> Sequence[Any]:
    """The equations of a program, in order."""
    return program.eqns  # type: ignore[no-any-return]


def is_program(value: Any) -> bool:
    """Whether a parameter of an equation is a program of its own."""
    return hasattr(value, "eqns") and hasattr(value, "outvars")


def sub_programs(equation: Any) -> list[Any]:
    """The programs among the parameters of an equation, inside tuples, lists and dicts as well.

    The branches of a `cond` and the two of a `while` come one by one. Python thunks (the forward and
    backward rules of a `custom_vjp`) are not traced yet and hold no program.
    """
    found: list[Any] = []
    _collect(equation.params.values(), found)
    return found


def _collect(values: Iterable[Any], found: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is tuple or kind is list:
            _collect(value, found)
        elif kind is dict:
            _collect(value.values(), found)
        elif is_program(value):
            found.append(value)


def parameter(equation: Any, name: str) -> Any:
    """A parameter of an equation; None where it has none of that name."""
    return equation.params.get(name)


def is_inlined(equation: Any) -> bool:
    """Whether a nested jit is spliced into its caller when the program is lowered, so leaves no call.

    From jax 0.12 `inline=True` keeps the equation (`Inline.JAX_LATE`); before, it was spliced at once.
    """
    inline = equation.params.get("inline")
    return inline is True or getattr(inline, "name", "") in {"JAX_EARLY", "JAX_LATE"}


def definition(program: Any) -> Location | None:
    """Where the function behind a program is defined.

    None for a callable object and for a program that no function stands behind.
    """
    info = getattr(program, "debug_info", None)
    file = getattr(info, "func_filename", None)
    if not file:
        return None
    return Location(
        file, getattr(info, "func_lineno", None) or 0, getattr(info, "func_name", "") or ""
    )


def wraps_user_function(file: str) -> bool:
    """Whether a library file holds the wrapper that a user's own function is traced through.

    Equinox's `filter_jit` and fusegate trace a function of their own around the user's, so the file of
    the traced function does not tell whose it is; the line that calls it does.
    """
    return file.startswith(_OWN) or file.endswith(f"{os.sep}equinox{os.sep}_jit.py")


def is_library(program: Any) -> bool:
    """Whether a program is a function of the runtime, whose stack is the one of its first trace."""
    defined = definition(program)
    return (
        defined is not None
        and frames.is_library_file(defined.file)
        and not wraps_user_function(defined.file)
    )


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package, which the program's author does not edit."""
    return "site-packages" in file or "dist-packages" in file


def user_line(traceback: Any) -> Location | None:
    """The innermost line of a trace-time stack that is not the runtime's, fusegate's or Equinox's.

    Reads the raw frames that the runtime keeps with each equation; its public summary drops no Equinox
    frames and costs more. None where no frame is the user's or the stack was not kept.
    """
    if traceback is None or not hasattr(traceback, "raw_frames"):
        return None
    codes, offsets = traceback.raw_frames()
    for code, offset in zip(codes, offsets, strict=True):
        file = code.co_filename
        if not frames.is_library_file(file):
            line = traceback.code_addr2line(code, offset)
            return Location(file, int(line), code.co_name)
    return None


def walk(equations: Iterable[Any]) -> Iterator[tuple[Any, str, int, Any]]:
    """What is asked of every equation, in one step: a long program makes it the cost of a check.

    Yields:
        The equation, the name of its primitive, what stands for its name stack while its program is held,
        and its `stack_of`. Batching gives every equation a name stack object of its own around one shared
        tuple, so the tuple is what stands for it.
    """
    for equation in equations:
        info = equation.source_info
        name_stack = info.name_stack
        key = id(getattr(name_stack, "stack", name_stack))
        yield equation, equation.primitive.name, key, info.traceback


def scopes(equation: Any) -> list[tuple[str, bool]]:
    """The named scopes and transformations around an equation, outermost first.

    Each as its name (`fold`, `vmap`, `transpose`) and whether it is a transformation.
    """
    steps = getattr(equation.source_info.name_stack, "stack", ())
    return [(step.name, type(step).__name__ == "Transform") for step in steps]


def stack_of(equation: Any) -> Any:
    """The Python stack at which an equation was traced; hashable, equal for equal stacks, or None."""
    return equation.source_info.traceback


def effects(equation: Any) -> frozenset[str]:
    """Class names of an equation's effects."""
    return frozenset(type(effect).__name__ for effect in getattr(equation, "effects", ()) or ())


def is_literal(variable: Any) -> bool:
    """Whether an operand is written into the equation instead of computed."""
    return hasattr(variable, "val")


def shape_text(variable: Any) -> str:
    """`f32[4,8]` for an operand or a result; empty where it has no shape (a token)."""
    aval = getattr(variable, "aval", None)
    if aval is None or not hasattr(aval, "shape"):
        return ""
    return arrays.describe_parts(tuple(aval.shape), arrays.short_dtype(aval.dtype))


def shape_key(variable: Any) -> tuple[Any, ...]:
    """Shape and dtype of a result, cheap to hash."""
    aval = getattr(variable, "aval", None)
    return (getattr(aval, "shape", ()), getattr(aval, "dtype", None))


class Constant(NamedTuple):
    """A closed-over array: its variable in the program and what is known of it without reading it."""

    variable: Any
    handle: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    on_device: bool


def constants(program: Any) -> list[Constant]:
    """The arrays that a program closes over.

    A numpy array arrives wrapped (`TypedNdArray`; on jax 0.7 `LiteralArray`, which has no `nbytes`), a
    device array as it is. Anything else among the constants (a key array of an extended dtype) counts
    with what it says of its own size.
    """
    variables = getattr(program, "constvars", ())
    found: list[Constant] = []
    for variable, value in zip(variables, getattr(program, "consts", ()), strict=False):
        shape = tuple(getattr(value, "shape", ()))
        dtype = getattr(value, "dtype", None)
        nbytes = getattr(value, "nbytes", None)
        if nbytes is None:
            nbytes = math.prod(shape) * getattr(dtype, "itemsize", 0)
        short = arrays.short_dtype(dtype) if dtype is not None else type(value).__name__
        on_device = arrays.is_device_array(value)
        found.append(Constant(variable, id(value), shape, short, int(nbytes), on_device))
    return found


def usable_donations(program: Any, donated: Sequence[bool]) -> list[bool] | None:
    """Which donated inputs the runtime can reuse for a result, one answer per input.

    Asks `jax._src.interpreters.mlir._set_up_aliases`, the function that decides it at lowering and
    reports the rest in one UserWarning: the rule for what may alias what differs between versions (the
    shape up to jax 0.7, the size later), and nothing public states it before the program is lowered.
    Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and 0.12.0. None where it is gone or wants other arguments.
    Shardings and layouts are left out, so a donation that only they forbid is not seen.

    Args:
        program: The traced program of a boundary.
        donated: One flag per input of the program.
    """
    aliases = resolve.required().private("interpreters.mlir", "_set_up_aliases")
    if aliases is None:
        return None
    flags = list(donated)
    unspecified = (None,) * 5  # memory kinds, layouts, result shardings
    try:
        _, unused, _ = aliases(None, program.in_avals, program.out_avals, flags, *unspecified)
    except (TypeError, ValueError, AttributeError):  # another signature than the known one
        return None
    usable = [given and not left for given, left in zip(flags, unused, strict=True)]
    # The rule falls back to counting elements, but no buffer of 4-byte elements becomes one of 2-byte ones.
    free = Counter(map(_bytes_of, program.out_avals))
    for number, aval in enumerate(program.in_avals):
        if usable[number]:
            usable[number] = free[_bytes_of(aval)] > 0
            free[_bytes_of(aval)] -= 1
    return usable


def _bytes_of(aval: Any) -> Any:
    """Size in bytes; the type as text where it has none (a token, a symbolic shape)."""
    size = getattr(aval, "size", None)
    each = getattr(getattr(aval, "dtype", None), "itemsize", None)
    return size * each if isinstance(size, int) and isinstance(each, int) else str(aval)


def read_inputs(program: Any) -> list[bool]:
    """Which inputs of a program are used by an equation or are results; the rest is dropped."""
    used = {id(variable) for equation in program.eqns for variable in equation.invars}
    used.update(id(variable) for variable in program.outvars)
    return [id(variable) in used for variable in program.invars]


def input_shapes(program: Any) -> list[str]:
    """`f32[4,8]` of each input of a program."""
    return [shape_text(variable) for variable in program.invars]


def result_shapes(program: Any) -> list[str]:
    """`f32[4,8]` of each result of a program."""
    return [shape_text(variable) for variable in program.outvars]
