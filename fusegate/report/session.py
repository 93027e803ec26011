"""The figures of a whole test session: sums over the ledgers of its tests and of its worker processes.

Bounded like the ledger: sums per boundary, and each distinct finding once with its count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fusegate import ledger
from fusegate.errors import Location
from fusegate.report import model, schema, text

SCHEMA: Final = "fusegate.pytest/1"
"""Name and version of the schema that `--fusegate-json` writes."""
SHOWN: Final = 5
"""Boundaries and findings shown in the summary; the JSON has them all."""

_SUMS: Final = (
    "traces",
    "compiles",
    "cache_hits",
    "derived_compiles",
    "slow_dispatches",
    "violations",
    "trace_s",
    "lower_s",
    "compile_s",
)


class Totals:
    """What all tests of a session did, as plain data."""

    def __init__(self) -> None:
        self.tests = 0
        self.dropped = 0
        self._boundaries: dict[str, dict[str, Any]] = {}
        self._findings: dict[str, dict[str, Any]] = {}
        self._not_observed: dict[str, str] = {}

    def add(self, snapshot: ledger.Snapshot, test: str) -> None:
        """Adds what one test did.

        Args:
            snapshot: Its ledger.
            test: Its node id.
        """
        self.tests += 1
        report = model.report_of(snapshot)
        self.dropped += report.dropped
        self._not_observed.update(report.not_observed)
        for one in report.boundaries.values():
            row = {
                "name": one.name,
                "role": one.role,
                "defined": schema.location_data(one.defined),
                "tests": 1,
                "slowest_test": test,
                "slowest_compile_s": one.compile_s,
                **{what: getattr(one, what) for what in _SUMS},
            }
            self._add_boundary(row)
        for finding in report.violations:
            self._add_finding({**schema.finding_data(finding), "tests": [test]})

    def merge(self, data: Mapping[str, Any]) -> None:
        """Adds what another process did.

        Args:
            data: As of its `data()`.
        """
        self.tests += data["tests"]
        self.dropped += data["dropped"]
        self._not_observed.update(data["not_observed"])
        for row in data["boundaries"]:
            self._add_boundary(row)
        for finding in data["violations"]:
            self._add_finding(finding)

    def data(self) -> dict[str, Any]:
        """Returns everything as data that JSON can hold, boundaries by compile time."""
        return {
            "schema": SCHEMA,
            "tests": self.tests,
            "boundaries": self._sorted(),
            "violations": list(self._findings.values()),
            "not_observed": dict(self._not_observed),
            "dropped": self.dropped,
        }

    def lines(self) -> list[str]:
        """Returns the summary; empty where no test touched a boundary."""
        if not self._boundaries and not self._findings:
            return []
        rows = self._sorted()
        total = {what: sum(row[what] for row in rows) for what in _SUMS}
        cached = f" ({total['cache_hits']} more from the cache)" if total["cache_hits"] else ""
        errors = [one for one in self._findings.values() if one["severity"] == "error"]
        parts = (
            text.amount(str(len(rows)), "boundary", "boundaries"),
            text.amount(str(total["traces"]), "trace"),
            text.amount(str(total["compiles"]), "compile") + cached,
            text.amount(str(sum(one["count"] for one in errors)), "violation"),
        )
        lines = [", ".join(parts)]
        slowest = [row for row in rows if row["compile_s"] > 0][:SHOWN]
        if slowest:
            lines.append("most compile time:")
        lines += [
            f"  {row['compile_s']:8.2f} s  {text.amount(str(row['compiles']), 'compile'):>12}  {row['name']}"
            f"{_at(row['defined'])}, most in {row['slowest_test']}"
            for row in slowest
        ]
        if errors:
            lines.append("violations:")
        lines += [
            f"  {one['count']:4}x {one['message'].splitlines()[0]}, first in {one['tests'][0]}"
            for one in errors[:SHOWN]
        ]
        if len(errors) > SHOWN:
            lines.append(f"  and {len(errors) - SHOWN} more")
        lines += [f"not observed: {what}: {why}" for what, why in self._not_observed.items()]
        return lines

    def _sorted(self) -> list[dict[str, Any]]:
        return sorted(self._boundaries.values(), key=lambda row: -row["compile_s"])

    def _add_boundary(self, row: dict[str, Any]) -> None:
        key = f"{row['name']} {row['role']}{_at(row['defined'])}"
        earlier = self._boundaries.get(key)
        if earlier is None:
            if len(self._boundaries) < ledger.MAX_BOUNDARIES:
                self._boundaries[key] = dict(row)
            return
        for what in ("tests", *_SUMS):
            earlier[what] += row[what]
        if row["slowest_compile_s"] > earlier["slowest_compile_s"]:
            for what in ("slowest_compile_s", "slowest_test"):
                earlier[what] = row[what]

    def _add_finding(self, finding: dict[str, Any]) -> None:
        key = finding["message"]
        earlier = self._findings.get(key)
        if earlier is not None:
            earlier["count"] += finding["count"]
            # Some of the tests are enough to find one.
            earlier["tests"] = list(dict.fromkeys([*earlier["tests"], *finding["tests"]]))[:SHOWN]
        elif len(self._findings) < ledger.MAX_FINDINGS:
            self._findings[key] = finding
        else:
            self.dropped += finding["count"]


def _at(defined: dict[str, Any] | None) -> str:
    return f" ({Location(defined['file'], defined['line'])})" if defined else ""
