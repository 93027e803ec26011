"""The configuration that a trace depends on, and whether the runtime's caches were cleared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegate.runtime import resolve

_UNRELATED = (
    "debug_nans", "debug_infs", "transfer_guard", "log_", "logging", "explain", "compilation_cache",
    "persistent_cache", "compiler_", "check_tracer_leaks", "traceback", "no_tracing", "no_execution",
    "dump", "platforms", "platform_name", "profiler", "pgle", "distributed", "coordination",
    "raise_persistent", "include_full", "num_cpu_devices", "cpu_", "cuda_", "rocm", "mock_",
    "tracer_error", "captured_constants", "hlo_source", "memory_fitting", "array_garbage",
    "use_direct_linearize_debug", "max_map_count",
)  # fmt: skip
"""Parts of the names of settings that no trace depends on; a difference in them is no cause."""


def config_values() -> tuple[tuple[str, str], ...]:
    """The settings in force on this thread, as (name, text), context managers included.

    Public: `jax.config.values` names them, and reading the attribute sees a `with` block.
    """
    config = resolve.required().module.config
    return tuple(
        (name, repr(getattr(config, name, None)))
        for name in sorted(config.values)
        if not any(part in name for part in _UNRELATED)
    )


def mesh() -> str:
    """The abstract mesh in force, as text; empty where there is none."""
    sharding = resolve.required().module.sharding
    current = getattr(sharding, "get_abstract_mesh", None)
    return str(current()) if current is not None else ""


def opaque_context() -> Any:
    """The runtime's own context part of a trace key, compared as a whole.

    Reaches `jax._src.config.trace_context`: the axis environment of `vmap` and `shard_map` and user
    contexts are part of the key and have no public reader. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the
    newest. None where it is gone; two traces then compare by the public settings alone.
    """
    reader = resolve.required().private("config", "trace_context")
    return reader() if callable(reader) else None


@functools.cache
def _epoch_reader(runtime_name: str) -> Callable[[], object] | None:
    runtime = resolve.required()
    assert runtime.name == runtime_name
    cache = runtime.private("util", "cache")
    if cache is None:
        return None
    try:
        return cache(max_size=1, trace_context_in_key=False)(object)  # type: ignore[no-any-return]
    except TypeError:  # another signature than the known one
        return None


def cache_epoch() -> object:
    """A token that stays the same until `clear_caches()` runs.

    Reaches `jax._src.util.cache`, whose memos `clear_caches` empties: a memoized token is new after it.
    There is no public sign that the caches were cleared. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the
    newest. None where it is gone.
    """
    reader = _epoch_reader(resolve.required().name)
    return reader() if reader is not None else None
