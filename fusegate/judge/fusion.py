"""FG203, FG204, FG205, and the judgement of a whole program.

Pure: facts in, findings out. A round body is judged by its contract, wherever it stands: as a boundary
of its own, or melted into a zone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fusegate.judge import programs, spelling
from fusegate.judge.wording import call_text, counts, finding, lines, listed, site_text
from fusegate.observe.program import NestedCall, Program, Region, Site, contract_of
from fusegate.rules import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fusegate.config import Thresholds
    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec

ROUND_BODY: Final = "round body"
"""The role whose contract is about fusion."""


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
    findings += programs.check_callbacks(spec, facts)
    if spec.role != ROUND_BODY:
        findings += programs.check_repeats(spec, facts, thresholds)
    findings += programs.check_constants(spec, facts, thresholds)
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
            finding(
                "FG204",
                spec,
                breakers[0].location,
                f"holds {listed(map(site_text, breakers))}; a round body is element-wise and "
                "structural equations plus its reductions",
                fix=spelling.of_breakers(names),
                evidence={"primitives": counts(breakers), "lines": lines(breakers)},
            )
        )
    reductions = [site for site in region.reductions if not contract.allows(site.primitive)]
    total = sum(site.count for site in reductions)
    if total > contract.reductions:
        findings.append(
            finding(
                "FG205",
                spec,
                _first_beyond(reductions, contract.reductions),
                f"reduces {total} times, reductions={contract.reductions}: "
                f"{listed(map(site_text, reductions))}",
                fix="stack the summands and reduce once (jnp.stack([a, b]).sum(axis=-1)), or declare "
                f"reductions={total} where each one is inherent",
                evidence={"reductions": total, "lines": lines(reductions)},
            )
        )
    return findings


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
            found = list(_check_calls(zone, region, boundaries))
        else:
            found = check_round_body(*known, region)
        for one in found:
            earlier = told.get(one.key)
            told[one.key] = replace(earlier, count=earlier.count + 1) if earlier else one
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
    shown = listed(map(call_text, calls))
    if severity is Severity.ADVICE:
        seen = f"calls jits of its own program: {shown}; each melts into this one program"
        fix = (
            "nothing at run time: XLA inlines the call. Drop the inner jit where it is called from "
            "boundaries only; where it is called eagerly too, make it an @island"
        )
    else:
        place = f"composite `{fused[0]}`" if fused else "one fused kernel"
        seen = f"keeps calls where {place} is meant: {shown}"
        fix = spelling.of_calls(calls)
    return finding(
        "FG203",
        spec,
        calls[0].location,
        seen,
        fix=fix,
        evidence={"calls": sum(call.count for call in calls), "composites": fused},
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
