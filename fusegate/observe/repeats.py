"""Lines whose equations repeat: what a Python loop leaves behind in a traced program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusegate.observe.program import Repeat
from fusegate.runtime import jaxprs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fusegate.errors import Location

MIN_TIMES: Final = 32
"""How often a pattern comes before it is a repeat: some twenty layers, or a round per variable of a
sumcheck, are what a straight line is for."""
MIN_EQUATIONS: Final = 2 * MIN_TIMES
"""Equations below which no program and no line is looked at."""
SHOWN: Final = 12
"""Equations of a pattern that are kept to be shown."""


def find(
    equations: Sequence[Any],
    marker_of: Callable[[Any], str | None],
    line_of: Callable[[Any], Location | None],
) -> list[Repeat]:
    """Finds the lines of one program whose equations repeat.

    A loop that Python ran at trace time leaves equal stacks, one per round, and equal equations on equal
    shapes. Linear: stacks are counted, and only those that repeat are resolved to a line.

    Args:
        equations: The equations of one program.
        marker_of: Marker of the melted round body that an equation belongs to. Within one call of a
            round body an equation counts once: its straight line is what its contract asks for.
        line_of: The line of a stack that its author can change.
    """
    if len(equations) < MIN_EQUATIONS:
        return []
    by_stack: dict[Any, list[Any]] = {}
    seen: set[tuple[Any, str]] = set()
    for equation in equations:
        stack = jaxprs.stack_of(equation)
        if stack is None:
            continue
        marker = marker_of(equation)
        if marker is not None:
            if (stack, marker) in seen:
                continue
            seen.add((stack, marker))
        by_stack.setdefault(stack, []).append(equation)
    by_line: dict[Location, list[list[Any]]] = {}
    for stack, members in by_stack.items():
        if len(members) >= MIN_TIMES:
            line = line_of(stack)
            if line is not None:
                by_line.setdefault(line, []).append(members)
    found = [
        repeat
        for line, groups in by_line.items()
        if sum(map(len, groups)) >= MIN_EQUATIONS and (repeat := _pattern(line, groups)) is not None
    ]
    return sorted(found, key=lambda repeat: -repeat.equations)


def _pattern(line: Location, groups: list[list[Any]]) -> Repeat | None:
    """The equations of one line that come again on equal shapes, one entry per place in the line."""
    total = 0
    times: list[int] = []
    pattern: list[str] = []
    for members in groups:
        shapes: dict[Any, list[Any]] = {}
        for equation in members:
            result = equation.outvars[0] if equation.outvars else None
            shapes.setdefault((equation.primitive.name, jaxprs.shape_key(result)), []).append(
                result
            )
        for (name, _), results in shapes.items():
            if len(results) >= MIN_TIMES:
                total += len(results)
                times.append(len(results))
                pattern.append(f"{name} {jaxprs.shape_text(results[0])}".strip())
    return Repeat(line, total, min(times), tuple(pattern[:SHOWN])) if times else None
