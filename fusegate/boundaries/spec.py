"""What a decoration declared: validated at once, frozen, and the same for every call."""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from fusegate import config
from fusegate.config import Mode
from fusegate.errors import Location
from fusegate.judge.traces import Budget, MaxTraces
from fusegate.observe.signature import Arguments
from fusegate.rules import lookup
from fusegate.runtime import frames, jit

SEQUENCE: Final = itertools.count()
"""Numbers declarations and compiles in the order in which they happen."""


@dataclass(frozen=True, eq=False)
class BoundarySpec:
    """One decorated function and what was declared of it.

    Compared and hashed by identity: its traces and compiles are counted under it.

    Attributes:
        fn: The user's function.
        role: `island`, `single zone` or `round body`.
        name: Name in messages and reports.
        defined: Definition site.
        module: Module of the function, matched against the project's mode patterns.
        jit_keywords: Keywords for the runtime's `jit`, as given.
        budget: Traces and compiles allowed.
        max_launches: Launches allowed in its program; None bounds nothing.
        max_temp_bytes: Temporary bytes allowed in its program; None bounds nothing.
        reductions: Reductions that a round body may hold; None for the other roles.
        allow_primitives: Primitives that a round body may hold beside the fusion-ready ones.
        filter: Whether arrays are told from static leaves by Equinox's partition rule.
        declared_mode: The decorator's own mode.
        allow: Codes that the declaration lets pass.
        arguments: Names of the arguments, and which are static.
        attributes: What is made once for the boundary: its compiled function, its marker.
        made: When it was declared, as a number of `SEQUENCE`.
    """

    fn: Callable[..., Any]
    role: str
    name: str
    defined: Location | None
    module: str
    jit_keywords: dict[str, Any]
    budget: Budget
    max_launches: int | None
    max_temp_bytes: int | None
    reductions: int | None
    allow_primitives: frozenset[str]
    filter: bool
    declared_mode: Mode | None
    allow: frozenset[str]
    arguments: Arguments
    attributes: dict[str, Any] = field(default_factory=dict, repr=False)
    made: int = field(default_factory=lambda: next(SEQUENCE))

    def mode(self) -> Mode:
        """The mode that applies to this boundary now."""
        return config.resolve(self.declared_mode, self.module)


@dataclass(frozen=True)
class Declaration:
    """The keywords of one decoration, before a function is known. Validated when it is made."""

    role: str
    jit_keywords: dict[str, Any] = field(default_factory=dict)
    filter: bool = False
    max_traces: MaxTraces = None
    max_compiles: int | None = None
    max_launches: int | None = None
    max_temp_bytes: int | None = None
    reductions: int | None = None
    allow_primitives: Collection[str] = ()
    allow: Collection[str] = ()
    mode: Mode | str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.max_traces):
            _check_budget("max_traces", self.max_traces, 1)
        _check_budget("max_compiles", self.max_compiles, 1)
        _check_budget("max_launches", self.max_launches, 1)
        _check_budget("max_temp_bytes", self.max_temp_bytes, 0)
        _check_budget("reductions", self.reductions, 0)
        _check_names("allow_primitives", self.allow_primitives)
        _check_names("allow", self.allow)
        for code in self.allow:
            lookup(code)
        if self.mode is not None:
            config.as_mode(self.mode)
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name is a string, not {type(self.name).__name__}")
        unknown = self.jit_keywords.keys() - jit.keywords()
        if unknown:
            known = ", ".join(sorted(jit.keywords()))
            raise TypeError(
                f"unexpected keyword {', '.join(map(repr, sorted(unknown)))}; beside fusegate's own, a "
                f"boundary takes the keywords of jit: {known}"
            )
        if self.filter:
            refused = self.jit_keywords.keys() & {
                "static_argnums", "static_argnames", "in_shardings", "out_shardings", "abstracted_axes",
            }  # fmt: skip
            if refused:
                raise TypeError(
                    f"filter=True decides by leaf what is static, so it takes no {min(refused)}"
                )
        # A malformed environment or project table is told here, not in the middle of a run.
        config.environment_mode()
        config.project()

    def spec(self, fn: Callable[..., Any]) -> BoundarySpec:
        """Binds the declaration to a function.

        Raises:
            TypeError: `fn` is not callable.
            ValueError: A static or donated argument is none of the function's.
        """
        signature = _signature(fn)
        inner = _innermost(fn)
        name = self.name or str(getattr(inner, "__qualname__", type(inner).__qualname__))
        return BoundarySpec(
            fn=fn,
            role=self.role,
            name=name.replace("<locals>.", "") if self.name is None else name,
            defined=_definition(inner),
            module=str(getattr(inner, "__module__", "") or ""),
            jit_keywords=self.jit_keywords,
            budget=Budget(self.max_traces, self.max_compiles),
            max_launches=self.max_launches,
            max_temp_bytes=self.max_temp_bytes,
            reductions=self.reductions,
            allow_primitives=frozenset(self.allow_primitives),
            filter=self.filter,
            declared_mode=None if self.mode is None else config.as_mode(self.mode),
            allow=frozenset(lookup(code).code for code in self.allow),
            arguments=_arguments(fn, signature, self.jit_keywords),
        )

    def key(self) -> tuple[Any, ...] | None:
        """What makes two decorations of one function the same boundary; None where that is unknown.

        A program may decorate the same module-level function again on each call. Plain `jit` then finds
        its traces again; so must a boundary.
        """
        limit: Any = self.max_traces
        if isinstance(limit, types.FunctionType):
            if limit.__closure__:
                return None
            limit = (limit.__code__, limit.__defaults__)
        parts = (
            self.role, tuple(sorted(self.jit_keywords.items())), self.filter, limit, self.max_compiles,
            self.max_launches, self.max_temp_bytes, self.reductions, frozenset(self.allow_primitives),
            frozenset(self.allow), self.mode, self.name,
        )  # fmt: skip
        try:
            hash(parts)
        except TypeError:  # shardings given as lists, compiler options given as a dict
            return None
        return parts


