"""What type checkers see of the decorators. Checked by mypy and pyright; not meant to be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import fusegate as fg


@fg.island
def bare(table: int, r: str = "x") -> float:
    return 1.0


@fg.island(max_traces=1, static_argnames=("r",), allow=["FG201"], mode="strict", name="mine")
def declared(table: int, r: str = "x") -> float:
    return 1.0


@fg.single_zone(max_traces=lambda n: n.bit_length(), donate_argnums=(0,))
def zone(table: int) -> list[int]:
    return [table]


@fg.round_body(reductions=2, allow_primitives=("gather",))
def body(table: int) -> int:
    return table


class Prover:
    @fg.island
    def step(self, table: int) -> float:
        return 1.0

    @fg.single_zone(static_argnums=0)
    def prove(self, table: int, *, rounds: int) -> str:
        return ""


def usage(prover: Prover) -> None:
    assert_type(bare(1), float)
    assert_type(bare(1, r="y"), float)
    assert_type(declared(1), float)
    assert_type(zone(1), list[int])
    assert_type(body(1), int)
    assert_type(prover.step(1), float)
    assert_type(prover.prove(1, rounds=2), str)
    keep: Callable[[int], int] = body
    keep(1)
    bare.lower(1)
    bare.eval_shape(1)
    bare.clear_cache()
    with fg.mode("strict"), fg.frozen(), fg.allow("FG201", reason="why"):
        fg.set_mode("off")
    found: fg.Violation | None = None
    if found is not None:
        assert_type(found.code, str)
        assert_type(found.cause, fg.Cause | None)
    counted: fg.Stats = fg.stats(bare)
    assert_type(counted.traces, int)
    whole: fg.Report = fg.report()
    assert_type(whole.boundaries["bare"], fg.Stats)


def refused(prover: Prover) -> None:
    bare("no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    declared(1, q=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    prover.step("no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fg.set_mode("loud")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fg.island(max_trace=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
