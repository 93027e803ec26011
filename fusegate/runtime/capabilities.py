"""What can be observed on the runtime of this process, and by which of its names.

Looks names up, and no more: nothing is traced, compiled or put on a device. Where a name below is reached
for real, the neighbouring file says why there is no public route. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and
the newest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from fusegate.runtime import bufferslot, resolve


@dataclass(frozen=True, slots=True)
class Capability:
    """One kind of observation.

    Attributes:
        name: What is observed.
        observed: Whether it can be seen on this runtime.
        how: The mechanism, by the names it rests on.
        why_not: Which name is missing; empty where it is observed.
    """

    name: str
    observed: bool
    how: str
    why_not: str = ""


def probe() -> list[Capability]:
    """Looks at what the runtime of this process offers.

    Raises:
        FusegateError: The program has imported neither frx nor jax.
        RuntimeOrderError: `jax` was imported before `frx`.
    """
    runtime = resolve.required()
    return [found(runtime) for found in _PROBES]


def _capability(name: str, how: str, *, observed: bool, missing: str) -> Capability:
    return Capability(name, observed, how, "" if observed else f"{missing} is missing")


def _traces(runtime: resolve.Runtime) -> Capability:
    return _capability(
        "traces and signatures",
        "the body of a boundary runs under the trace",
        observed=callable(getattr(runtime.module, "jit", None)),
        missing=f"{runtime.name}.jit",
    )


def _compiles(runtime: resolve.Runtime) -> Capability:
    names = ("register_event_duration_secs_listener", "register_event_listener")
    try:
        monitoring: ModuleType | None = runtime.public("monitoring")
    except ImportError:
        monitoring = None
    absent = [name for name in names if not hasattr(monitoring, name)]
    return _capability(
        "compiles and persistent-cache hits",
        f"{runtime.name}.monitoring listeners",
        observed=not absent,
        missing=f"{runtime.name}.monitoring.{absent[0] if absent else ''}",
    )


def _owners(runtime: resolve.Runtime) -> Capability:
    pjit = runtime.private("pjit")
    return _capability(
        "owner and cause of a compile",
        "the frame of _src.pjit's cache_miss",
        observed=isinstance(pjit, ModuleType) and "cache_miss" in _code_names(pjit),
        missing=f"{runtime.name}._src.pjit: cache_miss",
    )


def _slow_launches(runtime: resolve.Runtime) -> Capability:
    executor = runtime.private("interpreters.pxla", "ExecuteReplicated")
    return _capability(
        "first and slow launches",
        "_src.interpreters.pxla.ExecuteReplicated.__call__",
        observed=isinstance(executor, type) and "__call__" in vars(executor),
        missing=f"{runtime.name}._src.interpreters.pxla.ExecuteReplicated.__call__",
    )


def _fast_launches(runtime: resolve.Runtime) -> Capability:
    name = "launches on the fast path"
    if runtime.private("api", "_post_hook_state", "swap_local") is not None:
        return Capability(name, True, "the post hook: _src.api._post_hook_state")
    local = runtime.private("lib", "jax_jit", "thread_local_state")
    return _capability(
        name,
        "the post hook: _src.lib.jax_jit.thread_local_state",
        observed=callable(local) and hasattr(local(), "post_hook"),
        missing=f"{runtime.name}._src.api._post_hook_state",
    )


def _under_jit(runtime: resolve.Runtime) -> Capability:
    return _capability(
        "calls under an outer trace",
        "_src.core.unsafe_am_i_under_a_jit",
        observed=callable(runtime.private("core", "unsafe_am_i_under_a_jit")),
        missing=f"{runtime.name}._src.core.unsafe_am_i_under_a_jit",
    )


def _context(runtime: resolve.Runtime) -> Capability:
    return _capability(
        "the context part of a trace key",
        "_src.config.trace_context",
        observed=callable(runtime.private("config", "trace_context")),
        missing=f"{runtime.name}._src.config.trace_context",
    )


def _cleared(runtime: resolve.Runtime) -> Capability:
    return _capability(
        "caches cleared by the program",
        "a memo of _src.util.cache",
        observed=callable(runtime.private("util", "cache")),
        missing=f"{runtime.name}._src.util.cache",
    )


def _transfers(runtime: resolve.Runtime) -> Capability:
    guard = runtime.private("lib", "guard_lib", "thread_local_state")
    return _capability(
        "levels of the transfer guard",
        "_src.lib.guard_lib.thread_local_state",
        observed=callable(guard) and hasattr(guard(), "device_to_host"),
        missing=f"{runtime.name}._src.lib.guard_lib",
    )


def _reads(runtime: resolve.Runtime) -> Capability:
    kind = runtime.private("array", "ArrayImpl")
    names = vars(kind) if isinstance(kind, type) else {}
    slot = bufferslot.how()
    hooks = isinstance(names.get("_value"), property) and "__dlpack__" in names
    return _capability(
        "device-to-host reads in drivers",
        f"_src.array.ArrayImpl._value, __dlpack__ and {slot or 'no buffer slot'}",
        observed=hooks and bool(slot),
        missing=f"{runtime.name}._src.array.ArrayImpl._value"
        if not hooks
        else f"{runtime.name}._src.array.ArrayImpl: the buffer slot",
    )


def _modules(runtime: resolve.Runtime) -> Capability:
    return _capability(
        "identical programs compiled again",
        "the module given to _src.compiler.compile_or_get_cached",
        observed=callable(runtime.private("compiler", "compile_or_get_cached")),
        missing=f"{runtime.name}._src.compiler.compile_or_get_cached",
    )


def _launch_counts(runtime: resolve.Runtime) -> Capability:
    """The module itself has no class of one name: its reader is looked up when an executable is at hand."""
    return _of_executable(
        runtime,
        "compiled modules: launch counts, kernels",
        "hlo_modules",
        "and as_serialized_hlo_module_proto of the module",
    )


def _memory_plans(runtime: resolve.Runtime) -> Capability:
    return _of_executable(runtime, "memory plans: temp and peak bytes", "get_compiled_memory_stats")


def _of_executable(runtime: resolve.Runtime, name: str, method: str, more: str = "") -> Capability:
    """What a loaded executable is asked for; a backend may refuse it all the same, and the figure says so."""
    kind = runtime.private("lib", "xla_client", "LoadedExecutable")
    return _capability(
        name,
        f"LoadedExecutable.{method} {more}".strip(),
        observed=callable(getattr(kind, method, None)),
        missing=f"{runtime.name}._src.lib.xla_client.LoadedExecutable.{method}",
    )


_PROBES: tuple[Callable[[resolve.Runtime], Capability], ...] = (
    _traces,
    _compiles,
    _owners,
    _slow_launches,
    _fast_launches,
    _under_jit,
    _context,
    _cleared,
    _transfers,
    _reads,
    _modules,
    _launch_counts,
    _memory_plans,
)


@functools.cache
def _code_names(module: ModuleType) -> frozenset[str]:
    """Names of all functions in the source of a module, nested ones included."""

    def walk(code: CodeType) -> Iterator[str]:
        yield code.co_name
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from walk(constant)

    functions = [one for one in vars(module).values() if isinstance(one, FunctionType)]
    return frozenset(name for one in functions for name in walk(one.__code__))
