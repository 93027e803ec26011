"""What a boundary costs per warm call, as ratios to the runtime's bare `jit` in one run.

    python benchmarks/overhead.py frx|jax [--rounds N] [--calls N]

The scalar rows call a function of one scalar, where dispatch is all there is. "bare jit, again" is the same
thing as the baseline: its distance from 1 is the noise of this run. The module rows hand over an Equinox
module with 300 array leaves and an activation function, once in 150 submodules and once in a flat list;
their baseline is `eqx.filter_jit`, and "bare jit of the arrays alone" is the floor under both.
"""

import argparse
import functools
import importlib
import itertools
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from _common import paired, pin, print_ratios, versions

LEAVES = 300


NUMBERS = itertools.count(1)


def scalar_function() -> Callable[[Any], Any]:
    """A new function and another program each time: two jits of one function would share their cache."""
    number = next(NUMBERS)

    def add(x):
        return x + number

    return add


def wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The plainest decorator there is."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


def scalar_variants(runtime: Any, fusegate: Any) -> dict[str, Callable[..., Any]]:
    """What is compared with a bare jit."""
    found = {
        "bare jit, again": runtime.jit(scalar_function()),
        **{
            f"island, {mode}": fusegate.island(scalar_function(), mode=mode)
            for mode in ("off", "warn", "strict")
        },
        "functools.wraps closure": wrapped(runtime.jit(scalar_function())),
    }
    try:
        import equinox as eqx

        found["eqx.filter_jit"] = eqx.filter_jit(scalar_function())
        found["island(filter=True), warn"] = fusegate.island(
            scalar_function(), filter=True, mode="warn"
        )
    except ImportError as error:
        print(f"equinox is left out: {error}", file=sys.stderr)
    try:
        import chex

        found["chex.assert_max_traces inside jit"] = runtime.jit(
            chex.assert_max_traces(scalar_function(), n=1)
        )
    except ImportError as error:
        print(f"chex is left out: {error}", file=sys.stderr)
    return found


def module_rows(runtime: Any, fusegate: Any, calls: int, rounds: int) -> None:
    """Equinox modules of 300 array leaves, with an activation function beside them."""
    import equinox as eqx

    jnp = runtime.numpy

    class Affine(eqx.Module):
        scale: Any
        shift: Any

    class Nested(eqx.Module):
        layers: list[Affine]
        activation: Callable[..., Any]

        def __call__(self, x):
            for layer in self.layers:
                x = self.activation(x * layer.scale + layer.shift)
            return x

    class Flat(eqx.Module):
        scales: list[Any]
        activation: Callable[..., Any]

        def __call__(self, x):
            for scale in self.scales:
                x = self.activation(x * scale)
            return x

    def nested(value: float) -> Any:
        halves = [jnp.full(4, value + i) for i in range(LEAVES // 2)]
        return Nested([Affine(scale, -scale) for scale in halves], jnp.tanh)

    def flat(value: float) -> Any:
        return Flat([jnp.full(4, value + i) for i in range(LEAVES)], jnp.tanh)

    shapes = {"150 submodules": nested, "one flat list": flat}
    for name, model in shapes.items():
        compare_module(f"{LEAVES}-leaf module ({name})", model, runtime, fusegate, calls, rounds)


def compare_module(
    title: str,
    model: Callable[[float], Any],
    runtime: Any,
    fusegate: Any,
    calls: int,
    rounds: int,
) -> None:
    """Compares the two filters on one module, and on a new module object in each call."""
    import equinox as eqx

    def function() -> Callable[..., Any]:
        def forward(module, x):
            return module(x)

        return forward

    x, same = runtime.numpy.ones(4), model(1.0)
    filtered, island = eqx.filter_jit(function()), fusegate.island(function(), filter=True)
    leaves = [leaf for leaf in runtime.tree_util.tree_leaves(same) if eqx.is_array(leaf)]
    assert len(leaves) == LEAVES
    assert runtime.numpy.array_equal(filtered(same, x), island(same, x))
    plain = runtime.jit(function_of_arrays(runtime, eqx, same))
    variants = {
        "eqx.filter_jit, again": filtered,
        "island(filter=True)": island,
        "bare jit of the arrays alone": lambda _, x: plain(leaves, x),
    }
    found = paired(filtered, variants, (same, x), calls=calls, rounds=rounds)
    print_ratios(f"{title}, ratio to eqx.filter_jit", found)
    variants = {"island(filter=True)": fresh(island, model)}
    found = paired(fresh(filtered, model), variants, (x,), calls=calls, rounds=rounds)
    print_ratios(f"{title}, a new object in each call, ratio to eqx.filter_jit", found)
    assert fusegate.stats(island).traces == 1


def function_of_arrays(runtime: Any, eqx: Any, module: Any) -> Callable[..., Any]:
    """The module's function of its array leaves alone: the floor under any partition."""
    arrays, static = eqx.partition(module, eqx.is_array)
    treedef = runtime.tree_util.tree_structure(arrays)

    def forward(leaves, x):
        return eqx.combine(runtime.tree_util.tree_unflatten(treedef, leaves), static)(x)

    return forward


def fresh(call: Callable[..., Any], model: Callable[[float], Any]) -> Callable[..., Any]:
    """Hands over another module object on each call, from a stock that is longer than any memory of it."""
    stock = itertools.cycle([model(1.0 + i) for i in range(64)])
    return lambda x: call(next(stock), x)


def main() -> None:
    """Runs the comparison on one runtime."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runtime", choices=["frx", "jax"])
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--calls", type=int, default=500)
    chosen = parser.parse_args()
    runtime = importlib.import_module(chosen.runtime)
    importlib.import_module(f"{chosen.runtime}.numpy")
    import fusegate

    core = pin()
    used = versions(chosen.runtime, "equinox", "chex", "wrapt")
    print(f"{used}, Python {platform.python_version()}, {os.cpu_count()} cores, pinned to {core}")
    x = runtime.numpy.float32(1.0) * 1
    found = paired(
        runtime.jit(scalar_function()),
        scalar_variants(runtime, fusegate),
        (x,),
        calls=chosen.calls,
        rounds=chosen.rounds,
    )
    print_ratios("one scalar, ratio to bare jit", found)
    module_rows(runtime, fusegate, max(1, chosen.calls // 20), max(5, chosen.rounds // 4))


if __name__ == "__main__":
    main()
