"""FG209: donations that free nothing. Pure: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fusegate.judge.wording import call_text, finding, listed
from fusegate.rules import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec
    from fusegate.observe.donation import Donations
    from fusegate.observe.program import Program


def check_donation(spec: Spec, facts: Donations, location: Location | None) -> list[Finding]:
    """FG209: donated buffers that no result can take over.

    Args:
        spec: The boundary.
        facts: Its donated inputs.
        location: The user line that calls it.
    """
    lost = [one for one in facts.inputs if not one.usable]
    if not lost:
        return []
    shown = listed(
        f"`{one.path}` {one.shape}" + ("" if one.read else ", which is never read") for one in lost
    )
    results = listed(dict.fromkeys(facts.results)) or "no array"
    return [
        finding(
            "FG209",
            spec,
            location,
            f"donates buffers that nothing can reuse: {shown}; its results are {results}",
            fix="donate only what a result of the same shape and dtype replaces, and each such result "
            "once; leave the others out of donate_argnums",
            evidence={"unused": [f"{one.path} {one.shape}" for one in lost]},
        )
    ]


def check_host_donation(
    spec: Spec, paths: Sequence[str], location: Location | None
) -> list[Finding]:
    """FG209: a numpy array was donated; what is freed is the copy that the call itself uploaded.

    Args:
        spec: The boundary.
        paths: The user's paths of the donated arguments that are numpy arrays.
        location: The user line that calls it.
    """
    if not paths:
        return []
    shown = listed(f"`{path}`" for path in paths)
    return [
        finding(
            "FG209",
            spec,
            location,
            f"donates a numpy array: {shown}; the caller's array stays, and is uploaded on every call",
            fix="put the array on the device once (jax.device_put) and donate that, or do not donate it",
            evidence={"numpy": list(paths)},
        )
    ]


def check_nested_donation(spec: Spec, facts: Program) -> list[Finding]:
    """FG209: donations of jits called inside the program, which the runtime ignores without a word.

    What an installed package donates is an advice: its jit is written for eager callers as well.
    """
    calls = [call for call in facts.calls if call.donates and call.owner != "library"]
    findings: list[Finding] = []
    for severity, owners in (
        (Severity.ERROR, [call for call in calls if call.owner == "user"]),
        (Severity.ADVICE, [call for call in calls if call.owner == "dependency"]),
    ):
        if owners:
            found = finding(
                "FG209",
                spec,
                owners[0].location,
                f"a nested jit asks for donated buffers and gets none: {listed(map(call_text, owners))}",
                fix="donate at the outermost boundary, the only one whose arguments are buffers; inside "
                "one program XLA reuses what is dead",
                evidence={"calls": sum(call.count for call in owners)},
            )
            findings.append(replace(found, severity=severity))
    return findings
