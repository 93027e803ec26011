"""The reference kernel: a fixed program whose time stands for the speed of the machine.

Public names only: `jit`, `lax.fori_loop`, `device_put`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from fusegate.runtime import arrays, resolve, trees

_SIZES: Final = {"cpu": (16, 1024, 256)}
"""Platform -> rows, columns and rounds. On a CPU some milliseconds at most in the second-level cache of one
core, and too small for the runtime to share among threads: its time is the same on one core and on many."""
_ACCELERATOR: Final = (4096, 1024, 64)
"""The same elsewhere, large enough to be more than the time of its launches."""


@functools.cache
def _program(runtime_name: str, rounds: int) -> Any:
    """Compiled once per process and device. A loop, since compilers differ in how they fuse a long chain."""
    runtime = resolve.required()
    assert runtime.name == runtime_name
    numpy, lax = runtime.public("numpy"), runtime.public("lax")

    def one(_: Any, state: Any) -> Any:
        word, real = state
        word = word * numpy.uint32(747796405) + numpy.uint32(2891336453)
        word = word ^ (word >> 15)
        return word, real * numpy.float32(0.5) + (word >> 8).astype(numpy.float32)

    def reference(word: Any, real: Any) -> Any:
        word, real = lax.fori_loop(0, rounds, one, (word, real))
        return (real + word.astype(numpy.float32)).sum(axis=-1)

    return runtime.module.jit(reference)


def reference_for(result: Any) -> Callable[[], Any]:
    """The reference kernel on the device of a result, ready to be called; the default device where it has none.

    Integer and floating-point arithmetic, element by element, and a reduction: what provers and models are
    made of. It is no boundary, and no rule looks at it.

    Args:
        result: What a call returned.
    """
    runtime = resolve.required()
    device = _device_of(result)
    platform = device.platform if device is not None else runtime.module.default_backend()
    rows, columns, rounds = _SIZES.get(platform, _ACCELERATOR)
    numpy = runtime.public("numpy")
    word = numpy.arange(rows * columns, dtype=numpy.uint32).reshape(rows, columns)
    word, real = runtime.module.device_put((word, word.astype(numpy.float32)), device)
    return functools.partial(_program(runtime.name, rounds), word, real)


def _device_of(result: Any) -> Any:
    leaves, _ = trees.leaves_of(result)
    array = next(filter(arrays.is_device_array, leaves), None)
    return None if array is None else min(array.devices(), key=lambda device: device.id)
