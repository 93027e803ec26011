"""Assertions for the suites of programs that use fusegate.

An assertion raises `AssertionError`, in every mode, and names the line of each offender. What a backend
cannot show fails an assertion about it: it never passes unseen.
"""

from __future__ import annotations

from fusegate.ledger import fresh_ledger
from fusegate.testing.boundaries import Expected, assert_single_trace, expect_violation
from fusegate.testing.fusion import assert_fusion_ready
from fusegate.testing.programs import assert_flat, assert_launches

__all__ = [
    "Expected",
    "assert_flat",
    "assert_fusion_ready",
    "assert_launches",
    "assert_single_trace",
    "expect_violation",
    "fresh_ledger",
]
