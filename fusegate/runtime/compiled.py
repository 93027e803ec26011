"""What is asked of a compiled program: its module, its memory, its cost, and whether it was made anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from fusegate.runtime import hlo, resolve

_PHASES: Final = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}


def executable_of(compiled: Any) -> Any:
    """The loaded executable behind a `Compiled`; None where the backend has none.

    Public: `Compiled.runtime_executable`. Equinox's own `Compiled` holds the runtime's.
    """
    inner = getattr(compiled, "compiled", compiled)
    reader = getattr(inner, "runtime_executable", None)
    return reader() if callable(reader) else None


def executable_launched_by(executor: Any) -> Any:
    """The loaded executable that a call is about to launch, `ExecuteReplicated.xla_executable`.

    No public route leads from a call to its executable before it runs. Ran on frx 0.10.2, jax 0.7.2, 0.10.2
    and the newest; None where it is gone.
    """
    return getattr(executor, "xla_executable", None)


def module_of(executable: Any) -> hlo.Module | None:
    """The optimized module of an executable; None where the backend shows none.

    Reaches `hlo_modules()` of the loaded executable and `as_serialized_hlo_module_proto()` of the module: the
    text of `Compiled.as_text` has no stable grammar. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the newest.

    Raises:
        MalformedProtoError: The backend's module cannot be read.
    """
    reader = getattr(executable, "hlo_modules", None)
    try:
        modules = reader() if callable(reader) else None
    except _unimplemented():  # for a device that is not there, on jax 0.7.2
        return None
    if not modules or not hasattr(modules[0], "as_serialized_hlo_module_proto"):
        return None
    return hlo.Module(modules[0].as_serialized_hlo_module_proto())


def fingerprint_of(executable: Any) -> Any:
    """What stands for a program: equal for equal programs, hashable. None where the backend has none.

    Reaches `LoadedExecutable.fingerprint`, which has no public reader. Ran on frx 0.10.2, jax 0.7.2, 0.10.2
    and the newest.
    """
    return getattr(executable, "fingerprint", None)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a program takes, as the compiler planned them; None for what it does not say.

    Attributes:
        temp: Temporary buffers.
        argument: Arguments.
        output: Results.
        alias: Results that take the place of a donated argument.
        peak: The most that is alive at once; the compiler's estimate.
    """

    temp: int | None = None
    argument: int | None = None
    output: int | None = None
    alias: int | None = None
    peak: int | None = None


def memory_of(executable: Any) -> Memory | None:
    """The memory plan of an executable; None where the backend shows none.

    Reaches `LoadedExecutable.get_compiled_memory_stats`, the same that the public `memory_analysis` reads, so
    that it can be asked of an executable without its `Compiled`. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and the
    newest.
    """
    reader = getattr(executable, "get_compiled_memory_stats", None)
    if not callable(reader):
        return None
    try:
        stats = reader()
    except _unimplemented():
        return None
    return Memory(
        **{
            name: None if value is None else int(value)
            for name in ("temp", "argument", "output", "alias")
            for value in [getattr(stats, f"{name}_size_in_bytes", None)]
        },
        peak=_known(getattr(stats, "peak_memory_in_bytes", None)),
    )


def _known(value: Any) -> int | None:
    """A figure that reads 0 or less where the backend does not fill it in."""
    return int(value) if value is not None and value > 0 else None


@dataclass(frozen=True, slots=True)
class Cost:
    """What the compiler counts of a program; None for what it does not say.

    Attributes:
        flops: Floating-point operations.
        bytes_accessed: Bytes read and written.
        why_not: Why a figure is missing; empty where both are there.
    """

    flops: float | None = None
    bytes_accessed: float | None = None
    why_not: str = ""


def cost_of(compiled: Any) -> Cost:
    """The cost of a program, as the compiler counts it.

    Public: `Compiled.cost_analysis`, which is empty or refused on some backends; a program that was compiled
    for a device that is not there is counted by `_cost_of_module`.
    """
    inner = getattr(compiled, "compiled", compiled)
    try:
        found = inner.cost_analysis()
    except _unimplemented():
        found = None
    if isinstance(found, (list, tuple)):  # one entry per partition, up to jax 0.4
        found = found[0] if found else {}
    if not found:
        executable = executable_of(compiled)
        # A loaded executable belongs to a backend, whose own analysis is the one to ask.
        if executable is None or hasattr(executable, "local_devices"):
            return Cost(why_not="this backend gives no cost analysis")
        return _cost_of_module(executable)
    flops, accessed = (_counted(found, name) for name in ("flops", "bytes accessed"))
    missing = flops is None or accessed is None
    return Cost(flops, accessed, "this backend does not count it" if missing else "")


def _cost_of_module(executable: Any) -> Cost:
    """The cost of an executable's module by XLA's general analysis, the one that knows no backend.

    Reaches `hlo_module_cost_analysis` of jaxlib, which no public name leads to: the executable's own analysis
    is not implemented where the device is not there. Ran on CUDA modules of jax 0.10.2 and 0.12.0. What a
    library call costs it does not know.
    """
    runtime = resolve.required()
    analyse = runtime.private("lib", "_jax", "hlo_module_cost_analysis")
    module = module_of(executable)
    if not callable(analyse) or module is None:
        return Cost(why_not="this backend gives no cost analysis")
    if module.holds("custom-call"):
        return Cost(why_not="the program calls a library, whose cost the compiler does not know")
    client = runtime.module.local_devices()[0].client
    found = analyse(client, executable.hlo_modules()[0])
    return Cost(_counted(found, "flops"), _counted(found, "bytes accessed"))


def _counted(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    return float(value) if value is not None and value >= 0 else None


def _unimplemented() -> tuple[type[BaseException], ...]:
    """How a backend says that it does not implement an analysis."""
    runtime = resolve.required()
    error = getattr(runtime.public("errors"), "JaxRuntimeError", None)
    return (NotImplementedError, *([error] if error is not None else []))


def platform_of(executable: Any) -> str:
    """The platform that an executable is for: `cpu`, `gpu`, `cuda`."""
    devices = getattr(executable, "local_devices", None)
    found = devices() if callable(devices) else None
    platform = getattr(found[0], "platform", None) if found else None
    return str(platform or resolve.required().module.default_backend())


class _Noting(threading.local):
    """Per thread: who wants to know which phases did work."""

    def __init__(self) -> None:
        self.into: list[set[str]] = []


_noting = _Noting()
_listening: set[str] = set()
_lock = threading.Lock()


@contextmanager
def phases_worked() -> Iterator[set[str]]:
    """Notes which phases did work on this thread; a phase that was served from a cache did none.

    Public: the runtime's monitoring events, which are sent when work was done. Their seconds are not used:
    up to jax 0.7 an inner trace is reported beside the one around it.

    Yields:
        Some of `trace`, `lower`, `compile`; filled in while the block runs.
    """
    _listen()
    found: set[str] = set()
    _noting.into.append(found)
    try:
        yield found
    finally:
        # By identity: two sets of the same phases are equal.
        _noting.into[:] = [one for one in _noting.into if one is not found]


def _listen() -> None:
    runtime = resolve.required()
    with _lock:
        if runtime.name in _listening:
            return
        _listening.add(runtime.name)

    def on_duration(event: str, _seconds: float, **_: Any) -> None:
        phase = _PHASES.get(event)
        if phase is not None:
            for found in _noting.into:
                found.add(phase)

    runtime.public("monitoring").register_event_duration_secs_listener(on_duration)
