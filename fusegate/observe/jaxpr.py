"""The one walk over a traced program that gives its facts.

Linear in the equations that were traced: a sub-program that several equations share (a cached jit, a
composite) is read once, and its summary counts once per use.
"""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fusegate import config
from fusegate.observe.constants import closed_over
from fusegate.observe.primitives import (
    BRANCHES,
    CLASSES,
    DESCENDED,
    ENTERED,
    HOST_EFFECTS,
    INDEXED,
    LOOPS,
    PLAIN,
    SITED,
    Kind,
)
from fusegate.observe.program import ClosedOver, Owner, Program, Site
from fusegate.observe.repeats import MIN_EQUATIONS, Repeats
from fusegate.observe.tally import OPAQUE, Item, Place, Scope, Summary, Tally, region, widest
from fusegate.runtime import frames, jaxprs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fusegate.errors import Location


def program_facts(program: Any, fused_regions: Iterable[str] | None = None) -> Program:
    """Returns the facts of a traced program.

    Args:
        program: The closed jaxpr of a boundary's body.
        fused_regions: Names of the marker composites; the project's settings where not given.

    Raises:
        ValueError: The project's settings are asked for and malformed.
    """
    markers = config.project().fused_regions if fused_regions is None else frozenset(fused_regions)
    with _uncollected():
        return _facts(program, _Walk(markers))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Holds back the cyclic garbage collector for the few milliseconds of a walk.

    A walk makes no cycles, and its allocations set off full collections of a heap that holds the whole
    program; they would cost more than the walk.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _facts(program: Any, walk: _Walk) -> Program:
    summary = walk.summary(program, library=False, straight=False)
    groups: dict[str | None, list[tuple[Place, Tally]]] = {}
    opaque: list[tuple[Place, Tally]] = []
    for place, tally in summary.tallies.items():
        if place.fused == OPAQUE:
            opaque.append((place, tally))
        elif place.marker is None or not place.derived:
            groups.setdefault(place.marker, []).append((place, tally))
    callbacks: Counter[tuple[str, Location | None]] = Counter()
    for tally in summary.tallies.values():
        for item, count in tally.items.items():
            if item.kind == "callback":
                callbacks[item.name, item.where] += count
    return Program(
        equations=summary.equations,
        own=region(groups.pop(None, [])),
        melted={str(marker): region(parts) for marker, parts in groups.items()},
        opaque=region(opaque),
        composites=dict(summary.composites),
        callbacks=tuple(Site(name, where, count) for (name, where), count in callbacks.items()),
        constants=tuple(walk.constants.values()),
        repeats=tuple(sorted(summary.repeats, key=lambda repeat: -repeat.equations)),
    )


def owner_of(defined: Location | None, called: Location | None) -> Owner:
    """Whose code a nested jit is, by the file of its function, or of its caller where that is unknown."""
    place = defined
    if place is None or jaxprs.wraps_user_function(place.file):
        place = called
    if place is None or frames.is_library_file(place.file):
        return "library"
    return "dependency" if jaxprs.is_installed(place.file) else "user"


class _Walk:
    """What the readers of one program and of its sub-programs share."""

    def __init__(self, fused_regions: frozenset[str]) -> None:
        self.fused_regions = fused_regions
        self.constants: dict[int, ClosedOver] = {}
        self._summaries: dict[Any, Summary] = {}
        self._lines: dict[Any, Location | None] = {}

    def line(self, stack: Any) -> Location | None:
        """The user line of a trace-time stack, looked up once per distinct stack."""
        if stack not in self._lines:
            self._lines[stack] = jaxprs.user_line(stack)
        return self._lines[stack]

    def author_line(self, stack: Any) -> Location | None:
        """The same; None for a line of an installed package, whose loops are not the author's."""
        line = self.line(stack)
        return None if line is None or jaxprs.is_installed(line.file) else line

    def summary(self, program: Any, *, library: bool, straight: bool) -> Summary:
        """The summary of a program, made once.

        Args:
            program: The program.
            library: Whether it is a function of the runtime, whose equations are told at its call.
            straight: Whether a straight line is asked for in it, so that no loop is looked for.
        """
        key = (jaxprs.identity(program), library, straight)
        found = self._summaries.get(key)
        if found is None:
            self.constants.update(closed_over(program, self.constants, self.line))
            reader = _Reader(self, program, library=library, straight=straight)
            found = self._summaries[key] = reader.read()
        return found


