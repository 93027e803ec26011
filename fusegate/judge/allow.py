"""Scoped opt-outs: `with allow("FG302", reason="...")`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from fusegate import ledger
from fusegate.errors import Finding
from fusegate.rules import lookup
from fusegate.runtime.frames import user_location


@dataclass(slots=True)
class _Scope:
    codes: frozenset[str]
    reason: str
    used: dict[str, int] = field(default_factory=dict)


_scopes: ContextVar[tuple[_Scope, ...]] = ContextVar("fusegate_allow", default=())


@contextmanager
def allow(*codes: str, reason: str) -> Iterator[None]:
    """Lets findings of the given rules pass inside a `with` block, in this thread or task only.

    They are counted in the report under the reason. An opt-out that nothing used is reported too, so
    that it can be removed.

    Args:
        codes: Codes or slugs of rules: `"FG302"`, `"retrace"`.
        reason: Why this is meant; shown in the report.

    Raises:
        ValueError: No rule is named, a code is unknown, or the reason is empty.

    Example:
        >>> import fusegate
        >>> with fusegate.allow("FG201", reason="a new batch size once a day"):
        ...     pass
    """
    if not codes:
        raise ValueError("allow() needs the code of at least one rule")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("allow() needs a reason; it is shown in the report")
    scope = _Scope(frozenset(lookup(code).code for code in codes), reason)
    # Two frames up: this generator runs inside contextlib's __enter__, called from the user's line.
    where = user_location(sys._getframe(1))
    token = _scopes.set((*_scopes.get(), scope))
    try:
        yield
    finally:
        _scopes.reset(token)
        for code in sorted(scope.codes - set(scope.used)):
            ledger.current().add_unused_allow(code, reason, where)


def allowed(finding: Finding) -> bool:
    """Whether an enclosing `with allow()` covers a finding; counts the use."""
    for scope in reversed(_scopes.get()):
        if finding.code in scope.codes:
            scope.used[finding.code] = scope.used.get(finding.code, 0) + finding.count
            ledger.current().add_allowed(finding, scope.reason)
            return True
    return False
