"""Compiles for a GPU that is not there, where the runtime's CUDA compiler plugin is installed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from string import Template
from typing import Any, Final

from fusegate.runtime import arrays, resolve, trees

_CONFIG: Final = Template("""
gpu_device_info {
  core_count: $cores
  fpus_per_core: $fpus_per_core
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_core: $shared_memory
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: $shared_memory_optin
  l2_cache_size: $l2_cache
  memory_bandwidth: $bandwidth
  device_memory_size: $memory
  clock_rate_ghz: $clock_ghz
  cuda_compute_capability { $capability }
}
platform_name: "CUDA"
runtime_version { major: 12 minor: 8 }
dnn_version_info { major: 9 minor: 10 }
device_description_str: "$device"
""")
"""A GpuTargetConfigProto as text.

Its figures are those that XLA publishes per GPU (`xla/backends/gpu/target_config/specs/*.txtpb`), in the
fields that every version of the plugin reads. The rates of the arithmetic units, which the later files have
too, change none of the launches: compared over 18 programs on jax 0.10.2 and 0.12.0.
"""

_HOPPER: Final[Mapping[str, object]] = {
    "cores": 132,
    "fpus_per_core": 128,
    "shared_memory": 233_472,
    "shared_memory_optin": 232_448,
    "l2_cache": 52_428_800,
    "clock_ghz": 1.98,
    # As the device itself says: without the extension it is compiled for sm_90, not for sm_90a.
    "capability": "major: 9 feature_extension: ACCELERATED_FEATURES",
}

TARGETS: Final[Mapping[str, Mapping[str, object]]] = {
    "cuda:a100": {  # a100_sxm_80.txtpb
        "cores": 108,
        "fpus_per_core": 64,
        "shared_memory": 167_936,
        "shared_memory_optin": 166_912,
        "l2_cache": 41_943_040,
        "bandwidth": 2_039_040_000_000,
        "memory": 85_100_068_864,
        "clock_ghz": 1.41,
        "capability": "major: 8",
        "device": "NVIDIA A100-SXM4-80GB",
    },
    "cuda:h100": {  # h100_sxm.txtpb
        **_HOPPER,
        "bandwidth": 3_352_320_000_000,
        "memory": 84_942_979_072,
        "device": "NVIDIA H100 80GB HBM3",
    },
    "cuda:h200": {  # h200.txtpb
        **_HOPPER,
        "bandwidth": 4_800_000_000_000,
        "memory": 151_397_597_184,
        "device": "NVIDIA H200 141GB HBM3e",
    },
}
"""Name of a target -> its figures."""

_PLUGINS: Final = ("jax_cuda12_plugin", "jax_cuda13_plugin")


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
    if not any(find_spec(name) for name in _PLUGINS):
        return "jax-cuda12-plugin is not installed: pip install 'fusegate-jit[cuda-evidence]'"
    try:
        runtime.public("experimental.topologies")
    except ImportError:
        return f"{runtime.name} {runtime.version} has no experimental.topologies"
    try:
        _device(runtime.name, target)
    except Exception as error:  # noqa: BLE001 (whatever ails the plugin, it is not the program's fault)
        # The plugin looks for CUDA's libraries as it loads, unless CUDA is none of the platforms asked for.
        return (
            f"the CUDA plugin gives no topology ({reason_of(error)}); without a GPU it loads under "
            "JAX_PLATFORMS=cpu, and in older versions JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 beside it"
        )
    return ""


def placed(
    target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments with every array as a struct on a target's device; None where no argument is one.

    A program belongs where its arguments are: without one there, it would be compiled for the process's own
    backend. Numpy scalars and Python numbers stay as they are, since they may be static.

    Args:
        target: One of `TARGETS`, that `unavailable` does not refuse.
        args: The positional arguments.
        kwargs: The keyword arguments.
    """
    from numpy import ndarray

    runtime = resolve.required()
    sharding = runtime.module.sharding.SingleDeviceSharding(_device(runtime.name, target))
    found = False

    def there(leaf: Any) -> Any:
        nonlocal found
        if not (
            arrays.is_device_array(leaf) or arrays.is_struct(leaf) or isinstance(leaf, ndarray)
        ):
            return leaf
        found = True
        return runtime.module.ShapeDtypeStruct(
            leaf.shape,
            leaf.dtype,
            sharding=sharding,
            weak_type=bool(getattr(leaf, "weak_type", False)),
        )

    leaves, treedef = trees.leaves_of((args, dict(kwargs)))
    there_args, there_kwargs = treedef.unflatten([there(leaf) for leaf in leaves])
    return (there_args, there_kwargs) if found else None


def or_refusal(work: Callable[[], Any]) -> tuple[Any, str]:
    """What a step of a compile for a target gives, or why the compiler refused.

    What fails is a RuntimeError: a library that the plugin loads (cuSolver for `eig`), a callback, which asks
    for the backend, or the compiler itself.

    Args:
        work: Lowers or compiles.
    """
    try:
        with warnings.catch_warnings():
            # What the persistent cache keeps of such a program it cannot load: it is compiled again.
            warnings.filterwarnings("ignore", "Error reading persistent compilation cache entry")
            return work(), ""
    except RuntimeError as error:
        return None, f"it cannot be compiled for this target here ({reason_of(error)})"


def reason_of(error: BaseException) -> str:
    """An error in one line."""
    line = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {line if len(line) <= 120 else line[:120] + '...'}"


@functools.cache
def _device(runtime_name: str, target: str) -> Any:
    """The device of a target; one and the same, so that equal programs are compiled for it once.

    Public but experimental: `jax.experimental.topologies`. Ran on jax 0.10.2 with jax-cuda12-plugin 0.10.2
    and on 0.12.0.1 with 0.12.0.1, without a GPU. On 0.7.2 the plugin loads without one only under
    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1, the compiler refuses a dot, which it wants autotuned, and of other
    programs it shows no module.
    """
    runtime = resolve.required()
    assert runtime.name == runtime_name
    topology = runtime.public("experimental.topologies").get_topology_desc(
        target.partition(":")[2],
        "cuda",
        target_config=_CONFIG.substitute(TARGETS[target]),
        topology="1x1x1",
    )
    return topology.devices[0]
