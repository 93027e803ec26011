"""FG206, FG207, FG208 and FG212: what a program as a whole holds. Pure: facts in, findings out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusegate.judge import spelling
from fusegate.judge.wording import counts, finding, lines, listed, site_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from fusegate.config import Thresholds
    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec
    from fusegate.observe.program import Program


@dataclass(frozen=True, slots=True)
class MeltedCall:
    """One call of a round body inside the trace of a zone.

    Attributes:
        contract: What tells one round body from another; its marker without the call number.
        name: Name of the round body.
        shapes: The shapes of its inputs, comparable.
        location: The user line that calls it.
    """

    contract: Hashable
    name: str
    shapes: Hashable
    location: Location | None = None


def check_callbacks(spec: Spec, facts: Program) -> list[Finding]:
    """FG206: host callbacks, wherever they stand in the program."""
    if not facts.callbacks:
        return []
    return [
        finding(
            "FG206",
            spec,
            facts.callbacks[0].location,
            f"calls the host on every launch: {listed(map(site_text, facts.callbacks))}",
            fix=spelling.of_callbacks(site.primitive for site in facts.callbacks),
            evidence={"primitives": counts(facts.callbacks), "lines": lines(facts.callbacks)},
        )
    ]


def check_repeats(spec: Spec, facts: Program, thresholds: Thresholds) -> Iterator[Finding]:
    """FG207: a Python loop that was unrolled at trace time."""
    for repeat in facts.repeats:
        if repeat.equations > thresholds.unrolled_equations:
            yield finding(
                "FG207",
                spec,
                repeat.location,
                f"{repeat.equations} equations from one line, one pattern {repeat.times} times: "
                f"{', '.join(repeat.pattern)}",
                fix=spelling.LOOPS,
                evidence={"equations": repeat.equations, "times": repeat.times},
            )


def check_constants(spec: Spec, facts: Program, thresholds: Thresholds) -> Iterator[Finding]:
    """FG208: closed-over arrays that are baked into the program."""
    total = facts.constant_bytes
    if total <= thresholds.captured_bytes:
        return
    largest = sorted(facts.constants, key=lambda constant: -constant.nbytes)
    shown = listed(
        f"{'device array' if constant.on_device else 'numpy array'} {constant.shape}"
        f" ({constant.nbytes:,} bytes)" + (f" at {constant.location}" if constant.location else "")
        for constant in largest
    )
    yield finding(
        "FG208",
        spec,
        largest[0].location,
        f"closes over {total:,} bytes of arrays, baked into the program: {shown}",
        fix="pass the array as an argument of the boundary (a data field of its state), so that it is "
        "uploaded once and shared by every program that reads it",
        evidence={
            "bytes": total,
            "numpy_bytes": sum(c.nbytes for c in facts.constants if not c.on_device),
            "device_bytes": sum(c.nbytes for c in facts.constants if c.on_device),
        },
    )


def check_shapes(spec: Spec, calls: Iterable[MeltedCall], thresholds: Thresholds) -> list[Finding]:
    """FG212: one round body at many different shapes in one zone.

    Args:
        spec: The zone.
        calls: The calls of round bodies that its trace melted, in order.
        thresholds: The figures in force.
    """
    groups: dict[Hashable, dict[Hashable, MeltedCall]] = {}
    for call in calls:
        groups.setdefault(call.contract, {}).setdefault(call.shapes, call)
    return [
        finding(
            "FG212",
            spec,
            next(iter(shapes.values())).location,
            f"round body `{next(iter(shapes.values())).name}` stands in it at {len(shapes)} different "
            f"shapes (more than {thresholds.zone_shapes}): each is lowered and compiled on its own",
            fix="ride a fixed-width buffer with a masked tail, so that a lax.scan repeats one body; or "
            "make the round an @island under an eager driver; or hoist what keeps its shape (the "
            "transcript) out of the rounds",
            evidence={"shapes": len(shapes), "round_body": next(iter(shapes.values())).name},
        )
        for shapes in groups.values()
        if len(shapes) > thresholds.zone_shapes
    ]
