"""What the check of a traced program costs, beside tracing and lowering that program.

    python benchmarks/trace_checks.py [jax|frx] [equations ...] [looped|spread|melted ...]

Each program is traced once, lowered once and checked five times (facts and judgement, best of five). Three
kinds: an unrolled loop of one line, a straight line in which every equation has a line of its own, and a
zone of melted round bodies. The target is 5 % of trace and lower, linear in the equations.
"""

import importlib
import sys
import time
from types import SimpleNamespace

SIZES = (1_000, 10_000, 100_000, 300_000)
SHARE = 0.05


def looped(count):
    def program(x):
        for _ in range(count // 3):
            x = x + 0.01 * (1.0 - x)
        return x

    return program


def spread(count):
    """A program whose equations stand on 2,000 lines, as generated constraint code does."""
    lines = ["def program(x):"] + [f"    x = x * {n}.0" for n in range(min(count, 2_000))]
    scope = {}
    exec(compile("\n".join([*lines, "    return x"]), "<generated>", "exec"), scope)
    once = scope["program"]

    def program(x):
        for _ in range(max(1, count // 2_000)):
            x = once(x)
        return x

    return program


def melted(count):
    jax = sys.modules["jax"]

    def fold(table, r):
        low, high = table[:4], table[4:]
        return low + r * (high - low), (low * high).sum()

    def program(x):
        for call in range(count // 8):
            with jax.named_scope(f"fusegate.round_body:fold#1.{call}"):
                half, r = fold(x, x[0])
            x = jax.lax.concatenate([half, half * r], 0)
        return x

    return program


def seconds(run):
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


def main():
    name, *rest = sys.argv[1:] or ["jax"]
    sizes = tuple(int(word) for word in rest if word.isdigit()) or SIZES
    only = {word for word in rest if not word.isdigit()}
    jax = importlib.import_module(name)
    from fusegate.config import Thresholds
    from fusegate.judge import fusion
    from fusegate.observe.jaxpr import program_facts

    zone = SimpleNamespace(name="zone", role="single zone", defined=None)
    body = SimpleNamespace(name="fold", role="round body", defined=None)
    regions = {"fusegate.round_body:fold#1": (body, fusion.Contract(1))}

    def check(program):
        facts = program_facts(program, ())
        return fusion.check_program(zone, None, facts, Thresholds(), regions)

    x = jax.numpy.arange(8.0)
    check(jax.jit(looped(30)).trace(x).jaxpr)
    print(f"{name} {jax.__version__}")
    print("| program | equations | trace s | lower s | check s | us/equation | share |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    worst = 0.0
    wanted = [build for build in (looped, spread, melted) if build.__name__ in only or not only]
    for build in wanted:
        for size in sizes:
            traced, trace_s = seconds(lambda: jax.jit(build(size)).trace(x))  # noqa: B023
            _, lower_s = seconds(traced.lower)
            check_s = min(seconds(lambda: check(traced.jaxpr))[1] for _ in range(5))  # noqa: B023
            count = len(traced.jaxpr.jaxpr.eqns)
            share = check_s / (trace_s + lower_s)
            worst = max(worst, share)
            each = check_s / count * 1e6
            print(
                f"| {build.__name__} | {count:,} | {trace_s:.2f} | {lower_s:.2f} | {check_s:.4f} | "
                f"{each:.2f} | {share:.2%} |",
                flush=True,
            )
    print(f"worst share {worst:.2%} (target {SHARE:.0%})")
    return 0 if worst <= SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
