"""FG203-FG208 and FG212: whether a traced program keeps what its boundary declares.

Pure: facts in, findings out. A round body is judged by its contract, wherever it stands: as a boundary
of its own, or melted into a zone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusegate.config import Thresholds
from fusegate.errors import Finding, Location
from fusegate.judge import spelling
from fusegate.ledger import Spec
from fusegate.observe.program import NestedCall, Program, Region, Site, contract_of
from fusegate.rules import Severity

ROUND_BODY = "round body"
"""The role whose contract is about fusion."""
SHOWN = 6
"""Sites that a message names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What a round body declares.

    Attributes:
        reductions: How many reductions it holds.
        allow_primitives: Primitives that it may hold although they break fusion.
    """

    reductions: int = 1
    allow_primitives: frozenset[str] = frozenset()

    def allows(self, primitive: str) -> bool:
        """Whether a primitive is allowed; `scatter_add` and `scatter-add` are one name."""
        return primitive in self.allow_primitives or (
            primitive.replace("-", "_")
            in {name.replace("-", "_") for name in self.allow_primitives}
        )


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


def check_program(
    spec: Spec,
    declared: Contract | None,
    facts: Program,
    thresholds: Thresholds,
    regions: Mapping[str, tuple[Spec, Contract]] | None = None,
    *,
    boundaries: Collection[tuple[str, int]] = (),
) -> list[Finding]:
    """Judges one traced program.

    Args:
        spec: The boundary.
        declared: Its contract where it is a round body; not looked at otherwise.
        facts: What its program holds.
        thresholds: The figures in force.
        regions: The round bodies that may be melted into it: marker -> (boundary, contract). A marker
            may carry the number of a call or leave it out.
        boundaries: (file, line) of the functions that are boundaries themselves; a call of one inside
            an island or a zone is what its author declared, so no advice is given.

    Returns:
        Errors before advice, each in the order of the codes. A line is told once, however many calls of
        a round body hold it.
    """
    findings: list[Finding] = []
    if spec.role == ROUND_BODY:
        findings += check_round_body(spec, declared or Contract(), facts.own)
    else:
        findings += _check_calls(spec, facts.own, boundaries)
    findings += _melted(facts, regions or {}, spec, boundaries)
    findings += check_callbacks(spec, facts)
    if spec.role != ROUND_BODY:
        findings += _check_repeats(spec, facts, thresholds)
    findings += _check_constants(spec, facts, thresholds)
    return sorted(findings, key=lambda found: (not found.is_error, found.code))


def check_round_body(spec: Spec, contract: Contract, region: Region) -> list[Finding]:
    """FG203, FG204 and FG205: the equations of one round body against its contract."""
    findings: list[Finding] = []
    calls = [call for call in region.calls if call.fused or call.owner != "library"]
    if calls:
        findings.append(_nested(spec, calls, Severity.ERROR))
    breakers = [site for site in region.breakers if not contract.allows(site.primitive)]
    if breakers:
        names = tuple(dict.fromkeys(site.primitive for site in breakers))
        findings.append(
            _finding(
                "FG204",
                spec,
                breakers[0].location,
                f"holds {_listed(map(_site_text, breakers))}; a round body is element-wise and "
                "structural equations plus its reductions",
                fix=spelling.of_breakers(names),
                evidence={"primitives": _counts(breakers), "lines": _lines(breakers)},
            )
        )
    reductions = [site for site in region.reductions if not contract.allows(site.primitive)]
    total = sum(site.count for site in reductions)
    if total > contract.reductions:
        findings.append(
            _finding(
                "FG205",
                spec,
                _first_beyond(reductions, contract.reductions),
                f"reduces {total} times, reductions={contract.reductions}: "
                f"{_listed(map(_site_text, reductions))}",
                fix="stack the summands and reduce once (jnp.stack([a, b]).sum(axis=-1)), or declare "
                f"reductions={total} where each one is inherent",
                evidence={"reductions": total, "lines": _lines(reductions)},
            )
        )
    return findings


def check_callbacks(spec: Spec, facts: Program) -> list[Finding]:
    """FG206: host callbacks, wherever they stand in the program."""
    if not facts.callbacks:
        return []
    return [
        _finding(
            "FG206",
            spec,
            facts.callbacks[0].location,
            f"calls the host on every launch: {_listed(map(_site_text, facts.callbacks))}",
            fix=spelling.of_callbacks(site.primitive for site in facts.callbacks),
            evidence={"primitives": _counts(facts.callbacks), "lines": _lines(facts.callbacks)},
        )
    ]


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
        _finding(
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


def _melted(
    facts: Program,
    regions: Mapping[str, tuple[Spec, Contract]],
    zone: Spec,
    boundaries: Collection[tuple[str, int]],
) -> Iterator[Finding]:
    """Judges each call of a melted round body; what several calls share is told once."""
    told: dict[tuple[Any, ...], Finding] = {}
    for marker, region in facts.melted.items():
        known = regions.get(marker) or regions.get(contract_of(marker))
        if known is None:  # a round body that nobody registered keeps the zone's own promises
            found = _check_calls(zone, region, boundaries)
        else:
            found = check_round_body(*known, region)
        for finding in found:
            earlier = told.get(finding.key)
            told[finding.key] = replace(earlier, count=earlier.count + 1) if earlier else finding
    yield from told.values()


def _check_calls(
    spec: Spec, region: Region, boundaries: Collection[tuple[str, int]]
) -> Iterator[Finding]:
    """FG203 outside of round bodies: an error in a marker composite, else one advice."""
    inside = [call for call in region.calls if call.fused]
    if inside:
        yield _nested(spec, inside, Severity.ERROR)
    outside = [
        call
        for call in region.calls
        if not call.fused
        and call.owner == "user"
        and (call.defined is None or (call.defined.file, call.defined.line) not in boundaries)
    ]
    if outside:
        yield _nested(spec, outside, Severity.ADVICE)


def _nested(spec: Spec, calls: Sequence[NestedCall], severity: Severity) -> Finding:
    fused = sorted({call.fused for call in calls if call.fused})
    listed = _listed(_call_text(call) for call in calls)
    if severity is Severity.ADVICE:
        seen = f"calls jits of its own program: {listed}; each melts into this one program"
        fix = (
            "nothing at run time: XLA inlines the call. Drop the inner jit where it is called from "
            "boundaries only; where it is called eagerly too, make it an @island"
        )
    else:
        place = f"composite `{fused[0]}`" if fused else "one fused kernel"
        seen = f"keeps calls where {place} is meant: {listed}"
        fix = spelling.of_calls(calls)
    return _finding(
        "FG203",
        spec,
        calls[0].location,
        seen,
        fix=fix,
        evidence={"calls": sum(call.count for call in calls), "composites": fused},
        severity=severity,
    )


def _check_repeats(spec: Spec, facts: Program, thresholds: Thresholds) -> Iterator[Finding]:
    """FG207: a Python loop that was unrolled at trace time."""
    for repeat in facts.repeats:
        if repeat.equations > thresholds.unrolled_equations:
            yield _finding(
                "FG207",
                spec,
                repeat.location,
                f"{repeat.equations} equations from one line, one pattern {repeat.times} times: "
                f"{', '.join(repeat.pattern)}",
                fix=spelling.LOOPS,
                evidence={"equations": repeat.equations, "times": repeat.times},
            )


def _check_constants(spec: Spec, facts: Program, thresholds: Thresholds) -> Iterator[Finding]:
    """FG208: closed-over arrays that are baked into the program."""
    total = facts.constant_bytes
    if total <= thresholds.captured_bytes:
        return
    largest = sorted(facts.constants, key=lambda constant: -constant.nbytes)
    shown = _listed(
        f"{'device array' if constant.on_device else 'numpy array'} {constant.shape}"
        f" ({constant.nbytes:,} bytes)" + (f" at {constant.location}" if constant.location else "")
        for constant in largest
    )
    yield _finding(
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


def _finding(
    code: str,
    spec: Spec,
    location: Location | None,
    seen: str,
    *,
    fix: str,
    evidence: Mapping[str, Any],
    severity: Severity | None = None,
) -> Finding:
    return Finding(
        code,
        spec.name,
        location,
        seen,
        spec.role,
        spec.defined,
        fix=fix,
        evidence=evidence,
        severity=severity,
    )


def _first_beyond(sites: Sequence[Site], allowed: int) -> Location | None:
    """The line of the first equation beyond the allowed ones, in program order."""
    seen = 0
    for site in sites:
        seen += site.count
        if seen > allowed:
            return site.location
    return None


def _site_text(site: Site) -> str:
    times = f" x{site.count}" if site.count > 1 else ""
    return f"{site.primitive}{times}" + (f" at {site.location}" if site.location else "")


def _call_text(call: NestedCall) -> str:
    times = f" x{call.count}" if call.count > 1 else ""
    whose = "" if call.owner == "user" else f" ({call.owner})"
    return f"`{call.name}`{whose}{times}" + (f" at {call.location}" if call.location else "")


def _listed(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f", and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def _counts(sites: Iterable[Site]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for site in sites:
        counts[site.primitive] = counts.get(site.primitive, 0) + site.count
    return counts


def _lines(sites: Iterable[Site]) -> list[str]:
    return list(dict.fromkeys(str(site.location) for site in sites if site.location))
