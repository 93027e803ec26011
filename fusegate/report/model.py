"""The values a report is made of: frozen copies of what the ledger counted and found.

Floor 9: imports the boundaries (to tell one from any other callable) and everything below. Rendering is
in the neighbours; rich and jinja2 are imported when something is rendered, never before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from fusegate import ledger
from fusegate.errors import Cause, Finding, Location

_Entry = TypeVar("_Entry", ledger.BoundaryEntry, ledger.DriverEntry)


@dataclass(frozen=True, slots=True)
class Stats:
    """What was counted about one boundary. What could not be seen is named in `Report.not_observed`.

    Attributes:
        traces: Runs of the body under a jit trace.
        compiles: Backend compiles, hits of the persistent cache apart.
        cache_hits: Programs that the persistent cache served.
        slow_dispatches: Warm calls that missed the runtime's fast path.
        keys: Abstract signatures in the order of their first trace; `str()` of one is readable.
        causes: One cause per trace or compile after the first.
        violations: Findings of error severity, each occurrence counted.
        name: Name of the boundary.
        role: `island`, `single zone` or `round body`.
        defined: Where it is defined.
        failed_traces: Traces that raised.
        aside_traces: Traces asked for by `.lower`, `.trace`, `eval_shape` or `make_jaxpr`.
        eager_runs: Runs of the body outside a jit trace (`disable_jit`).
        melted: Runs of a round body inside the trace of a zone.
        derived_compiles: Compiles of programs made from the boundary by vmap, grad or an outer jit, and by
            `evidence` for another target.
        trace_s: Seconds spent tracing.
        lower_s: Seconds spent lowering.
        compile_s: Seconds spent compiling, or loading from the persistent cache.
    """

    traces: int = 0
    compiles: int = 0
    cache_hits: int = 0
    slow_dispatches: int = 0
    keys: tuple[Any, ...] = ()
    causes: tuple[Cause, ...] = ()
    violations: int = 0
    name: str = ""
    role: str = "boundary"
    defined: Location | None = None
    failed_traces: int = 0
    aside_traces: int = 0
    eager_runs: int = 0
    melted: int = 0
    derived_compiles: int = 0
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0

    @classmethod
    def of(
        cls, counters: ledger.Counters, *, name: str, role: str, defined: Location | None
    ) -> Stats:
        """Freezes counters.

        Args:
            counters: What was counted.
            name: Name of the boundary.
            role: What it is.
            defined: Where it is defined.
        """
        figures = {
            what: getattr(counters, what)
            for what in ledger.Counters.__dataclass_fields__
            if what in cls.__dataclass_fields__ and what not in {"keys", "causes"}
        }
        keys, causes = tuple(counters.keys), tuple(counters.causes)
        return cls(**figures, keys=keys, causes=causes, name=name, role=role, defined=defined)


@dataclass(frozen=True, slots=True)
class DriverStats:
    """What was seen inside one driver.

    Attributes:
        launches: Executables started, those of host ops included.
        eager: Those of them that neither a boundary nor another jit owns, outside a host op.
        reads: Device-to-host reads outside a host op.
        uploads: Implicit host-to-device transfers outside a host op.
        host_ops: Reason of each `with host_op()` -> how often it ran.
        name: Name of the driver.
        defined: Where it is defined.
        jits: Name of each jit that is no boundary -> its launches.
        calls: Times the driver was entered.
        observed: How many of them were observed; in warn, the first ones and then one in many.
        op_eager: Eager ops inside host ops.
        op_reads: Reads inside host ops.
        op_uploads: Implicit transfers to the device inside host ops.
    """

    launches: int = 0
    eager: int = 0
    reads: int = 0
    uploads: int = 0
    host_ops: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    defined: Location | None = None
    jits: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    observed: int = 0
    op_eager: int = 0
    op_reads: int = 0
    op_uploads: int = 0

    @classmethod
    def of(cls, entry: ledger.DriverEntry) -> DriverStats:
        """Freezes counters.

        Args:
            entry: The driver, and what was counted.
        """
        figures = {
            what: getattr(entry.counters, what)
            for what in ledger.DriverCounters.__dataclass_fields__
            if what not in {"host_ops", "jits"}
        }
        return cls(
            **figures,
            host_ops=MappingProxyType(dict(entry.counters.host_ops)),
            jits=MappingProxyType(dict(entry.counters.jits)),
            name=entry.name,
            defined=entry.defined,
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """An opt-out: `with allow()`.

    Attributes:
        code: Code of the rule.
        reason: Why, in the words of the program.
        count: How many findings it let pass; 0 where nothing used it.
        location: Where an unused one stands.
    """

    code: str
    reason: str
    count: int = 0
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything counted and found since the start or the last `reset()`.

    Attributes:
        boundaries: Name -> figures, in the order of the first event. Where two definition sites share a
            name, the second is shown as `name (file.py:12)`.
        violations: What was found, advice included, each with its `count`.
        drivers: Name of each driver -> what was seen inside it.
        not_observed: What could not be seen in this process -> why.
        allowed: Opt-outs that let something pass.
        unused_allows: Opt-outs that nothing used, so that they can be removed.
        dropped: Findings beyond the bound of the ledger: counted, not kept.
    """

    boundaries: Mapping[str, Stats] = field(default_factory=dict)
    violations: tuple[Finding, ...] = ()
    drivers: Mapping[str, DriverStats] = field(default_factory=dict)
    not_observed: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[Allowed, ...] = ()
    unused_allows: tuple[Allowed, ...] = ()
    dropped: int = 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The violations that raise in strict: those of error severity."""
        return tuple(finding for finding in self.violations if finding.is_error)

    @property
    def clean(self) -> bool:
        """Whether nothing of error severity was found; advice does not count."""
        # The counters as well: they include what `dropped` no longer tells apart.
        return not self.errors and not any(one.violations for one in self.boundaries.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain data, as `to_json` writes it."""
        from fusegate.report import schema

        return schema.report_data(self)

    def to_json(self, indent: int | None = 2) -> str:
        """Returns the report as JSON text, with the version of its schema under `schema`.

        Args:
            indent: Spaces per level; None for one line.
        """
        from fusegate.report import schema

        return schema.dumps(self.to_dict(), indent)

    def to_text(self, width: int = 100) -> str:
        """Returns the report as plain text, without colours.

        Args:
            width: Columns that the table may take; messages are never broken.
        """
        from fusegate.report import text

        return text.plain(self, width)

    def to_html(self) -> str:
        """Returns the report as a page of HTML that needs no other file."""
        from fusegate.report import page

        return page.page(self)

    def _repr_html_(self) -> str:
        """The report as a notebook shows it."""
        from fusegate.report import page

        return page.fragment(self)

    def __str__(self) -> str:
        return self.to_text()


