"""What the equations of a traced program are, and which user lines they come from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fusegate.errors import Location
from fusegate.evidence.gather import Subject
from fusegate.judge.moved import Origin
from fusegate.observe.jaxpr import program_facts
from fusegate.observe.program import NestedCall
from fusegate.runtime import jaxprs

Counts = Counter[tuple[Any, str]]
"""(stack, primitive) -> equations; the stack is None inside a library function, told at its call."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a traced program holds.

    Attributes:
        counts: (stack, primitive) -> equations, a shared sub-program once per use; None where the jit gives
            no traced program.
        calls: Its nested jits.
    """

    counts: Counts | None = None
    calls: tuple[NestedCall, ...] = ()

    def primitives(self) -> dict[str, int]:
        """Primitive -> equations, in the order of the names."""
        found: Counter[str] = Counter()
        for (_, primitive), count in (self.counts or {}).items():
            found[primitive] += count
        return dict(sorted(found.items()))

    def origins(self) -> tuple[Origin, ...]:
        """The user lines, the one with the most equations first."""
        lines: dict[Any, Location | None] = {}
        by_line: dict[Location, Counts] = {}
        for (stack, primitive), count in (self.counts or {}).items():
            if stack not in lines:
                lines[stack] = jaxprs.user_line(stack)
            line = lines[stack]
            if line is not None:
                by_line.setdefault(line, Counter())[stack, primitive] += count
        found = [_origin(line, part) for line, part in by_line.items()]
        return tuple(sorted(found, key=lambda one: -one.equations))


def content_of(subject: Subject) -> Content:
    """What the program of a subject holds, from the trace that an evidence of it has left in the cache."""
    trace = getattr(subject.lowerable, "trace", None)
    if not callable(trace):
        return Content()
    program = trace(*subject.args, **subject.kwargs).jaxpr
    return Content(_count(program, {}), program_facts(program).calls)


def _origin(line: Location, counts: Counts) -> Origin:
    primitives: Counter[str] = Counter()
    for (_, primitive), count in counts.items():
        primitives[primitive] += count
    # Python runs a loop at one place of its code, so its rounds leave equal stacks.
    return Origin(line, dict(primitives.most_common()), max(counts.values()))


def _count(program: Any, known: dict[Any, Counts]) -> Counts:
    """Counts each program once, however often it is used."""
    key = jaxprs.identity(program)
    if key in known:
        return known[key]
    found = known[key] = Counter()
    for equation in jaxprs.equations(program):
        stack = jaxprs.stack_of(equation)
        found[stack, equation.primitive.name] += 1
        for inner in jaxprs.sub_programs(equation):
            library = jaxprs.is_library(inner)
            for (place, primitive), count in _count(inner, known).items():
                found[stack if library or place is None else place, primitive] += count
    return found
