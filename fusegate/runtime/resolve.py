"""Which of frx and jax owns the process.

`frx` first: the name `jax` is an alias of it. `jax` first: `frx.numpy` cannot be imported any more. So
neither is ever imported here on fusegate's own account; the program decides, and is asked late.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from fusegate.errors import FusegateError, RuntimeOrderError


@dataclass(frozen=True)
class Runtime:
    """The array library of the process.

    Attributes:
        name: `jax` or `frx`.
        module: The imported package.
        version: Its version.
        directory: Its folder, with a trailing separator; files below it are library code.
    """

    name: str
    module: ModuleType
    version: str
    directory: str

    def public(self, dotted: str) -> Any:
        """Imports a public submodule (`tree_util`, `monitoring`) of the runtime."""
        return import_module(f"{self.name}.{dotted}")

    def private(self, dotted: str, *attributes: str) -> Any:
        """Returns a private submodule, or an attribute below it; None where it does not exist.

        Args:
            dotted: Module below the runtime's `_src`.
            attributes: Attribute names to follow from there.
        """
        try:
            found: Any = import_module(f"{self.name}._src.{dotted}")
        except ImportError:
            return None
        for attribute in attributes:
            found = getattr(found, attribute, None)
            if found is None:
                return None
        return found


_cached: dict[str, Runtime] = {}


def loaded() -> Runtime | None:
    """Returns the runtime that the program has imported; None while it has imported neither.

    Raises:
        RuntimeOrderError: `jax` was imported before `frx`.
    """
    frx, jax = sys.modules.get("frx"), sys.modules.get("jax")
    if frx is not None:
        if jax is not None and jax is not frx:
            raise RuntimeOrderError(
                "jax was imported before frx: frx takes over the name jax, and works only when it is "
                "imported first. Import frx before jax, equinox, optax and everything that imports jax."
            )
        module = frx
    elif jax is not None:
        module = jax
    else:
        return None
    name = module.__name__
    runtime = _cached.get(name)
    if runtime is None or runtime.module is not module:
        if not hasattr(module, "jit"):  # still in the middle of its own import
            return None
        directory = os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep
        version = str(getattr(module, "__version__", "unknown"))
        runtime = _cached[name] = Runtime(name, module, version, directory)
    return runtime


def required() -> Runtime:
    """Returns the runtime of the process.

    Raises:
        FusegateError: The program has imported neither frx nor jax.
        RuntimeOrderError: `jax` was imported before `frx`.
    """
    runtime = loaded()
    if runtime is None:
        raise FusegateError(
            "no runtime: a boundary was called, but the program has imported neither frx nor jax. "
            "Import the one that it runs on; fusegate never chooses for it."
        )
    return runtime