class _Reader:
    """Reads one program."""

    def __init__(self, walk: _Walk, program: Any, *, library: bool, straight: bool) -> None:
        self._walk = walk
        self._equations = jaxprs.equations(program)
        self._library = library
        self._straight = straight
        self._summary = Summary(equations=len(self._equations))
        self._scopes: dict[int, tuple[Scope, Tally]] = {}
        self._static: _Static | None = None

    def read(self) -> Summary:
        """Counts every equation, and looks closer at those that are not plain arithmetic or layout."""
        repeated = Repeats() if self._looks_for_loops() else None
        scopes = self._scopes
        last: int | None = None
        for equation, name, key, stack in jaxprs.walk(self._equations):
            if key != last:
                last = key
                scope, tally = scopes.get(key) or self._scope(equation, key)
                counts, marker = tally.counts, scope.marker
            counts[name] = counts.get(name, 0) + 1
            if name not in PLAIN:
                self._note(equation, scope, tally)
            if repeated is not None:
                repeated.add(equation, stack, marker)
        if repeated is not None:
            found = repeated.found(self._walk.author_line)
            self._summary.repeats.update(dict.fromkeys(found))
        return self._summary

    def _looks_for_loops(self) -> bool:
        return not self._straight and not self._library and len(self._equations) >= MIN_EQUATIONS

    def _scope(self, equation: Any, key: int) -> tuple[Scope, Tally]:
        """Reads the name stack of an equation, once per distinct stack."""
        scope = Scope.of(equation)
        known = (scope, self._summary.tally(Place(scope.marker, scope.derived)))
        self._scopes[key] = known
        return known

    def _note(self, equation: Any, scope: Scope, tally: Tally) -> None:
        """Notes an equation that some rule may speak of, and reads what runs inside it."""
        name = equation.primitive.name
        kind = CLASSES.get(name, Kind.UNKNOWN)
        if name in INDEXED and self._known_index(equation):
            return
        # A cached library function keeps the stack of its first trace, so its equations take the line
        # of the call that is being read now.
        where = None if self._library else self._walk.line(jaxprs.stack_of(equation))
        if kind is Kind.UNKNOWN and not HOST_EFFECTS.isdisjoint(jaxprs.effects(equation)):
            kind = Kind.CALLBACK
        if kind in SITED:
            tally.add(Item(kind.value, name, where))
        if name in LOOPS:
            tally.add(Item("loop", name, where, (jaxprs.parameter(equation, "length"),)))
        if kind in ENTERED or name in DESCENDED:
            self._descend(equation, kind, scope, tally, where)

    def _descend(
        self, equation: Any, kind: Kind, scope: Scope, tally: Tally, where: Location | None
    ) -> None:
        """Takes in the programs that run as part of an equation."""
        programs = jaxprs.sub_programs(equation)
        fused = ""
        if kind is Kind.COMPOSITE:
            name = str(jaxprs.parameter(equation, "name"))
            self._summary.composites[name] += 1
            fused = name if name in self._walk.fused_regions else OPAQUE
        elif kind is Kind.CALL and programs and not jaxprs.is_inlined(equation):
            defined = jaxprs.definition(programs[0])
            donates = any(jaxprs.parameter(equation, "donated_invars") or ())
            called = str(jaxprs.parameter(equation, "name") or "jit")
            tally.add(Item("call", called, where, (owner_of(defined, where), defined, donates)))
        # Inside a composite or a round body a straight line is asked for.
        straight = self._straight or bool(fused) or scope.marker is not None
        inner = [
            self._walk.summary(program, library=jaxprs.is_library(program), straight=straight)
            for program in programs
        ]
        for child in inner:
            self._summary.equations += child.equations
            self._summary.composites.update(child.composites)
            self._summary.repeats.update(child.repeats)
        for child in [widest(inner)] if equation.primitive.name in BRANCHES else inner:
            for place, part in child.tallies.items():
                self._summary.tally(place.seen_from(scope, fused)).take_in(part, where)

    def _known_index(self, equation: Any) -> bool:
        """Whether a `dynamic_slice` or its update is a plain slice: every start index is known."""
        if self._static is None:
            self._static = _Static(self._equations)
        first = INDEXED[equation.primitive.name]
        return all(map(self._static, equation.invars[first:]))


class _Static:
    """Tells which operands of one program are known at trace time.

    jax 0.7 spells `x[-1]` as a `dynamic_slice` at a computed literal; XLA folds it to a slice.
    """

    def __init__(self, equations: Sequence[Any]) -> None:
        self._made_by = {id(out): equation for equation in equations for out in equation.outvars}

    def __call__(self, variable: Any) -> bool:
        pending = [variable]
        for _ in range(64):  # an index known at trace time is a handful of equations
            if not pending:
                return True
            operand = pending.pop()
            if not jaxprs.is_literal(operand):
                maker = self._made_by.get(id(operand))
                if maker is None:
                    return False
                pending.extend(maker.invars)
        return False
