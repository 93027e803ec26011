"""The decorators: `island`, `single_zone` and `round_body`."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import (
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from fusegate.boundaries.proxy import Boundary
from fusegate.boundaries.spec import BoundarySpec, Declaration
from fusegate.config import Mode, ModeName
from fusegate.judge import traces
from fusegate.judge.deliver import deliver
from fusegate.judge.traces import MaxTraces
from fusegate.observe.health import guarded
from fusegate.runtime import frames, jit

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class BoundaryFunction(Protocol[P, R_co]):
    """What a decorated function is to a type checker: the function, with the methods of a jit."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the compiled function."""
        ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> BoundaryFunction[P, R_co]: ...
    @overload
    def __get__(
        self: BoundaryFunction[Concatenate[S, Q], R_co], instance: S, owner: type | None = None
    ) -> Callable[Q, R_co]: ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Traces and lowers for the arguments, as `jit(...).lower`."""
        ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Traces for the arguments, as `jit(...).trace`."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Shapes and dtypes of the result, as `jit(...).eval_shape`."""
        ...

    def clear_cache(self) -> None:
        """Forgets the compiled programs of this function."""
        ...


class JitKeywords(TypedDict, total=False):
    """The keywords of the runtime's `jit`; each goes through under its own name."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Collection[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Collection[str] | None
    in_shardings: Any
    out_shardings: Any
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool
    abstracted_axes: Any
    compiler_options: dict[str, Any] | None


class Options(JitKeywords, total=False):
    """The keywords of a boundary decorator, beside those of `jit`.

    Attributes:
        filter: True traces every array leaf of the arguments and keeps every other leaf static, decided
            leaf by leaf with Equinox's own predicate.
        max_traces: Distinct traces allowed, inclusive, at least 1; or a function of the largest leading
            size seen in the first array argument. None bounds nothing but traces of an equal signature.
        max_compiles: Backend compiles allowed, inclusive, at least 1. None allows one for each trace.
        max_launches: Launches allowed in its program, at least 1; a loop body counts once.
        max_temp_bytes: Temporary bytes allowed in its program.
        allow: Codes or slugs of rules that this boundary may break.
        mode: `strict`, `warn` or `off` for this boundary, whatever else is set.
        name: Name in messages and reports; the function's qualified name where not given.
    """

    filter: bool
    max_traces: MaxTraces
    max_compiles: int | None
    max_launches: int | None
    max_temp_bytes: int | None
    allow: Collection[str]
    mode: Mode | ModeName | None
    name: str | None


_CONTRACT: Final = frozenset({"reductions", "allow_primitives"})
_OWN: Final = frozenset(field.name for field in dataclasses.fields(Declaration)) - {
    "role",
    "jit_keywords",
}
_SHARED: Final = "__fusegate_boundaries__"


@overload
def island(fn: Callable[P, R_co], /, **options: Unpack[Options]) -> BoundaryFunction[P, R_co]: ...
@overload
def island(
    **options: Unpack[Options],
) -> Callable[[Callable[P, R_co]], BoundaryFunction[P, R_co]]: ...
def island(fn: Any = None, /, **options: Any) -> Any:
    """Declares one maximal host-op-free span: its own jit, called from an eager driver.

    Works bare and with keywords, on functions, methods, static and class methods, callable objects and
    partials. Takes every keyword of the runtime's `jit` under its own name.

    Args:
        fn: The function; left out where keywords come first.
        **options: See `Options`.

    Returns:
        The function with a jit boundary around it; signature and results are those of `jit(fn)`.

    Raises:
        TypeError: `fn` is not callable, or a keyword is unknown or of a wrong type.
        ValueError: A budget is below its least value, or a static argument is none of the function's.
        DeclarationViolation: `fn` is a jit or a boundary already (FG101), in strict.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.island(max_traces=1)
        ... def fold(table, r):
        ...     half = table.shape[0] // 2
        ...     return table[:half] + r * (table[half:] - table[:half])
        >>> fold(jax.numpy.arange(8.0), jax.numpy.float32(0.5)).shape
        (4,)
        >>> fusegate.stats(fold).traces
        1
    """
    return _decorate("island", fn, options)


@overload
def single_zone(
    fn: Callable[P, R_co], /, **options: Unpack[Options]
) -> BoundaryFunction[P, R_co]: ...
@overload
def single_zone(
    **options: Unpack[Options],
) -> Callable[[Callable[P, R_co]], BoundaryFunction[P, R_co]]: ...
def single_zone(fn: Any = None, /, **options: Any) -> Any:
    """Declares one jit over a whole prove or open body: host-op-free, its round bodies melted into it.

    Args:
        fn: The function; left out where keywords come first.
        **options: See `Options`.

    Returns:
        The function with a jit boundary around it.

    Raises:
        TypeError: `fn` is not callable, or a keyword is unknown or of a wrong type.
        ValueError: A budget is below its least value, or a static argument is none of the function's.
        DeclarationViolation: `fn` is a jit or a boundary already (FG101), in strict.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.round_body(reductions=0)
        ... def halve(table):
        ...     half = table.shape[0] // 2
        ...     return table[:half] + table[half:]
        >>> @fusegate.single_zone
        ... def total(table):
        ...     while table.shape[0] > 1:
        ...         table = halve(table)
        ...     return table[0]
        >>> float(total(jax.numpy.arange(4.0)))
        6.0
        >>> fusegate.stats(halve).traces  # both rounds melted into the one program
        0
    """
    return _decorate("single zone", fn, options)


@overload
def round_body(
    fn: Callable[P, R_co],
    /,
    *,
    reductions: int = 1,
    allow_primitives: Collection[str] = (),
    **options: Unpack[Options],
) -> BoundaryFunction[P, R_co]: ...
@overload
def round_body(
    *,
    reductions: int = 1,
    allow_primitives: Collection[str] = (),
    **options: Unpack[Options],
) -> Callable[[Callable[P, R_co]], BoundaryFunction[P, R_co]]: ...
def round_body(
    fn: Any = None,
    /,
    *,
    reductions: int = 1,
    allow_primitives: Collection[str] = (),
    **options: Any,
) -> Any:
    """Declares the fusion unit: element-wise and structural operations, and a few reductions.

    Called eagerly it is its own single boundary. Called while another boundary is traced it melts into
    that program, without a nested call.

    Args:
        fn: The function; left out where keywords come first.
        reductions: Reductions that the body may hold, at least 0.
        allow_primitives: Names of primitives that it may hold beside the fusion-ready ones.
        **options: See `Options`.

    Returns:
        The function with a jit boundary around it.

    Raises:
        TypeError: `fn` is not callable, or a keyword is unknown or of a wrong type.
        ValueError: A budget is below its least value, or a static argument is none of the function's.
        DeclarationViolation: `fn` is a jit or a boundary already (FG101), in strict.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.round_body(reductions=1)
        ... def message(low, high):
        ...     return (low * high).sum()
        >>> float(message(jax.numpy.arange(3.0), jax.numpy.arange(3.0)))
        5.0
    """
    options |= {"reductions": reductions, "allow_primitives": allow_primitives}
    return _decorate("round body", fn, options)


def _decorate(role: str, fn: Any, options: dict[str, Any]) -> Any:
    own = _OWN if role == "round body" else _OWN - _CONTRACT
    declaration = Declaration(
        role,
        {key: value for key, value in options.items() if key not in own},
        **{key: value for key, value in options.items() if key in own},
    )
    if fn is None:
        return lambda inner: _bound(declaration, inner)
    return _bound(declaration, fn)


def _bound(declaration: Declaration, fn: Any) -> Any:
    __tracebackhide__ = True
    if isinstance(fn, staticmethod):
        return staticmethod(_bound(declaration, fn.__func__))
    if isinstance(fn, classmethod):
        # The class is a static argument: no jit accepts a class as an array.
        keywords = dict(declaration.jit_keywords)
        nums = keywords.get("static_argnums") or ()
        keywords["static_argnums"] = (0, *((nums,) if isinstance(nums, int) else nums))
        inner = dataclasses.replace(declaration, jit_keywords=keywords)
        return classmethod(_bound(inner, fn.__func__))
    shared = _shared(declaration, fn)
    spec = shared if shared is not None else declaration.spec(fn)
    inner_boundary = _inner_boundary(fn)
    if inner_boundary:
        guarded("declarations", spec.mode(), lambda: _refuse(spec, inner_boundary))
    return Boundary(spec)


def _refuse(spec: BoundarySpec, inner: str) -> None:
    __tracebackhide__ = True
    found = traces.check_declaration(spec, frames.user_location(), inner)
    deliver(found, spec.mode(), spec, allow=spec.allow)


def _shared(declaration: Declaration, fn: Any) -> BoundarySpec | None:
    """The boundary that the same decoration of the same function made before, kept with the function.

    Kept in the function's own `__dict__`, so that both die together: a table on the side would keep every
    lambda alive that was ever decorated.
    """
    # Of a partial as well: `bind` gives one and the same for equal values.
    shareable = isinstance(fn, (types.FunctionType, functools.partial))
    parts = declaration.key() if shareable else None
    if parts is None:
        return None
    # Two declarations of one function on two lines are two boundaries, each with a budget of its own.
    key = (parts, _line())
    known: dict[Any, BoundarySpec] = fn.__dict__.get(_SHARED, {})
    spec = known.get(key)
    if spec is None or spec.fn is not fn:  # functools.wraps copies the marks of another function
        spec = declaration.spec(fn)
        fn.__dict__[_SHARED] = {k: s for k, s in known.items() if s.fn is fn} | {key: spec}
    return spec


def _line() -> tuple[str, int]:
    """The line that decorates."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frames.is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _inner_boundary(fn: Any) -> str:
    """What jit or boundary a callable is already, through partials and bound methods; empty if none."""
    while True:
        if type(fn) is Boundary:
            spec = fn._self_spec
            return f"the {spec.role} `{spec.name}`"
        if jit.is_jitted(fn):
            return "a jitted function"
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        else:
            return ""
