"""What happens in one call of a driver: launches, reads and uploads, judged where they happen."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from fusegate import config, ledger
from fusegate.boundaries import filtering
from fusegate.config import Mode
from fusegate.errors import Finding, FusegateError, Location, ViolationWarning
from fusegate.judge import transfer as rules
from fusegate.judge.deliver import deliver
from fusegate.observe import health, launches, owners, signature
from fusegate.observe.owners import Owner
from fusegate.runtime import arrays, launch, stack, transfer, trees

LAUNCHES = "launches in drivers"
READS = "host reads in drivers"

WARN_LIMIT = 1 << 20
"""Launches of one call of a driver that are looked at in warn."""


@dataclass(frozen=True, eq=False)
class DriverSpec:
    """What a driver declares.

    Attributes:
        name: Name in messages and reports.
        defined: Definition site: the function, or the `with` line.
        module: Module of the function, matched against the project's mode patterns.
        max_eager: Eager launches allowed in one call.
        max_reads: Device-to-host reads allowed in one call.
        allow: Codes that the declaration lets pass.
        declared_mode: The driver's own mode.
    """

    name: str
    defined: Location | None
    module: str
    max_eager: int = 0
    max_reads: int = 0
    allow: frozenset[str] = frozenset()
    declared_mode: Mode | None = None
    role: str = "driver"

    def mode(self) -> Mode:
        """The mode that applies to this driver now."""
        return config.resolve(self.declared_mode, self.module)


class DriverScope(launches.Scope):
    """One observed call of a driver, or one host op in it.

    Attributes:
        spec: The driver.
        items: Launches of one boundary in a row that are too many, where they are independent.
        mode: The mode that applied when it was entered.
        reason: Why the host op is meant; empty outside of one.
        counts: What was counted in the whole call, shared with its host ops.
        hooked: Whether it takes part in the observation of launches.
    """

    def __init__(
        self,
        spec: DriverSpec,
        mode: Mode,
        frame: FrameType | None,
        *,
        bound: bool,
        items: int,
        within: DriverScope | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(transfer.array_type(), frame, bound=bound)
        self.spec = spec
        self.mode = mode
        self.reason = reason
        self.counts: Counter[str] = within.counts if within is not None else Counter()
        self._guard = transfer.guard_level() if reason else None
        self.hooked = False
        self._limit = WARN_LIMIT if mode is Mode.WARN and within is None else 0
        if self._limit:
            self.settled = launches.Limited(self, self._limit)
        self._thread = threading.get_ident()
        self.items = items
        self._buffered: Counter[tuple[int, int, int]] = Counter()
        self._flushed: Counter[str] = Counter()
        self._lock = threading.Lock()
        if within is not None:
            self.settled.update(within.settled)
            self.run, self.watched = within.run, within.watched
        self._owns_counts = within is None

    # -- launches

    def launched(
        self,
        key: Any,
        owner: Owner,
        args: Any,
        kwargs: Any,
        out: Any,
        frame: FrameType,
        *,
        slow: bool,
    ) -> None:
        """As in `Scope`; a fault of fusegate's own stays inside."""
        __tracebackhide__ = True
        if health.is_off(LAUNCHES):
            return
        if self._limit and self.launches >= self._limit:
            self._exhausted()
            return
        try:
            super().launched(key, owner, args, kwargs, out, frame, slow=slow)
        except (FusegateError, ViolationWarning):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of fusegate's own; told, never passed on
            health.failed(LAUNCHES, self.mode, error)

    def _exhausted(self) -> None:
        """In warn, a call with more launches than anybody reads is no longer looked at."""
        ledger.mark_not_observed(
            f"launches of driver {self.spec.name}",
            f"in warn, those after the first {self._limit} of one call are not looked at",
        )
        self.unhook()

    def unhook(self) -> None:
        """Ends the observation of launches for this scope."""
        if self.hooked:
            self.hooked = False
            launch.release(self._thread)

    def note_boundary(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType) -> None:
        """Judges the host values among the arguments of a boundary."""
        __tracebackhide__ = True
        spec = owner.spec
        if spec.filter:
            _, args, kwargs = filtering.joined(spec, *args)
        values = signature.values_by_path(spec.arguments.traced(args, kwargs))
        is_host = owners.is_host_array_type if spec.filter else owners.is_host_type
        found = [(path, value) for path, value in values.items() if is_host(type(value))]
        into = f"{spec.role} `{spec.name}`"
        self._uploads(found, into, frame, owner.spec.allow)

    def note_jit(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType, host: bool) -> None:
        """Lists the jit, and judges the numpy arrays among its arguments."""
        __tracebackhide__ = True
        ledger.current().count_driver(
            self.spec.name, self.spec.defined, jit=owner.name or "(no name)"
        )
        if host:
            found = list(_positions(owner, args, kwargs, arrays_only=True))
            self._uploads(found, f"the jit `{owner.name}`", frame)

    def note_op(self, owner: Owner, args: Any, kwargs: Any, frame: FrameType, slow: bool) -> None:
        """Judges an eager op, and the host values among its arguments."""
        __tracebackhide__ = True
        if owner.literal and stack.asks_for_array(frame):
            return  # jnp.asarray of a host value: an upload that is spelled out, as device_put is
        where = stack.place(frame, launch=slow)
        if where.inside:
            return
        if self.reason:
            self.counts["op_eager"] += 1
            return
        self.counts["eager"] += 1
        found = rules.check_eager(
            self.spec,
            self.counts["eager"],
            self.spec.max_eager,
            owner.name,
            where.via,
            where.location,
        )
        if found is not None:
            self._deliver(found)
            return
        # A number beside an array is part of the op that was declared; an array is a transfer of its own.
        hosts = list(_positions(owner, args, kwargs, arrays_only=True))
        self._uploads(hosts, f"the eager op `{owner.name}`", frame)

    def note_run(self, owner: Owner, length: int, frame: FrameType) -> bool:
        """Advises once a run of independent launches is long."""
        __tracebackhide__ = True
        if self.reason or length < self.items:
            return False
        where = stack.place(frame, launch=True)
        found = rules.check_items(self.spec, owner.spec, length, self.items, where.location)
        if found is not None:
            self._deliver(found, owner.spec.allow)
        return True

    def _uploads(
        self,
        found: list[tuple[str, Any]],
        into: str,
        frame: FrameType,
        allow: frozenset[str] = frozenset(),
    ) -> None:
        __tracebackhide__ = True
        if not found:
            return
        if self.reason:
            self.counts["op_uploads"] += len(found)
            return
        where = stack.place(frame, launch=True)
        if where.inside:
            return
        self.counts["uploads"] += len(found)
        for path, value in found:
            python = arrays.host_kind(value) == "python"
            what = type(value).__name__ if python else arrays.describe(value)
            self._deliver(
                rules.check_upload(self.spec, path, what, python, into + where.via, where.location),
                allow,
            )

    # -- reads

    def read(self, how: str, array: Any, frame: FrameType) -> None:
        """Judges a device-to-host read before it happens."""
        __tracebackhide__ = True
        where = stack.place(frame)
        if where.inside or stack.is_own(frame):
            return
        if self._is_second_look(how, array, where.frame):
            return
        if self.run.depends(array):  # what is launched next may depend on it through the host
            self.run.interrupted()
        guarded = transfer.guard_disallows(array) and not (
            self.reason and transfer.guard_level() == self._guard
        )
        if self.reason and not guarded:
            self.counts["op_reads"] += 1
            return
        self.counts["reads"] += 1
        found = rules.check_read(
            self.spec,
            self.counts["reads"],
            self.spec.max_reads,
            arrays.describe(array),
            where.via,
            where.location,
            guarded=guarded,
        )
        if found is not None:
            self._deliver(found, also=transfer.guard_error() if guarded else None)

    def _is_second_look(self, how: str, array: Any, frame: FrameType | None) -> bool:
        """Whether numpy asks once more for an array whose buffer it has just seen, in one operation."""
        if frame is None:
            return False
        key = (id(frame), frame.f_lasti, id(array))
        if how == "buffer":
            if key not in self._buffered:
                self._buffered.clear()
            self._buffered[key] += 1
        elif how == "value" and self._buffered[key] > 0:
            self._buffered[key] -= 1
            return True
        return False

    # -- the call as a whole

    def _deliver(
        self,
        found: Finding,
        allow: frozenset[str] = frozenset(),
        also: type[BaseException] | None = None,
    ) -> None:
        __tracebackhide__ = True
        deliver(found, self.mode, None, allow=self.spec.allow | allow, also=also)

    def flush(self) -> None:
        """Counts into the ledger what it does not know of yet."""
        with self._lock:
            totals = Counter(self.counts) if self._owns_counts else Counter()
            totals["launches"] = self.launches
            new: dict[str, Any] = {
                name: total - self._flushed[name]
                for name, total in totals.items()
                if total != self._flushed[name]
            }
            self._flushed = totals
        if new:
            ledger.current().count_driver(self.spec.name, self.spec.defined, **new)


def _positions(
    owner: Owner, args: tuple[Any, ...], kwargs: dict[str, Any], *, arrays_only: bool
) -> Iterator[tuple[str, Any]]:
    """Host values among the traced arguments of a call whose argument names are not known."""
    is_host = owners.is_host_array_type if arrays_only else owners.is_host_type
    skip = {index % len(args) if index < 0 and args else index for index in owner.static_nums}
    named = [(f"argument {i}", value) for i, value in enumerate(args) if i not in skip]
    named += [(name, value) for name, value in kwargs.items() if name not in owner.static_names]
    for path, value in named:
        for leaf in trees.leaves_of(value)[0]:
            if is_host(type(leaf)):
                yield path, leaf


def current() -> DriverScope | None:
    """The innermost driver that is observed in this context."""
    scope = launches.current()
    return scope if isinstance(scope, DriverScope) else None


def on_read(how: str, array: Any) -> None:
    """Takes in a read; called by the runtime door before it happens."""
    __tracebackhide__ = True
    scope = current()
    if scope is None:
        return
    frame = sys._getframe(1)
    health.guarded(READS, scope.mode, lambda: scope.read(how, array, frame))
