"""What a warm island call costs inside and around a driver, as ratios to the runtime's bare `jit` in one run.

    python benchmarks/driver.py frx|jax [--rounds N] [--calls N]

The rows of the first table call a function of one scalar, where dispatch is all there is; those of the second
one of a state of three scalars and one more. "bare jit, again" is the same thing
as the baseline: its distance from 1 is the noise of this run. The rows of a driver are entered before their
calls and left after them, so they show what one call inside costs; "driver per call" enters a driver around
each single call. In warn, a driver is observed for its first calls and then for one in many: "steady" is
after that.
"""

import argparse
import gc
import importlib
import os
import platform
import random
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from _common import Ratio, pin, print_ratios, quiet_collector, seconds, versions


def scalar_function() -> Callable[[Any], Any]:
    """A new function object each time: two jits of one function would share their cache."""

    def add_one(x):
        return x + 1

    return add_one


Row = tuple[Callable[..., Any], Callable[[], AbstractContextManager[Any]]]
"""What is called, and what is entered around a run of calls, outside of the time."""


def rows(runtime: Any, fusegate: Any) -> dict[str, Row]:
    """What is compared with a bare jit."""
    warm = runtime.numpy.float32(1.0) * 1

    def ready(made: Any) -> Any:
        made(warm)
        return made

    def island(**options: Any) -> Any:
        return ready(fusegate.island(scalar_function(), **options))

    def inside(mode: str, calls: int = 1) -> Callable[[], AbstractContextManager[Any]]:
        made = fusegate.driver(
            f"{mode} driver, entered {calls} times", mode=mode, max_eager=1 << 30
        )
        for _ in range(calls - 1):
            with made:
                pass
        return lambda: made

    first, second = island(), island()

    def alternating(x):
        first(x)
        return second(x)

    def own(mode: str) -> Any:
        return fusegate.driver(island(), mode=mode, name=f"own {mode}")

    return {
        "bare jit, again": (ready(runtime.jit(scalar_function())), nullcontext),
        "island, outside of any driver": (island(), nullcontext),
        "island, strict driver": (island(), inside("strict")),
        "bare jit, strict driver": (ready(runtime.jit(scalar_function())), inside("strict")),
        "two islands in turn (of 2), strict driver": (alternating, inside("strict")),
        "island, warn driver, observed call": (island(), inside("warn")),
        "island, warn driver, steady": (island(), inside("warn", 9)),
        "island, driver off": (island(), inside("off")),
        "driver per call (off)": (own("off"), nullcontext),
        "driver per call (warn)": (own("warn"), nullcontext),
        "driver per call (strict)": (own("strict"), nullcontext),
    }


def compare(
    baseline: Callable[..., Any], found: dict[str, Row], args: Any, calls: int, rounds: int
) -> list[Ratio]:
    """As `paired`, with something entered around the timing of each variant."""
    ratios: dict[str, list[float]] = {name: [] for name in found}
    times: dict[str, list[float]] = {name: [] for name in found}
    order, draw = list(found), random.Random(0)
    seconds(baseline, args, 200)
    with quiet_collector():
        for _ in range(rounds):
            draw.shuffle(order)
            before = seconds(baseline, args, calls)
            for name in order:
                call, around = found[name]
                with around():
                    seconds(
                        call, args, 100
                    )  # a driver looks at the first launches of a boundary longer
                    spent = seconds(call, args, calls)
                after = seconds(baseline, args, calls)
                ratios[name].append(2 * spent / (before + after))
                times[name].append(spent / calls)
                before = after
            gc.collect()
    result = []
    for name in found:
        low, median, high = statistics.quantiles(ratios[name], n=4)
        result.append(Ratio(name, median, low, high, statistics.median(times[name]) * 1e9))
    return result


def tree_function() -> Callable[[Any, Any], Any]:
    """As `scalar_function`, for arguments that have leaves."""

    def add(state, x):
        return state.low + x

    return add


def tree_rows(runtime: Any, fusegate: Any, args: tuple[Any, Any]) -> dict[str, Row]:
    """What is compared with a bare jit of such a function."""

    def ready(made: Any) -> Any:
        made(*args)
        return made

    def strict() -> Any:
        return fusegate.driver("strict driver of states", mode="strict")

    return {
        "bare jit, again": (ready(runtime.jit(tree_function())), nullcontext),
        "island, outside of any driver": (ready(fusegate.island(tree_function())), nullcontext),
        "island, strict driver": (ready(fusegate.island(tree_function())), strict),
    }


def main() -> None:
    """Runs the comparison on one runtime."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runtime", choices=["frx", "jax"])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--calls", type=int, default=2000)
    chosen = parser.parse_args()
    runtime = importlib.import_module(chosen.runtime)
    importlib.import_module(f"{chosen.runtime}.numpy")
    import fusegate

    core = pin()
    used = versions(chosen.runtime, "wrapt")
    print(f"{used}, Python {platform.python_version()}, {os.cpu_count()} cores, pinned to {core}")
    x = runtime.numpy.float32(1.0) * 1
    baseline = runtime.jit(scalar_function())
    found = compare(baseline, rows(runtime, fusegate), (x,), chosen.calls, chosen.rounds)
    print_ratios("one scalar, ratio to bare jit", found)

    @fusegate.state
    class Table:
        low: Any
        high: Any
        total: Any

    args = (Table(x, x, x), x)
    baseline = runtime.jit(tree_function())
    found = compare(baseline, tree_rows(runtime, fusegate, args), args, chosen.calls, chosen.rounds)
    print_ratios("a state of three scalars and one more, ratio to bare jit", found)


if __name__ == "__main__":
    main()
