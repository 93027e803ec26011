"""What a check can say: causes, findings, and the exceptions and warnings that carry them.

Floor 1: imports the rule catalogue only.

    FusegateError
    ├── RuntimeOrderError         jax was imported before frx
    ├── ObserverFault             an observer of fusegate failed (strict only)
    └── Violation                 a rule was broken; raised in strict
        ├── DeclarationViolation  FG1xx
        ├── TraceViolation        FG2xx
        ├── TransferViolation     FG3xx
        ├── StateViolation        FG4xx
        └── PinViolation          FG5xx
    UserWarning
    └── ViolationWarning          the same payload; issued in warn
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from fusegate.rules import RULES, Rule, Severity

CauseKind = Literal[
    "shape",
    "dtype",
    "weak_type",
    "structure",
    "leaf_type",
    "static_value",
    "meta_value",
    "meta_identity",
    "call_form",
    "sharding",
    "committed",
    "config",
    "callable",
    "cache_cleared",
    "python_scalar",
    "none",
]
"""What changed between two calls. `none`: nothing that was compared differs; the fix lists it."""


class Location(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        """`file:line`, relative to the working directory where the file is below it."""
        path = Path(self.file)
        try:
            shown = path.relative_to(Path.cwd())
        except (ValueError, OSError):
            shown = path
        return f"{os.fspath(shown)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something happened again: the difference from the nearest earlier signature.

    Attributes:
        kind: Which of the fifteen kinds of difference it is.
        path: Where, in the user's argument names: `state.perm`, `kwargs['k']`, `xs[2]`. Empty where the
            difference has no place among the arguments.
        before: The earlier side; shapes, dtypes, types and small static atoms, never array values.
        after: The later side.
        fix: What to do about this very difference.
    """

    kind: CauseKind
    path: str = ""
    before: str = ""
    after: str = ""
    fix: str = ""

    def __str__(self) -> str:
        place = f"`{self.path}` " if self.path else ""
        change = f"{self.before} -> {self.after}" if self.before or self.after else ""
        text = f"{place}{change}".strip()
        return f"{text} ({self.kind})" if text else self.kind


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule: the payload of the exception, the warning, the log line and the report row.

    Attributes:
        code: Code of the rule.
        boundary: Name of the boundary, driver or state class that it is about.
        location: The user line that caused it.
        seen: What was observed against what was promised, in one line.
        role: What `boundary` is: `island`, `single zone`, `round body`, `driver`, `state`.
        defined: Where the boundary is defined.
        cause: What changed, where the rule is about a change.
        fix: What to do.
        evidence: Further figures by name; shapes, counts and names, never array values.
        severity: `error` or `advice`; the rule's own where not given.
        count: How often it was found.
    """

    code: str
    boundary: str
    location: Location | None
    seen: str
    role: str = "boundary"
    defined: Location | None = None
    cause: Cause | None = None
    fix: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    count: int = 1

    @property
    def rule(self) -> Rule:
        """The rule's row in the catalogue."""
        return RULES[self.code]

    @property
    def slug(self) -> str:
        """The rule's slug."""
        return self.rule.slug

    @property
    def is_error(self) -> bool:
        """Whether it raises in strict and warns in warn."""
        return (self.severity or self.rule.severity) is Severity.ERROR

    @property
    def remedy(self) -> str:
        """The most specific way out that is known."""
        return self.fix or (self.cause.fix if self.cause else "") or self.rule.remedy

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two findings the same one, told once and then counted."""
        kind, path = (self.cause.kind, self.cause.path) if self.cause else ("", "")
        place = (self.location.file, self.location.line) if self.location else ()
        return (self.code, self.boundary, kind, path, place)

    def __str__(self) -> str:
        """The message: rule, who and where, what was seen, what changed, what to do."""
        where = f" ({self.defined})" if self.defined else ""
        at = f", at {self.location}" if self.location else ""
        lines = [f"{self.code} {self.slug}: {self.role} `{self.boundary}`{where}{at}"]
        lines.append(f"  seen:    {self.seen}")
        if self.cause is not None and self.cause.kind != "none":
            lines.append(f"  changed: {self.cause}")
        lines.append(f"  fix:     {self.remedy}")
        lines.append(f"  more:    fusegate explain {self.code}")
        return "\n".join(lines)


class FusegateError(Exception):
    """Base class of everything that fusegate raises on its own account, misuse apart."""


class RuntimeOrderError(FusegateError, ValueError):
    """`jax` was imported before `frx`, so neither works: FRX aliases the name `jax` to itself."""


class ObserverFault(FusegateError):
    """An observer of fusegate itself failed.

    Raised in strict only, so that a check that is not running is never taken for one that passed. In
    warn the fault is logged once, the observer is switched off and the report says "not observed".
    """


class _Payload:
    """The attributes shared by `Violation` and `ViolationWarning`."""

    finding: Finding

    @property
    def code(self) -> str:
        """Code of the rule, `FG201`."""
        return self.finding.code

    @property
    def slug(self) -> str:
        """Slug of the rule, `retrace`."""
        return self.finding.slug

    @property
    def boundary(self) -> str:
        """Name of the boundary, driver or state class."""
        return self.finding.boundary

    @property
    def location(self) -> Location | None:
        """The user line that caused it."""
        return self.finding.location

    @property
    def cause(self) -> Cause | None:
        """What changed, where the rule is about a change."""
        return self.finding.cause

    @property
    def fix(self) -> str:
        """What to do."""
        return self.finding.remedy

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Further figures by name."""
        return self.finding.evidence


