"""The runtime's jit: making one, recognising one, and asking whether one is tracing."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from fusegate.runtime import resolve

KNOWN_KEYWORDS = frozenset(
    {
        "static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "in_shardings",
        "out_shardings", "keep_unused", "device", "backend", "inline", "abstracted_axes",
        "compiler_options",
    }
)  # fmt: skip
"""Keywords of `jit`, for a decoration that happens before any runtime is imported."""


def keywords() -> frozenset[str]:
    """The keywords that the runtime's `jit` accepts."""
    runtime = resolve.loaded()
    if runtime is None:
        return KNOWN_KEYWORDS
    try:
        parameters = inspect.signature(runtime.module.jit).parameters.values()
    except (TypeError, ValueError):  # replaced by something without a signature
        return KNOWN_KEYWORDS
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return KNOWN_KEYWORDS
    return frozenset(p.name for p in parameters if p.name != "fun")


def make_jit(fn: Callable[..., Any], **keywords: Any) -> Any:
    """Jits a function with the runtime's own `jit`, looked up now: programs replace it."""
    return resolve.required().module.jit(fn, **keywords)


@functools.cache
def _jitted_type(runtime_name: str) -> type:
    assert resolve.required().name == runtime_name
    return type(make_jit(lambda: None))


def jitted_type() -> type:
    """The class of a jitted function, told from one: it has no public name."""
    return _jitted_type(resolve.required().name)


def is_jitted(value: object) -> bool:
    """Whether a callable is the runtime's compiled function, or Equinox's wrapper of one.

    Told by the class name: `PjitFunction` has no public name. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and
    the newest, equinox 0.13.8.
    """
    kind = type(value)
    return (
        kind.__name__ in {"PjitFunction", "PmapFunction"}
        or (kind.__name__ == "Compiled" and kind.__module__.endswith("stages"))
        or (kind.__name__ == "_JitWrapper" and kind.__module__.startswith("equinox."))
    )


@functools.cache
def _under_jit_predicate(runtime_name: str) -> Callable[[], bool] | None:
    """Finds the predicate once per runtime; it was moved from `core` to `extend.core`."""
    runtime = resolve.required()
    assert runtime.name == runtime_name
    found = runtime.private("core", "unsafe_am_i_under_a_jit")
    if found is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                extend = runtime.public("extend.core")
            except ImportError:
                return None
            found = getattr(extend, "unsafe_am_i_under_a_jit_DO_NOT_USE", None)
    return found  # type: ignore[no-any-return]


def prepare() -> None:
    """Finds what a trace will ask for, before the first one.

    Where the predicate lives in a module that is not loaded yet, importing that one in the middle of a trace
    changes the runtime's context, and the next call compiles again (seen on jax 0.12.0).
    """
    _under_jit_predicate(resolve.required().name)


def under_jit() -> bool:
    """Whether this thread is inside a jit trace, whatever eager vmap or grad is around it.

    Reaches `jax._src.core.unsafe_am_i_under_a_jit`: an array argument does not tell (a traced body may
    hold a concrete closed-over array), and no public name does. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and
    the newest. Where it is gone, the answer comes from whether a fresh constant is a tracer.
    """
    runtime = resolve.required()
    predicate = _under_jit_predicate(runtime.name)
    if predicate is not None:
        return predicate()
    return isinstance(runtime.module.lax.full((), 0.0), runtime.module.core.Tracer)


def jit_disabled() -> bool:
    """Whether `disable_jit` is in force, so that a jitted function is called as it is written."""
    return bool(resolve.required().module.config.jax_disable_jit)


def checking_leaks() -> bool:
    """Whether the leak checker is on, under which every call traces anew by design."""
    return bool(getattr(resolve.required().module.config, "jax_check_tracer_leaks", False))


def traced_read_errors() -> tuple[type[BaseException], ...]:
    """The errors with which the runtime answers a host read of a traced value."""
    errors = resolve.required().module.errors
    names = (
        "ConcretizationTypeError",  # of which the boolean conversion error is a subclass
        "TracerArrayConversionError",
        "TracerIntegerConversionError",
        "NonConcreteBooleanIndexError",
    )
    return tuple(getattr(errors, name) for name in names if hasattr(errors, name))
