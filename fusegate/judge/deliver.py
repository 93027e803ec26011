"""The consequence of a finding: the one place of fusegate that raises or warns."""

from __future__ import annotations

import logging
import sys
import warnings

from fusegate import ledger
from fusegate.config import Mode
from fusegate.errors import Finding, ViolationWarning, violation
from fusegate.judge.allow import allowed
from fusegate.runtime.frames import is_library_file

logger = logging.getLogger("fusegate")


def deliver(
    finding: Finding,
    mode: Mode,
    spec: ledger.Spec | None = None,
    *,
    also: type[BaseException] | None = None,
    allow: frozenset[str] = frozenset(),
    chained: BaseException | None = None,
) -> None:
    """Records a finding and gives it its consequence.

    An advice is recorded. An error is recorded and raised in strict; in warn the first of its kind is
    issued as a `ViolationWarning` at the user's line and logged, later ones are counted.

    Args:
        finding: What was found.
        mode: The mode that applies to its boundary; nothing happens in off.
        spec: The boundary whose counters the finding belongs to.
        also: An exception class that a raised violation is an instance of as well.
        allow: Codes that the boundary's own declaration lets pass.
        chained: The exception that the finding tells of; becomes the violation's `__cause__`.

    Raises:
        Violation: In strict, for an error that no `allow` covers.
    """
    __tracebackhide__ = True
    if mode is Mode.OFF or finding.code in allow or allowed(finding):
        return
    first = ledger.current().add_finding(finding, spec)
    if not finding.is_error:
        if first:
            logger.info("%s", finding)
        return
    if mode is Mode.STRICT:
        raise violation(finding, also) from chained
    if first:
        logger.debug("%s", finding)
        warnings.warn(ViolationWarning(finding), stacklevel=_user_stacklevel())


def _user_stacklevel() -> int:
    """The `stacklevel` that attributes a warning issued by `deliver` to the innermost user frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    return level
