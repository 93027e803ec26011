"""Shared by the benchmarks: one pinned core, interleaved rounds, ratios of paired times."""

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """How one variant compares with the baseline, over the rounds of one run.

    Attributes:
        name: The variant.
        median: Median of the paired ratios.
        low: Their first quartile.
        high: Their third quartile.
        nanoseconds: Median time of one call.
    """

    name: str
    median: float
    low: float
    high: float
    nanoseconds: float


def pin() -> int | None:
    """Keeps this process on one core; returns it, or None where the system has no such call."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Runs without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds(call: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    """Processor time of this thread for a run of calls.

    Not the time on the wall, so that another program on the core counts for neither side. Results are not
    waited for: what is compared is the way to the launch.
    """
    start = time.thread_time()
    for _ in range(calls):
        call(*args)
    return time.thread_time() - start


def paired(
    baseline: Callable[..., Any],
    variants: dict[str, Callable[..., Any]],
    args: tuple[Any, ...],
    *,
    calls: int,
    rounds: int,
) -> list[Ratio]:
    """Compares variants with a baseline.

    In every round each variant is timed once between two timings of the baseline, in an order drawn
    anew, and its ratio is taken to the mean of the two. A slow moment of the machine then meets both sides;
    many short rounds resist it better than few long ones.

    Args:
        baseline: What one is.
        variants: What to compare, by name.
        args: Arguments of every call.
        calls: Calls per timing.
        rounds: Rounds.
    """
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    times: dict[str, list[float]] = {name: [] for name in variants}
    order, draw = list(variants), random.Random(0)
    for call in (baseline, *variants.values()):
        seconds(call, args, 50)
    with quiet_collector():
        for _ in range(rounds):
            draw.shuffle(order)
            before = seconds(baseline, args, calls)
            for name in order:
                spent = seconds(variants[name], args, calls)
                after = seconds(baseline, args, calls)
                ratios[name].append(2 * spent / (before + after))
                times[name].append(spent / calls)
                before = after
    found = []
    for name in variants:
        low, median, high = statistics.quantiles(ratios[name], n=4)
        found.append(Ratio(name, median, low, high, statistics.median(times[name]) * 1e9))
    return found


def print_ratios(title: str, found: list[Ratio]) -> None:
    """Prints one table."""
    print(f"\n{title}")
    print(f"  {'':46} {'ratio':>7}  {'quartiles':>15}  {'per call':>10}")
    for row in found:
        spread = f"{row.low:.3f} - {row.high:.3f}"
        print(f"  {row.name:46} {row.median:7.3f}  {spread:>15}  {row.nanoseconds / 1e3:7.2f} us")


def versions(*names: str) -> str:
    """`jax 0.10.2, equinox 0.13.8`, of what is installed."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)
