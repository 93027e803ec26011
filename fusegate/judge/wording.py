"""The words of findings about a traced program: sites as `gather x2 at file:12`, lists cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusegate.errors import Finding, Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusegate.ledger import Spec
    from fusegate.observe.program import NestedCall, Site
    from fusegate.rules import Severity

SHOWN: Final = 6
"""Sites that a message names; the rest is counted."""


def finding(
    code: str,
    spec: Spec,
    location: Location | None,
    seen: str,
    *,
    fix: str,
    evidence: Mapping[str, Any],
    severity: Severity | None = None,
) -> Finding:
    """A finding about a boundary."""
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


def site_text(site: Site) -> str:
    """`gather x2 at file:12`."""
    times = f" x{site.count}" if site.count > 1 else ""
    return f"{site.primitive}{times}" + (f" at {site.location}" if site.location else "")


def call_text(call: NestedCall) -> str:
    """`square` (dependency) x2 at file:12, with the name in backquotes."""
    times = f" x{call.count}" if call.count > 1 else ""
    whose = "" if call.owner == "user" else f" ({call.owner})"
    return f"`{call.name}`{whose}{times}" + (f" at {call.location}" if call.location else "")


def listed(texts: Iterable[str]) -> str:
    """Joins texts with commas; beyond `SHOWN` they are counted."""
    every = list(texts)
    more = f", and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def counts(sites: Iterable[Site]) -> dict[str, int]:
    """Primitive -> how often."""
    found: dict[str, int] = {}
    for site in sites:
        found[site.primitive] = found.get(site.primitive, 0) + site.count
    return found


def lines(sites: Iterable[Site]) -> list[str]:
    """The lines of the sites, each once."""
    return list(dict.fromkeys(str(site.location) for site in sites if site.location))
