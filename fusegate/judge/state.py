"""FG401 to FG405: metadata that has no value, data that is no array, states that drift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fusegate.errors import Cause, CauseKind, Finding, Location
from fusegate.ledger import Spec
from fusegate.observe.drift import LeafType, StateFacts
from fusegate.rules import Severity


@dataclass(frozen=True, slots=True)
class ValueFact:
    """One part of a static value that no jit can key by value.

    Attributes:
        kind: `identity`, `mutable` or `array`; `loose` where only equal values of another type or sign
            are taken for it.
        path: Field or argument, and the part inside it: `tree.hasher`.
        what: Class or function name of the part.
        reason: In words, to follow `what`.
        fix: What to do about it.
    """

    kind: Literal["identity", "mutable", "array", "loose"]
    path: str
    what: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class DataFact:
    """One leaf of the data of a state that is being constructed.

    Attributes:
        path: Field, and the part inside it.
        kind: `array`; `integer` or `number`, a bare Python number; `unfit`, what no jit takes; `other`,
            what stands for an array (a type, a sharding, None).
        what: Class name.
    """

    path: str
    kind: Literal["array", "integer", "number", "unfit", "other"]
    what: str


@dataclass(frozen=True, slots=True)
class Owner:
    """What a finding about a value is about: a state class, a boundary, a `bind`."""

    name: str
    role: str
    defined: Location | None = None


_CODES: Final = {"identity": "FG401", "mutable": "FG402", "array": "FG403", "loose": "FG401"}
_KINDS: Final[dict[str, CauseKind]] = {
    "identity": "meta_identity",
    "mutable": "meta_value",
    "array": "meta_value",
    "loose": "static_value",
}
_COSTS: Final = {
    "identity": "every new one is a new program: a trace and a compile per call",
    "mutable": "after a change, the program of the old value would run",
    "array": "a comparison of arrays is no key: it fails, or reads the device at every call",
    "loose": "a program traced for one would be served for the other",
}


def check_values(
    owner: Owner, facts: Iterable[ValueFact], location: Location | None, *, noun: str = "metadata"
) -> list[Finding]:
    """FG401, FG402 and FG403: values that a jit cannot key by value.

    Args:
        owner: The state class, the boundary or the `bind` that holds them.
        facts: What was found about its values.
        location: The user line that gave them.
        noun: What the values are: `metadata`, `static argument`, `bound value`.

    Returns:
        One finding per fact, in order.
    """
    found = []
    for fact in facts:
        seen = f"{noun} `{owner.name}.{fact.path}` is {fact.what}, which {fact.reason}; {_COSTS[fact.kind]}"
        kind = _KINDS[fact.kind]
        if noun == "static argument" and kind == "meta_value":
            kind = "static_value"
        cause = Cause(kind, fact.path, fix=fact.fix)
        found.append(
            Finding(_CODES[fact.kind], owner.name, location, seen, owner.role, owner.defined, cause)
        )
    return found


_UNFIT_FIX: Final = "mark the field fusegate.meta(): it is then part of the key, compared by value"
_NUMBER_FIX: Final = "pass an array of a fixed dtype, jnp.float32(x), or mark the field fusegate.meta() if it never changes"


def check_data(owner: Owner, facts: Sequence[DataFact], location: Location | None) -> list[Finding]:
    """FG404: data leaves that no jit takes, and bare Python numbers (advice).

    Speaks only of a state that holds an array as well. One without is a specification in the shape of a
    state (`in_axes`, labels, shardings, restore arguments), which never meets a jit.

    Args:
        owner: The state class.
        facts: All data leaves of one instance.
        location: The user line that constructs it.

    Returns:
        One finding per offending leaf, in order.
    """
    is_specification = not any(fact.kind == "array" for fact in facts)
    found = []
    for fact in facts:
        if fact.kind == "unfit" and not is_specification:
            seen = f"data field `{owner.name}.{fact.path}` holds {fact.what}, which no jit takes for an array"
            cause = Cause("leaf_type", fact.path, fix=_UNFIT_FIX)
            severity = Severity.ERROR
        elif fact.kind == "number" or (fact.kind == "integer" and not is_specification):
            seen = (
                f"data field `{owner.name}.{fact.path}` holds a bare Python {fact.what}: it arrives "
                "weak-typed, and leaves with another type after the first operation"
            )
            cause = Cause("python_scalar", fact.path, fix=_NUMBER_FIX)
            severity = Severity.ADVICE
        else:
            continue
        found.append(
            Finding(
                "FG404",
                owner.name,
                location,
                seen,
                owner.role,
                owner.defined,
                cause,
                severity=severity,
            )
        )
    return found


def check_drift(
    spec: Spec,
    entered: Sequence[StateFacts],
    left: Sequence[StateFacts],
    max_traces_is_one: bool,
    location: Location | None,
) -> list[Finding]:
    """FG405: states that leave a traced body with another type than they entered with.

    A state is compared with the one of its class that entered. Where several entered, one that leaves
    like any of them has not drifted; where other numbers enter and leave, nothing is said.

    Args:
        spec: The boundary.
        entered: States among the arguments, from `drift_facts`.
        left: States in the result, from `states_in`.
        max_traces_is_one: Whether the boundary declares `max_traces=1`: only then do shapes and metadata
            count, since a table that halves is no drift.
        location: The user line that called the boundary.

    Returns:
        One finding per drifted state: its first difference, the weightiest kind first.
    """
    found = []
    for before, after in _pairs(entered, left):
        candidates = [state for state in entered if state.cls is after.cls]
        if any(not list(_drifts(state, after, max_traces_is_one)) for state in candidates):
            continue
        causes = list(_drifts(before, after, max_traces_is_one))
        more = f", and {len(causes) - 1} more" if len(causes) > 1 else ""
        seen = (
            f"state `{before.path}` ({before.kind}) leaves with another "
            f"{_WORDS.get(causes[0].kind, causes[0].kind)} at `{causes[0].path}`{more}: called with it again, "
            "the boundary traces and compiles anew"
        )
        found.append(
            Finding("FG405", spec.name, location, seen, spec.role, spec.defined, cause=causes[0])
        )
    return found


_WORDS: Final = {"weak_type": "weak type", "meta_value": "metadata value"}


def _pairs(
    entered: Sequence[StateFacts], left: Sequence[StateFacts]
) -> Iterator[tuple[StateFacts, StateFacts]]:
    for cls in dict.fromkeys(state.cls for state in left):
        before = [state for state in entered if state.cls is cls]
        after = [state for state in left if state.cls is cls]
        if len(before) == len(after):
            yield from zip(before, after, strict=True)


def _drifts(before: StateFacts, after: StateFacts, max_traces_is_one: bool) -> Iterator[Cause]:
    """The differences of two states of one class."""
    if before.structure != after.structure:
        yield _structure(before, after)
        return
    pairs = list(zip(before.leaves, after.leaves, strict=True))
    for old, new in pairs:
        path = before.path + old.path
        if old.dtype != new.dtype:
            fix = f"cast it back: .astype of the dtype that `{path}` entered with"
            yield Cause("dtype", path, old.text, new.text, fix)
        elif old.weak_type != new.weak_type:
            fix = "enter with an array of a fixed dtype, jnp.asarray(x, dtype), not with a Python number"
            yield Cause("weak_type", path, old.text, new.text, fix)
    if max_traces_is_one:
        if not _is_stacked(pairs):
            for old, new in pairs:
                if tuple(map(str, old.shape)) != tuple(map(str, new.shape)):
                    yield Cause("shape", before.path + old.path, old.text, new.text, _SHAPE_FIX)
        yield from _metas(before, after)


_SHAPE_FIX: Final = (
    "keep the shape, with a mask for what is no longer used, or declare the traces that the shapes cost: "
    "max_traces=lambda n: n.bit_length()"
)


def _structure(before: StateFacts, after: StateFacts) -> Cause:
    fix = "leave with the same optional fields, containers and lengths that it entered with"
    old, new = dict.fromkeys(before.structure[0]), dict.fromkeys(after.structure[0])
    for path in [*new, *old]:
        if (path in old) != (path in new):
            sides = ("a leaf" if path in old else "absent", "a leaf" if path in new else "absent")
            return Cause("structure", before.path + path, *sides, fix)
    for one, other in zip(before.structure[1], after.structure[1], strict=False):
        if one != other:
            return Cause("structure", before.path, one, other, fix)
    return Cause("structure", before.path, f"{len(old)} leaves", f"{len(new)} leaves", fix)


def _is_stacked(pairs: Sequence[tuple[LeafType, LeafType]]) -> bool:
    """Whether every leaf gained or lost the same leading axis: a batch of states, or one out of it."""

    def axis(longer: LeafType, shorter: LeafType) -> str | None:
        return str(longer.shape[0]) if longer.shape and longer.shape[1:] == shorter.shape else None

    gained = {axis(new, old) for old, new in pairs}
    lost = {axis(old, new) for old, new in pairs}
    return any(len(axes) == 1 and None not in axes for axes in (gained, lost))


def _metas(before: StateFacts, after: StateFacts) -> Iterator[Cause]:
    for (name, old), (_, new) in zip(before.metas, after.metas, strict=True):
        if old != new:
            fix = "make it a data field, or declare the values it takes with max_traces"
            yield Cause("meta_value", f"{before.path}.{name}", old, new, fix)
