"""A boundary's program, checked between its trace and its compile.

The runtime keeps the trace, so asking it for the program costs no second trace; and a violation here ends
the call before anything is compiled, so that the next call comes here again.
"""

from __future__ import annotations

import weakref
from typing import Any

from fusegate import config
from fusegate.boundaries import filtering, melt
from fusegate.boundaries.spec import BoundarySpec
from fusegate.config import Mode
from fusegate.errors import Finding, Location
from fusegate.judge import donation, fusion
from fusegate.judge.deliver import deliver
from fusegate.judge.programs import MeltedCall, check_shapes
from fusegate.observe.donation import donated_on_host, donation_facts
from fusegate.observe.jaxpr import program_facts
from fusegate.observe.program import Program, contract_of
from fusegate.observe.signature import values_by_path
from fusegate.runtime import modules
from fusegate.runtime.frames import RuntimeCall, user_location

_boundaries: weakref.WeakSet[BoundarySpec] = weakref.WeakSet()


def register(spec: BoundarySpec) -> None:
    """Notes a boundary, so that a call of it inside another's program is known as one."""
    _boundaries.add(spec)


def check(spec: BoundarySpec, call: RuntimeCall, zone: melt.Zone | None, mode: Mode) -> None:
    """Judges the program of a call that is about to be compiled, and delivers what is found.

    Args:
        spec: The boundary.
        call: The jit call under way; its trace is done.
        zone: What melted into the trace; None where the trace came with an earlier call.
        mode: The mode that applies.

    Raises:
        Violation: The program breaks a rule, in strict.
    """
    __tracebackhide__ = True
    program = spec.attributes["jitted"].trace(*call.args, **call.kwargs).jaxpr
    location = user_location(call.frame)
    facts = program_facts(program)
    thresholds = config.thresholds()
    findings = fusion.check_program(
        spec, _contract(spec), facts, thresholds, _regions(facts), boundaries=_definitions()
    )
    findings += _donations(spec, call, program, facts, location)
    if zone is not None:
        melted = [
            MeltedCall(melt.contract_marker(one.spec), one.spec.name, one.shapes, one.location)
            for one in zone.melted
        ]
        findings += check_shapes(spec, melted, thresholds)
    # Advice first: an error ends the call, and what was seen beside it should not be lost.
    for found in sorted(findings, key=lambda one: one.is_error):
        owner = _owner_of(found, facts) or spec
        deliver(found, mode, spec, allow=spec.allow | owner.allow)


def _contract(spec: BoundarySpec) -> fusion.Contract:
    return fusion.Contract(1 if spec.reductions is None else spec.reductions, spec.allow_primitives)


def _regions(facts: Program) -> dict[str, tuple[BoundarySpec, fusion.Contract]]:
    regions = {}
    for marker in {contract_of(marker) for marker in facts.melted}:
        spec = melt.contract_of(marker)
        if spec is not None:
            regions[marker] = (spec, _contract(spec))
    return regions


def _owner_of(found: Finding, facts: Program) -> BoundarySpec | None:
    """The round body that a finding in a zone's program is about."""
    for spec, _ in _regions(facts).values():
        if (spec.name, spec.defined) == (found.boundary, found.defined):
            return spec
    return None


def _definitions() -> set[tuple[str, int]]:
    return {
        (spec.defined.file, spec.defined.line) for spec in _boundaries if spec.defined is not None
    }


def _donations(
    spec: BoundarySpec,
    call: RuntimeCall,
    program: Any,
    facts: Program,
    location: Location | None,
) -> list[Finding]:
    findings = donation.check_nested_donation(spec, facts)
    if not (spec.arguments.donated_nums or spec.arguments.donated_names):
        return findings
    leaves = _donated_leaves(spec, call)
    flags = [donated for _, _, donated in leaves]
    paths = [path for path, _, _ in leaves]
    findings += donation.check_donation(spec, donation_facts(program, flags, paths), location)
    on_host = donated_on_host([value for _, value, _ in leaves], flags)
    return findings + donation.check_host_donation(spec, [paths[i] for i in on_host], location)


def _donated_leaves(spec: BoundarySpec, call: RuntimeCall) -> list[tuple[str, Any, bool]]:
    """(path, value, donated) of each input of the program, in the order of its inputs."""
    arguments = spec.arguments
    args, kwargs = call.args, call.kwargs
    if spec.filter:
        args, kwargs = filtering.joined(spec, *call.args)[1:]
    nums = {index % len(args) if index < 0 and args else index for index in arguments.donated_nums}
    leaves: list[tuple[str, Any, bool]] = []
    for index, (name, form, is_static, value) in enumerate(arguments.named(args, kwargs)):
        if is_static:
            continue
        donated = index in nums if form == "positional" else name in arguments.donated_names
        for path, leaf in values_by_path([(name, value)]).items():
            leaves.append((path, leaf, donated))
    if spec.filter:
        is_data = modules.array_predicate()
        leaves = [leaf for leaf in leaves if is_data(leaf[1])]
        leaves.sort(
            key=lambda leaf: not leaf[2]
        )  # the partitioned call hands donated data on first
    return leaves