def _check_budget(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        also = " or a function of the leading size" if name == "max_traces" else ""
        raise TypeError(f"{name} is an integer{also}, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}={value}: it must be at least {least}")


def _check_names(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name} is a collection of names, not {type(value).__name__}")
    for item in value:
        if not isinstance(item, str):
            raise TypeError(f"{name} holds {type(item).__name__}, not a name")


def callable_name(fn: Any) -> str:
    """Name of a callable in messages and reports: its qualified name, through partials and methods."""
    inner = _innermost(fn)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__)).replace("<locals>.", "")


def definition_of(fn: Any) -> Location | None:
    """Where a callable is defined, through partials, methods and wrappers."""
    return _definition(_innermost(fn))


def _innermost(fn: Any) -> Any:
    """The function that a partial or a bound method is of."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        else:
            return fn


def _definition(inner: Any) -> Location | None:
    unwrapped = inspect.unwrap(inner) if callable(inner) else inner
    code = getattr(unwrapped, "__code__", None)
    if code is None:  # an object: its class's __call__
        method = inspect.getattr_static(type(unwrapped), "__call__", None)
        code = getattr(method, "__code__", None)
    return frames.definition_of(code)


def _signature(fn: Any) -> inspect.Signature | None:
    if not callable(fn):
        raise TypeError(f"a boundary decorates a callable, not {type(fn).__name__}")
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin without one
        return None


def _arguments(fn: Any, signature: inspect.Signature | None, keywords: dict[str, Any]) -> Arguments:
    """Which arguments are static, by the rule of `jit`: names are inferred from numbers and back."""
    found: list[frozenset[Any]] = []
    for role in ("static", "donate"):
        given_nums, given_names = keywords.get(f"{role}_argnums"), keywords.get(f"{role}_argnames")
        nums = _integers(f"{role}_argnums", given_nums)
        names = _strings(f"{role}_argnames", given_names)
        _check_exist(fn, signature, role, nums, names)
        found += _inferred(signature, nums, names, given_nums is None, given_names is None)
    return Arguments(signature, *found)


def _inferred(
    signature: inspect.Signature | None,
    nums: tuple[int, ...],
    names: tuple[str, ...],
    infer_nums: bool,
    infer_names: bool,
) -> tuple[frozenset[int], frozenset[str]]:
    found_nums, found_names = set(nums), set(names)
    if signature is not None:
        parameters = list(signature.parameters.values())
        if infer_nums:
            found_nums |= {
                index
                for index, p in enumerate(parameters)
                if p.kind is p.POSITIONAL_OR_KEYWORD and p.name in names
            }
        if infer_names:
            size = len(parameters)
            wanted = {index % size if index < 0 else index for index in nums if size}
            found_names |= {
                p.name
                for index, p in enumerate(parameters)
                if p.kind is p.POSITIONAL_OR_KEYWORD and index in wanted
            }
    return frozenset(found_nums), frozenset(found_names)


def _integers(name: str, value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    items = value if isinstance(value, Collection) and not isinstance(value, str) else (value,)
    for item in items:
        if isinstance(item, bool) or not hasattr(type(item), "__index__"):
            raise TypeError(f"{name} holds {type(item).__name__}, not an integer")
    return tuple(int(item) for item in items)


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    items = (value,) if isinstance(value, str) else tuple(value)
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name} holds {type(item).__name__}, not a name")
    return items


def _check_exist(
    fn: Any,
    signature: inspect.Signature | None,
    role: str,
    nums: tuple[int, ...],
    names: tuple[str, ...],
) -> None:
    """Refuses a static or donated argument that the function does not have."""
    if signature is None:
        return
    parameters = signature.parameters.values()
    shown = f"{getattr(_innermost(fn), '__qualname__', type(fn).__qualname__)}{signature}"
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        valid = {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
        for name in names:
            if name not in valid:
                raise ValueError(f"{role}_argnames names {name!r}, which is no argument of {shown}")
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        count = sum(p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} for p in parameters)
        for num in nums:
            if not -count <= num < count:
                raise ValueError(
                    f"{role}_argnums holds {num}, but {shown} takes {count} positional arguments"
                )