class Violation(_Payload, FusegateError):
    """A declared boundary was broken. Raised in strict mode.

    Attributes:
        finding: The whole payload; `.code .slug .boundary .location .cause .fix .evidence` read from it.
    """

    def __init__(self, finding: Finding) -> None:
        # Not super(): a violation that is a runtime's own error as well (see `violation`) must not run
        # that class's constructor, which wants a tracer.
        Exception.__init__(self, str(finding))
        self.finding = finding

    def __str__(self) -> str:
        # Not inherited: a runtime error that a violation is as well may have a text of its own.
        return str(self.finding)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by payload, so that a violation crosses process borders."""
        return (violation, (self.finding,))


class DeclarationViolation(Violation):
    """A declaration that cannot be kept (FG1xx)."""


class TraceViolation(Violation):
    """Something in a trace, a compile or a program (FG2xx)."""


class TransferViolation(Violation):
    """A host transfer or an eager dispatch in a driver (FG3xx)."""


class StateViolation(Violation):
    """A state that cannot be compared by value, or that drifts (FG4xx)."""


class PinViolation(Violation):
    """A pinned figure that moved (FG5xx)."""


class ViolationWarning(_Payload, UserWarning):
    """A declared boundary was broken, in warn mode: the program runs on.

    Issued once per boundary, rule and cause; the report counts the rest. To make it an exception, run in
    strict mode rather than through a warning filter: strict raises before the program runs.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by payload."""
        return (ViolationWarning, (self.finding,))


_FAMILY_CLASS: Final[dict[str, type[Violation]]] = {
    "1": DeclarationViolation,
    "2": TraceViolation,
    "3": TransferViolation,
    "4": StateViolation,
    "5": PinViolation,
}


def violation(finding: Finding, also: type[BaseException] | None = None) -> Violation:
    """Builds the exception of a finding.

    Args:
        finding: The payload.
        also: An exception class that the result is an instance of as well, so that a program's own
            `except` clause for the runtime's error still catches it. Left out where the two classes
            cannot be combined.

    Returns:
        An instance of the family's subclass of `Violation`.
    """
    family = _FAMILY_CLASS[finding.code[2]]
    if also is not None and not issubclass(family, also):
        try:
            family = type(family.__name__, (family, also), {"__module__": family.__module__})
        except TypeError:  # layouts that cannot be combined
            return family(finding)
    return family(finding)


for _class in (FusegateError, RuntimeOrderError, ObserverFault, Violation, ViolationWarning):
    _class.__module__ = "fusegate"
for _class in _FAMILY_CLASS.values():
    _class.__module__ = "fusegate"
