"""What a state costs, beside the other ways to make a class a pytree.

    python benchmarks/state.py frx|jax [--rounds N] [--calls N]

Each class has eight data fields and two metadata fields. Every row is a ratio to the runtime's own
`register_dataclass` of a frozen dataclass, taken in paired rounds; "again" is that very thing a second
time, so its distance from 1 is the noise of the run. chex.dataclass has no metadata: there the two
fields are left out. flax is compared where it is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from _common import paired, pin, print_ratios, versions

BASE = "register_dataclass"
FIELDS = tuple(f"x{index}" for index in range(8))
ANNOTATIONS = dict.fromkeys(FIELDS, Any)


def registered(runtime: Any) -> type:
    """A frozen dataclass registered by the runtime's own means."""
    made = dataclasses.make_dataclass("Registered", [*FIELDS, "rate", "label"], frozen=True)
    return runtime.tree_util.register_dataclass(
        made, data_fields=list(FIELDS), meta_fields=["rate", "label"]
    )


def fusegate_state(**options: bool) -> type:
    """The same class with `@state`."""
    import fusegate as fg

    body = {"__annotations__": ANNOTATIONS | {"rate": int, "label": str}}
    body |= {"rate": fg.meta(), "label": fg.meta(), "__module__": __name__}
    return fg.state(**options)(type("State", (), body))


def equinox_module() -> type:
    """The same class as an Equinox module."""
    import equinox as eqx

    body = {"__annotations__": ANNOTATIONS | {"rate": int, "label": str}, "__module__": __name__}
    body |= {"rate": eqx.field(static=True), "label": eqx.field(static=True)}
    return type(eqx.Module)("Module", (eqx.Module,), body)


def chex_dataclass() -> type:
    """The same class with chex, without the metadata."""
    import chex

    body = {"__annotations__": ANNOTATIONS, "__module__": __name__}
    return chex.dataclass(frozen=True)(type("Chex", (), body))


def flax_struct() -> type:
    """The same class with flax."""
    from flax import struct

    body = {"__annotations__": ANNOTATIONS | {"rate": int, "label": str}, "__module__": __name__}
    body |= {"rate": struct.field(pytree_node=False), "label": struct.field(pytree_node=False)}
    return struct.dataclass(type("Flax", (), body))


Makers = dict[str, Callable[[], type]]


def makers(runtime: Any) -> Makers:
    """What is compared, by name."""
    found: Makers = {
        BASE: lambda: registered(runtime),
        f"{BASE}, again": lambda: registered(runtime),
        "fusegate.state": fusegate_state,
        "fusegate.state(slots=True)": lambda: fusegate_state(slots=True),
    }
    for name, maker in (
        ("eqx.Module", equinox_module),
        ("chex.dataclass", chex_dataclass),
        ("flax.struct.dataclass", flax_struct),
    ):
        try:
            maker()
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found[name] = maker
    return found


def constructor(name: str, cls: type) -> Callable[..., Any]:
    """Builds an instance from its data."""
    if name == "chex.dataclass":
        return lambda *data: cls(**dict(zip(FIELDS, data, strict=True)))
    return lambda *data: cls(*data, 8, "sponge")


def actions(runtime: Any, name: str, cls: type) -> dict[str, Callable[[], Any]]:
    """What is timed of one class, each as a call without arguments."""
    array = runtime.numpy.float32(1) * 1
    data = [array] * len(FIELDS)
    build = constructor(name, cls)
    item = build(*data)
    equal = build(*data)
    nested = build(build(build(*data), *data[1:]), *data[1:])
    tree = runtime.tree_util
    leaves, treedef = tree.tree_flatten(item)
    first = runtime.jit(lambda s: s.x1 + 1)
    inner = runtime.jit(lambda s: s.x1 + 1)
    through = runtime.jit(lambda s: s)
    for warm in (lambda: first(item), lambda: inner(nested), lambda: through(item)):
        warm()
    return {
        "warm call, the same state": lambda: first(item),
        "warm call, an equal state": lambda: first(equal),
        "warm call, three states nested": lambda: inner(nested),
        "warm call that returns the state": lambda: through(item),
        "flatten": lambda: tree.tree_flatten(item),
        "unflatten": lambda: tree.tree_unflatten(treedef, leaves),
        "construct": lambda: build(*data),
        "construct, flatten, unflatten": lambda: tree.tree_unflatten(
            treedef, tree.tree_flatten(build(*data))[0]
        ),
    }


def main() -> None:
    """Prints one table per action."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runtime", choices=["frx", "jax"])
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=200)
    chosen = parser.parse_args()
    runtime = importlib.import_module(chosen.runtime)
    importlib.import_module(f"{chosen.runtime}.numpy")
    core = pin()
    print(f"{platform.platform()}, Python {platform.python_version()}, pinned to core {core}")
    print(versions(chosen.runtime, "equinox", "chex", "flax"))
    timed = {name: actions(runtime, name, make()) for name, make in makers(runtime).items()}
    for action in timed[BASE]:
        variants = {name: calls[action] for name, calls in timed.items() if name != BASE}
        found = paired(timed[BASE][action], variants, (), calls=chosen.calls, rounds=chosen.rounds)
        print_ratios(f"{action} ({BASE} = 1)", found)


if __name__ == "__main__":
    main()
