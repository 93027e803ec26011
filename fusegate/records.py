"""What the ledger keeps: counters, key spaces, traces and the rows of a snapshot.

Floor 4: imports the ground below it. Abstract signatures are opaque values here, so that no record knows an
array library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fusegate.errors import Cause, Finding, Location


class Spec(Protocol):
    """What the ledger needs to know of a boundary."""

    @property
    def name(self) -> str:
        """Name in reports."""

    @property
    def role(self) -> str:
        """`island`, `single zone` or `round body`."""

    @property
    def defined(self) -> Location | None:
        """Definition site."""


@dataclass(slots=True)
class Counters:
    """What was counted about one boundary.

    Attributes:
        traces: Runs of the body under a jit trace, failed ones included.
        failed_traces: Those of them that raised.
        aside_traces: Those of them asked for by `.lower`, `.trace`, `eval_shape` or `make_jaxpr`.
        eager_runs: Runs of the body outside a jit trace (`disable_jit`).
        melted: Runs of a round body inside the trace of a zone.
        compiles: Backend compiles, persistent-cache hits apart.
        cache_hits: Programs that the persistent cache served.
        derived_compiles: Compiles of programs made from the boundary by vmap, grad or an outer jit, and by
            `evidence` for another target.
        slow_dispatches: Warm calls that missed the fast path.
        trace_s: Seconds spent tracing the body.
        lower_s: Seconds spent lowering.
        compile_s: Seconds spent in the backend compiler or loading from the persistent cache.
        keys: Abstract signatures in the order of their first trace, at most `ledger.MAX_KEYS`.
        causes: One cause per trace or compile after the first, at most `ledger.MAX_CAUSES`.
        violations: Findings of error severity.
    """

    traces: int = 0
    failed_traces: int = 0
    aside_traces: int = 0
    eager_runs: int = 0
    melted: int = 0
    compiles: int = 0
    cache_hits: int = 0
    derived_compiles: int = 0
    slow_dispatches: int = 0
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    keys: list[Any] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    violations: int = 0

    def copy(self) -> Counters:
        """A snapshot that later counting leaves alone."""
        return replace(self, keys=list(self.keys), causes=list(self.causes))


@dataclass(slots=True)
class TraceEntry:
    """One finished trace.

    Attributes:
        signature: What it was keyed on.
        aside: Whether it was asked for by `.lower`, `.trace`, `eval_shape` or `make_jaxpr`.
        confirmed: Whether the runtime kept it: it went on to lower it, or is tracing around it.
    """

    signature: Any
    aside: bool = False
    confirmed: bool = False


@dataclass(slots=True)
class KeySpace:
    """The traces and compiles of one traced callable: what its next ones are compared with.

    Attributes:
        counters: What was counted about this callable.
        traced: Its finished traces, in order.
        budgeted: How many of them count against `max_traces`.
        compiled: Call signatures that were compiled, in order.
        forgiven: How many compiles were only needed because the caches were cleared.
        largest: Largest leading size seen in the first array argument.
        misses: What was passed -> warm misses of the fast path.
        epoch: Token of the runtime's caches at the last trace.
    """

    counters: Counters = field(default_factory=Counters)
    traced: list[TraceEntry] = field(default_factory=list)
    budgeted: int = 0
    compiled: list[Any] = field(default_factory=list)
    forgiven: int = 0
    largest: int = 0
    misses: dict[Any, int] = field(default_factory=dict)
    epoch: Any = None


@dataclass(frozen=True, slots=True)
class BoundaryEntry:
    """One boundary of a report: who it is and what was counted."""

    name: str
    role: str
    defined: Location | None
    counters: Counters


@dataclass(slots=True)
class DriverCounters:
    """What was seen inside one driver, in the calls that were observed.

    Attributes:
        launches: Executables started, those of host ops included.
        eager: Those of them that neither a boundary nor another jit owns, outside a host op.
        reads: Device-to-host reads outside a host op.
        uploads: Implicit host-to-device transfers outside a host op.
        host_ops: Reason of each `with host_op()` -> how often it ran, at most `ledger.MAX_CAUSES` reasons.
        jits: Name of each jit that is no boundary -> its launches, at most `ledger.MAX_CAUSES` names.
        calls: Times the driver was entered; warn observes only some of them.
        observed: How many of them were observed.
        op_eager: Eager ops inside host ops.
        op_reads: Reads inside host ops.
        op_uploads: Implicit transfers to the device inside host ops.
    """

    launches: int = 0
    eager: int = 0
    reads: int = 0
    uploads: int = 0
    host_ops: dict[str, int] = field(default_factory=dict)
    jits: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    observed: int = 0
    op_eager: int = 0
    op_reads: int = 0
    op_uploads: int = 0

    def copy(self) -> DriverCounters:
        """A snapshot that later counting leaves alone."""
        return replace(self, host_ops=dict(self.host_ops), jits=dict(self.jits))


class Unflushed(Protocol):
    """Something that has counted what the ledger does not know of yet."""

    def flush(self) -> None:
        """Counts it into the ledger."""


@dataclass(frozen=True, slots=True)
class DriverEntry:
    """One driver of a report: who it is and what was counted."""

    name: str
    defined: Location | None
    counters: DriverCounters


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A frozen copy of the ledger."""

    boundaries: tuple[BoundaryEntry, ...]
    findings: tuple[Finding, ...]
    dropped: int
    allowed: tuple[tuple[str, str, int], ...]
    unused_allows: tuple[tuple[str, str, Location | None], ...]
    not_observed: dict[str, str]
    drivers: tuple[DriverEntry, ...] = ()