def report_of(snapshot: ledger.Snapshot) -> Report:
    """Builds a report.

    Args:
        snapshot: A frozen copy of a ledger.
    """
    boundaries = {
        name: Stats.of(entry.counters, name=entry.name, role=entry.role, defined=entry.defined)
        for name, entry in _distinct(snapshot.boundaries)
    }
    drivers = {name: DriverStats.of(entry) for name, entry in _distinct(snapshot.drivers)}
    not_observed = dict(snapshot.not_observed)
    for name, one in drivers.items():
        if one.observed < one.calls:
            not_observed[f"driver {name}"] = (
                f"{one.observed} of {one.calls} calls were observed; launches, reads and uploads of the others "
                "are in no figure"
            )
    return Report(
        boundaries=MappingProxyType(boundaries),
        violations=snapshot.findings,
        drivers=MappingProxyType(drivers),
        not_observed=MappingProxyType(not_observed),
        allowed=tuple(Allowed(code, reason, count) for code, reason, count in snapshot.allowed),
        unused_allows=tuple(
            Allowed(code, reason, location=where) for code, reason, where in snapshot.unused_allows
        ),
        dropped=snapshot.dropped,
    )


def _distinct(entries: tuple[_Entry, ...]) -> Iterator[tuple[str, _Entry]]:
    """Gives each entry a name of its own, the plain one wherever it is free."""
    taken: set[str] = set()
    for entry in entries:
        name = entry.name
        if name in taken and entry.defined is not None:
            name = f"{name} ({Path(entry.defined.file).name}:{entry.defined.line})"
        base, number = name, 2
        while name in taken:  # same file name and line in two folders, or two roles at one site
            name = f"{base} #{number}"
            number += 1
        taken.add(name)
        yield name, entry


def report() -> Report:
    """Returns what was counted and found since the start or the last `reset()`, over all boundaries.

    Example:
        >>> import fusegate
        >>> fusegate.reset()
        >>> fusegate.report().clean
        True
    """
    return report_of(ledger.current().snapshot())


def stats(boundary: Any) -> Stats:
    """Returns what was counted about one boundary since the start or the last `reset()`.

    Args:
        boundary: A decorated function or method.

    Raises:
        TypeError: `boundary` is not a boundary.
    """
    from fusegate.boundaries.proxy import spec_of

    spec = spec_of(boundary)
    counters = ledger.current().counters_of(spec)
    return Stats.of(counters, name=spec.name, role=spec.role, defined=spec.defined)
