"""Lines whose equations repeat: what a Python loop leaves behind in a traced program."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from fusegate.observe.program import Repeat
from fusegate.runtime import jaxprs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusegate.errors import Location

MIN_TIMES: Final = 32
"""How often a pattern comes before it is a repeat: some twenty layers, or a round per variable of a
sumcheck, are what a straight line is for."""
MIN_EQUATIONS: Final = 2 * MIN_TIMES
"""Equations below which no program and no line is looked at."""
SHOWN: Final = 12
"""Equations of a pattern that are kept to be shown."""


class _Group:
    """The equations of one stack; of each call of a round body the first."""

    __slots__ = ("marker", "members", "seen")

    def __init__(self) -> None:
        self.marker: str | None = None
        self.members: list[Any] = []
        self.seen: set[str] = set()


class Repeats:
    """Collects the equations of one program and finds the lines at which they repeat.

    A loop that Python ran at trace time leaves equal stacks, one per round, and equal equations on equal
    shapes. Linear: stacks are counted, and only those that repeat are resolved to a line.
    """

    __slots__ = ("_by_stack",)

    def __init__(self) -> None:
        self._by_stack: defaultdict[Any, _Group] = defaultdict(_Group)

    def add(self, equation: Any, stack: Any, marker: str | None) -> None:
        """Takes in the next equation of the program.

        Args:
            equation: The equation.
            stack: The Python stack at which it was traced.
            marker: The melted round body that it belongs to. Within one call of a round body a stack
                counts once, since its straight line is what the contract asks for.
        """
        group = self._by_stack[stack]
        if marker is None:
            group.members.append(equation)
        elif group.marker != marker:  # most often the equations of a call stand together
            group.marker = marker
            if marker not in group.seen:
                group.seen.add(marker)
                group.members.append(equation)

    def found(self, line_of: Callable[[Any], Location | None]) -> list[Repeat]:
        """The lines whose equations repeat, the longest first.

        Args:
            line_of: The line of a stack that its author can change.
        """
        by_line: dict[Location, list[list[Any]]] = {}
        for stack, group in self._by_stack.items():
            if len(group.members) >= MIN_TIMES and stack is not None:
                line = line_of(stack)
                if line is not None:
                    by_line.setdefault(line, []).append(group.members)
        found = [
            repeat
            for line, groups in by_line.items()
            if sum(map(len, groups)) >= MIN_EQUATIONS
            and (repeat := _pattern(line, groups)) is not None
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
