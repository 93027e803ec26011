"""From what the ledger holds to what people and programs read: values, text, JSON, HTML."""

from __future__ import annotations

from fusegate.report.model import Allowed, DriverStats, Report, Stats, report, stats

__all__ = ["Allowed", "DriverStats", "Report", "Stats", "report", "stats"]
