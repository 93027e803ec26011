"""Compiles for a GPU that is not there, where the runtime's CUDA compiler plugin is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from fusegate.runtime import resolve, trees

_H100: Final[Mapping[str, Any]] = {
    "gpu_device_info": {
        "core_count": 132,
        "fpus_per_core": 128,
        "threads_per_warp": 32,
        "threads_per_block_limit": 1024,
        "threads_per_core_limit": 2048,
        "block_dim_limit_x": 2**31 - 1,
        "block_dim_limit_y": 2**16 - 1,
        "block_dim_limit_z": 2**16 - 1,
        "registers_per_core_limit": 64 * 1024,
        "registers_per_block_limit": 64 * 1024,
        "shared_memory_per_core": 228 * 1024,
        "shared_memory_per_block": 48 * 1024,
        "shared_memory_per_block_optin": 227 * 1024,
        "l2_cache_size": 50 * 2**20,
        "memory_bandwidth": 3_352_320_000_000,
        "device_memory_size": 84_978_434_048,
        "clock_rate_ghz": 1.98,
        "cuda_compute_capability": {"major": 9},
    },
    "platform_name": "CUDA",
    "runtime_version": {"major": 12, "minor": 8},
    "dnn_version_info": {"major": 9, "minor": 7},
    "device_description_str": "NVIDIA H100 80GB HBM3",
}
"""The figures of an H100 SXM in the field names of XLA's GpuTargetConfigProto."""

TARGETS: Final[Mapping[str, Mapping[str, Any]]] = {"cuda:h100": _H100}
"""Name of a target -> its figures."""


def unavailable(target: str) -> str:
    """Why a target cannot be compiled for in this process; empty where it can.

    Raises:
        ValueError: There is no such target.
    """
    if target not in TARGETS:
        raise ValueError(f"unknown target {target!r}; known are {', '.join(sorted(TARGETS))}")
    runtime = resolve.required()
    if runtime.name == "frx":
        return "FRX has no CUDA compiler plugin: its release on the index is an empty placeholder"
    if find_spec("jax_cuda12_plugin") is None:
        return "jax-cuda12-plugin is not installed: pip install 'fusegate-jit[cuda-evidence]'"
    try:
        runtime.public("experimental.topologies")
    except ImportError:
        return f"{runtime.name} {runtime.version} has no experimental.topologies"
    return ""


def lower_for(target: str, trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Traces and lowers a function for a target.

    Public but experimental: `jax.experimental.topologies`. Ran on jax 0.10.2 with jax-cuda12-plugin 0.10.2;
    no autotuning is done without a GPU, so the choice between library and generated kernels may differ there.

    Args:
        target: One of `TARGETS`, that `unavailable` does not refuse.
        trace: The `trace` of a jit.
        args: The arguments; arrays are replaced by structs on the target's device.
        kwargs: The keyword arguments.

    Returns:
        The runtime's `Traced` and `Lowered`.
    """
    runtime = resolve.required()
    topology = runtime.public("experimental.topologies").get_topology_desc(
        target.partition(":")[2],
        "cuda",
        target_config=_text_proto(TARGETS[target]),
        topology="1x1x1",
    )
    sharding = runtime.module.sharding.SingleDeviceSharding(topology.devices[0])

    def there(leaf: Any) -> Any:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        return runtime.module.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    leaves, treedef = trees.leaves_of((args, kwargs))
    placed_args, placed_kwargs = treedef.unflatten([there(leaf) for leaf in leaves])
    traced = trace(*placed_args, **placed_kwargs)
    return traced, traced.lower(lowering_platforms=("cuda",))


def _text_proto(values: Mapping[str, Any]) -> str:
    """A nested mapping as protobuf text."""
    parts = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            parts.append(f"{name} {{ {_text_proto(value)} }}")
        else:
            parts.append(f'{name}: "{value}"' if isinstance(value, str) else f"{name}: {value}")
    return "\n".join(parts)
