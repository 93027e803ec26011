"""The one walk over a traced program that gives its facts.

Linear in the equations that were traced: a sub-program that several equations share (a cached jit, a
composite) is read once, and its summary counts once per use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fusegate import config
from fusegate.errors import Location
from fusegate.observe import repeats
from fusegate.observe.primitives import (
    BRANCHES,
    CLASSES,
    DESCENDED,
    HOST_EFFECTS,
    INDEXED,
    LOOPS,
    Kind,
)
from fusegate.observe.program import ClosedOver, Owner, Program, Site
from fusegate.observe.tally import OPAQUE, Item, Place, Scope, Summary, Tally, region, widest
from fusegate.runtime import frames, jaxprs

LOCATED_BYTES: Final = 64 * 1024
"""Constants of a program below which nobody looks for the line that uses them."""


def program_facts(program: Any, fused_regions: Iterable[str] | None = None) -> Program:
    """Returns the facts of a traced program.

    Args:
        program: The closed jaxpr of a boundary's body.
        fused_regions: Names of the marker composites; the project's settings where not given.

    Raises:
        ValueError: The project's settings are asked for and malformed.
    """
    markers = config.project().fused_regions if fused_regions is None else frozenset(fused_regions)
    walk = _Walk(markers)
    summary = walk.summary(program, library=False)
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
    return (
        "dependency" if "site-packages" in place.file or "dist-packages" in place.file else "user"
    )


class _Walk:
    def __init__(self, fused_regions: frozenset[str]) -> None:
        self.constants: dict[int, ClosedOver] = {}
        self._fused = fused_regions
        self._summaries: dict[Any, Summary] = {}
        self._lines: dict[Any, Location | None] = {}

    def line(self, stack: Any) -> Location | None:
        """The user line of a trace-time stack, looked up once per distinct stack."""
        if stack not in self._lines:
            self._lines[stack] = jaxprs.user_line(stack)
        return self._lines[stack]

    def summary(self, program: Any, *, library: bool) -> Summary:
        key = (jaxprs.identity(program), library)
        found = self._summaries.get(key)
        if found is None:
            found = self._summaries[key] = self._read(program, library=library)
        return found

    def _read(self, program: Any, *, library: bool) -> Summary:
        summary = Summary()
        scopes: dict[int, tuple[Scope, Tally]] = {}
        equations = jaxprs.equations(program)
        self._note_constants(program)
        static: _Static | None = None
        for equation in equations:
            stack = equation.source_info.name_stack
            known = scopes.get(id(stack))
            if known is None:
                scope = Scope.of(stack)
                known = (scope, summary.tally(Place(scope.marker, scope.derived)))
                scopes[id(stack)] = known
            scope, tally = known
            name = equation.primitive.name
            tally.counts[name] += 1
            kind = CLASSES.get(name, Kind.UNKNOWN)
            if kind is Kind.ELEMENTWISE or kind is Kind.STRUCTURAL:
                continue
            # A cached library function keeps the stack of its first trace, so its equations take the
            # line of the call that is being read now.
            where = None if library else self.line(equation.source_info.traceback)
            if kind is Kind.UNKNOWN and not HOST_EFFECTS.isdisjoint(jaxprs.effects(equation)):
                kind = Kind.CALLBACK
            if name in INDEXED:
                static = static or _Static(equations)
                if all(map(static, equation.invars[INDEXED[name] :])):
                    continue
            self._special(summary, tally, equation, kind, where, scope)
        summary.equations += len(equations)
        if not library:
            found = repeats.find(
                equations, lambda e: scopes[id(e.source_info.name_stack)][0].marker, self.line
            )
            summary.repeats.update(dict.fromkeys(found))
        return summary

    def _special(
        self,
        summary: Summary,
        tally: Tally,
        equation: Any,
        kind: Kind,
        where: Location | None,
        scope: Scope,
    ) -> None:
        """Notes an equation that is neither element-wise nor structural, and what runs inside it."""
        name = equation.primitive.name
        if kind in {Kind.REDUCTION, Kind.BREAKER, Kind.CALLBACK, Kind.UNKNOWN}:
            tally.add(Item(kind.value, name, where))
        if name in LOOPS:
            tally.add(Item("loop", name, where, (jaxprs.parameter(equation, "length"),)))
        fused = ""
        if kind is Kind.COMPOSITE:
            composite = str(jaxprs.parameter(equation, "name"))
            summary.composites[composite] += 1
            fused = composite if composite in self._fused else OPAQUE
        if kind in {Kind.REDUCTION, Kind.CALLBACK} or (
            kind is Kind.BREAKER and name not in DESCENDED
        ):
            return
        programs = list(jaxprs.sub_programs(equation))
        if kind is Kind.CALL and programs:
            defined = jaxprs.definition(programs[0])
            called = str(jaxprs.parameter(equation, "name") or "jit")
            donates = any(jaxprs.parameter(equation, "donated_invars") or ())
            more = (owner_of(defined, where), defined, donates)
            tally.add(Item("call", called, where, more))
        inner = [self.summary(program, library=_is_library(program)) for program in programs]
        for child in inner:
            summary.equations += child.equations
            for composite, count in child.composites.items():
                summary.composites[composite] += count
            # Inside a composite or a round body a straight line is asked for.
            if not fused and scope.marker is None:
                summary.repeats.update(child.repeats)
        if name in BRANCHES:
            inner = [widest(inner)]
        for child in inner:
            for place, part in child.tallies.items():
                summary.tally(place.seen_from(scope, fused)).take_in(part, where)

    def _note_constants(self, program: Any) -> None:
        """Records what a program closes over, with the first line that uses a large array."""
        fresh = [c for c in jaxprs.constants(program) if c.handle not in self.constants]
        if not fresh:
            return
        wanted: set[int] = set()
        if sum(constant.nbytes for constant in fresh) >= LOCATED_BYTES:
            wanted = {id(constant.variable) for constant in fresh}
        users: dict[int, Any] = {}
        for equation in jaxprs.equations(program) if wanted else ():
            for variable in equation.invars:
                if id(variable) in wanted:
                    wanted.discard(id(variable))
                    users[id(variable)] = equation.source_info.traceback
            if not wanted:
                break
        for constant in fresh:
            stack = users.get(id(constant.variable))
            shape = f"{constant.dtype}[{','.join(map(str, constant.shape))}]"
            line = self.line(stack) if stack is not None else None
            self.constants[constant.handle] = ClosedOver(
                shape, constant.nbytes, constant.on_device, line
            )


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


def _is_library(program: Any) -> bool:
    defined = jaxprs.definition(program)
    return (
        defined is not None
        and frames.is_library_file(defined.file)
        and not jaxprs.wraps_user_function(defined.file)
    )
