"""Facts about a compiled program: which kernels it launches, from which lines, and what memory it takes.

A launch is an instruction that the backend starts as a unit: a fusion, a dot, a sort, a copy. How many
fusions there are differs between compiler versions (some wrap single operations into one), how many launches
there are does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from fusegate.errors import Location
from fusegate.runtime import compiled, hlo

_FREE: Final = frozenset(
    {
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id",
        "replica-id", "opt-barrier", "add-dependency", "domain", "get-dimension-size",
    }
)  # fmt: skip
"""Instructions that start nothing: names, views and order."""
_FREE_ENDINGS: Final = ("-done", "-update")
"""The later halves of an asynchronous instruction, whose `-start` is the launch."""
_FLOW: Final = frozenset({"while", "conditional", "call"})
_SILENT: Final = _FREE | {"fusion", "broadcast", "copy"}
"""Instructions inside a fusion that do not say what it computes."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the table of kernels: the launches of one kind, from one line, for the same operations.

    Attributes:
        kind: What is launched: `fusion kLoop`, `dot`, `sort`, `custom-call TopK`.
        location: The user line; None where the compiler kept none. Up to jax 0.7 the line of a library
            function (`jnp.sort`) is the one that used it first at these shapes.
        ops: The operations it computes, by their names in the traced program where those are kept.
        loop: The control flow around it, outermost first: `while x5`, `conditional`.
        launches: How many such launches the program holds.
        runs: How often they run in one call, a branch at most; None where a trip count is unknown.
    """

    kind: str
    location: Location | None = None
    ops: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    launches: int = 1
    runs: int | None = 1


@dataclass(frozen=True, slots=True)
class Launches:
    """How many launches a program holds.

    Attributes:
        static: Each launch in the program once, so a loop's body and condition once, every branch.
        dynamic: Launches of one call: a loop times its trips, of a conditional the larger branch. None where
            the compiler does not know a trip count.
    """

    static: int = 0
    dynamic: int | None = 0


def count_launches(module: hlo.Module) -> Launches:
    """Counts the launches of a compiled module, without reading what is inside a kernel.

    Raises:
        MalformedProtoError: The module cannot be read.
    """
    return _Counter(module).of(module.entry)


class _Counter:
    """Counts each computation once, however often it is called."""

    def __init__(self, module: hlo.Module) -> None:
        self._module = module
        self._known: dict[int, Launches] = {}

    def of(self, computation: int) -> Launches:
        found = self._known.get(computation)
        if found is None:
            found = self._known[computation] = self._count(computation)
        return found

    def _count(self, computation: int) -> Launches:
        static = 0
        dynamic: int | None = 0
        for one in self._module.instructions(computation):
            if not _launches(one):
                continue
            if one.opcode not in _FLOW:
                static += 1
                dynamic = _sum(dynamic, 1)
                continue
            inner = [self.of(called) for called in one.called]
            static += sum(part.static for part in inner)
            counts = [part.dynamic for part in inner]
            if one.opcode == "conditional":
                known = [count for count in counts if count is not None]
                dynamic = _sum(
                    dynamic, max(known, default=0) if len(known) == len(counts) else None
                )
                continue
            once: int | None = 0
            for count in counts:
                once = _sum(once, count)
            trips = one.trip_count if one.opcode == "while" else 1
            dynamic = _sum(dynamic, None if once is None or trips is None else once * trips)
        return Launches(static, dynamic)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _launches(instruction: hlo.Instruction) -> bool:
    return instruction.opcode not in _FREE and not instruction.opcode.endswith(_FREE_ENDINGS)


def kernels_of(module: hlo.Module) -> tuple[Kernel, ...]:
    """The table of kernels of a compiled module, in the order of the program, equal ones added up.

    Raises:
        MalformedProtoError: The module cannot be read.
    """
    rows: dict[Kernel, tuple[int, int | None]] = {}
    for row, runs in _walk(module, module.entry, (), 1):
        count, total = rows.get(row, (0, 0))
        rows[row] = (count + 1, _sum(total, runs))
    return tuple(replace(row, launches=count, runs=total) for row, (count, total) in rows.items())


def _walk(
    module: hlo.Module, computation: int, loop: tuple[str, ...], runs: int | None
) -> Iterator[tuple[Kernel, int | None]]:
    for one in module.instructions(computation):
        if not _launches(one):
            continue
        if one.opcode not in _FLOW:
            yield _kernel(module, one, loop), runs
            continue
        inside, times = loop, runs
        if one.opcode == "while":
            trips = one.trip_count
            inside = (*loop, f"while x{trips}" if trips is not None else "while")
            times = None if runs is None or trips is None else runs * trips
        elif one.opcode == "conditional":
            inside = (*loop, "conditional")
        for called in one.called:
            yield from _walk(module, called, inside, times)


def _kernel(module: hlo.Module, one: hlo.Instruction, loop: tuple[str, ...]) -> Kernel:
    kind = " ".join(part for part in (one.opcode, one.fusion_kind, one.target) if part)
    place = module.location(one)
    if one.opcode != "fusion" or not one.called:
        return Kernel(kind, place, (_operation(one),), loop)
    body = module.instructions(one.called[0])
    root = module.root(one.called[0])
    if place is None and root is not None:
        place = module.location(root)
    if place is None:
        place = next(filter(None, map(module.location, body)), None)
    told = [part for part in body if part.opcode not in _SILENT]
    named = dict.fromkeys(_operation(part) for part in told or body if part.opcode not in _FREE)
    return Kernel(kind, place, tuple(named), loop)


def _operation(one: hlo.Instruction) -> str:
    """The last part of `jit(fn)/while/body/mul`; the opcode where the compiler made the instruction up."""
    return one.op_name.rpartition("/")[2] or one.opcode


@dataclass(frozen=True, slots=True)
class ProgramFigures:
    """What a budget is checked against.

    Attributes:
        launches: The launches; None where the backend shows no module.
        temp_bytes: Temporary bytes; None where the backend shows no memory plan.
    """

    launches: Launches | None
    temp_bytes: int | None


def figures_of(executable: Any) -> ProgramFigures:
    """The figures of a loaded executable.

    Raises:
        MalformedProtoError: The backend's module cannot be read.
    """
    module = compiled.module_of(executable)
    memory = compiled.memory_of(executable)
    return ProgramFigures(
        None if module is None else count_launches(module), None if memory is None else memory.temp
    )
