"""A report as plain data: what `--json` writes and the pytest plugin sends between processes.

The version counts changes that a reader notices: a key that goes, or means something else. New keys
do not change it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fusegate.errors import Cause, Finding, Location
    from fusegate.report.model import Allowed, DriverStats, Report, Stats

SCHEMA: Final = "fusegate.report/1"
"""Name and version of the schema."""


def report_data(report: Report) -> dict[str, Any]:
    """Returns a report as data that JSON can hold.

    Args:
        report: The report.
    """
    return {
        "schema": SCHEMA,
        "clean": report.clean,
        "boundaries": {name: stats_data(one) for name, one in report.boundaries.items()},
        "violations": [finding_data(one) for one in report.violations],
        "drivers": {name: _driver_data(one) for name, one in report.drivers.items()},
        "not_observed": dict(report.not_observed),
        "allowed": [_allowed_data(one) for one in report.allowed],
        "unused_allows": [_allowed_data(one) for one in report.unused_allows],
        "dropped": report.dropped,
    }


def stats_data(stats: Stats) -> dict[str, Any]:
    """Returns the figures of one boundary as data; signatures by their text."""
    data = {field.name: getattr(stats, field.name) for field in fields(stats)}
    data["defined"] = location_data(stats.defined)
    data["keys"] = [str(key) for key in stats.keys]
    data["causes"] = [_cause_data(cause) for cause in stats.causes]
    return data


def finding_data(finding: Finding) -> dict[str, Any]:
    """Returns one finding as data: its attributes, and the message as it was told."""
    return {
        "code": finding.code,
        "slug": finding.slug,
        "severity": "error" if finding.is_error else "advice",
        "boundary": finding.boundary,
        "role": finding.role,
        "defined": location_data(finding.defined),
        "location": location_data(finding.location),
        "seen": finding.seen,
        "cause": _cause_data(finding.cause) if finding.cause else None,
        "fix": finding.remedy,
        "evidence": {str(name): _plain(value) for name, value in finding.evidence.items()},
        "count": finding.count,
        "message": str(finding),
    }


def location_data(location: Location | None) -> dict[str, Any] | None:
    """Returns a line of the user's program as data."""
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "function": location.function}


def dumps(data: dict[str, Any], indent: int | None = 2) -> str:
    """Returns data as JSON text that every reader accepts: ASCII, no NaN.

    Args:
        data: As of `report_data`.
        indent: Spaces per level; None for one line.
    """
    return json.dumps(data, indent=indent, allow_nan=False)


def _cause_data(cause: Cause) -> dict[str, str]:
    return {field.name: getattr(cause, field.name) for field in fields(cause)}


def _driver_data(driver: DriverStats) -> dict[str, Any]:
    data = {field.name: getattr(driver, field.name) for field in fields(driver)}
    data["defined"] = location_data(driver.defined)
    data["host_ops"] = dict(driver.host_ops)
    data["jits"] = dict(driver.jits)
    return data


def _allowed_data(allowed: Allowed) -> dict[str, Any]:
    data = {field.name: getattr(allowed, field.name) for field in fields(allowed)}
    data["location"] = location_data(allowed.location)
    return data


def _plain(value: Any) -> Any:
    """A figure of the evidence as JSON holds it; whatever is not a figure, by its text.

    Containers are taken apart by exact type only, so that a user's object is never iterated.
    """
    if value is None or type(value) in {bool, int, str}:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if type(value) in {list, tuple, set, frozenset}:
        return [_plain(one) for one in value]
    return str(value)
