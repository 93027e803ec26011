"""FG101, FG201, FG202, FG210, FG211 and FG213: what a boundary traced, compiled and dispatched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegate.errors import Cause, Finding, Location
from fusegate.ledger import KeySpace, Spec
from fusegate.observe.signature import Signature

MaxTraces = int | Callable[[int], int] | None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a boundary declares of its traces and compiles; None bounds nothing."""

    max_traces: MaxTraces = None
    max_compiles: int | None = None

    def traces(self, largest: int) -> int | None:
        """The traces allowed, given the largest leading size seen in the first array argument."""
        return self.max_traces(largest) if callable(self.max_traces) else self.max_traces

    @property
    def text(self) -> str:
        """`max_traces=1`, as it was declared."""
        shown = "a function of the leading size" if callable(self.max_traces) else self.max_traces
        return f"max_traces={shown}"


def finding(
    code: str,
    spec: Spec,
    location: Location | None,
    seen: str,
    cause: Cause | None = None,
    fix: str = "",
) -> Finding:
    """A finding about a boundary."""
    return Finding(code, spec.name, location, seen, spec.role, spec.defined, cause, fix)


def check_declaration(spec: Spec, location: Location | None, inner: str) -> Finding:
    """FG101: the decorated callable is `inner` already."""
    return finding(
        "FG101",
        spec,
        location,
        f"the decorated callable is {inner} already: two boundaries where one is meant",
        fix="drop the inner one and decorate the plain function; its jit keywords go to this decorator",
    )


def check_trace(
    spec: Spec,
    budget: Budget,
    space: KeySpace,
    *,
    repeated: bool,
    cause: Cause | None,
    frozen: bool,
    location: Location | None,
) -> Finding | None:
    """FG213 and FG201, for one finished trace.

    Args:
        spec: The boundary.
        budget: What it declares.
        space: What it traced before this.
        repeated: Whether this very signature was traced before.
        cause: The difference from the nearest earlier one; None for a first trace.
        frozen: Whether `freeze()` is in force.
        location: The user's call.
    """
    ordinal = space.counters.traces
    if frozen:
        seen = f"trace {ordinal} of this boundary, after freeze()"
        first = Cause("none", fix="call the boundary once with these arguments before freezing")
        return finding("FG213", spec, location, seen, cause or first)
    if repeated and cause is not None and cause.kind != "cache_cleared":
        seen = f"trace {ordinal}, of a signature that was traced before"
        return finding("FG201", spec, location, seen, cause)
    limit = budget.traces(space.largest)
    if not repeated and limit is not None and space.budgeted + 1 > limit:
        seen = f"trace {space.budgeted + 1} of this key-space; {budget.text}"
        if callable(budget.max_traces):
            seen += f", which allows {limit} at leading size {space.largest}"
        return finding("FG201", spec, location, seen, cause)
    return None


def check_compile(
    spec: Spec,
    budget: Budget,
    space: KeySpace,
    *,
    cause: Cause | None,
    frozen: bool,
    location: Location | None,
) -> Finding | None:
    """FG213 and FG202, for one finished backend compile.

    Args:
        spec: The boundary.
        budget: What it declares.
        space: What it compiled, this compile included.
        cause: Why it was compiled without a trace; None where a trace came first.
        frozen: Whether `freeze()` is in force.
        location: The user's call.
    """
    ordinal = space.counters.compiles
    if frozen and cause is not None:
        seen = f"compile {ordinal} of this boundary, after freeze()"
        return finding("FG213", spec, location, seen, cause)
    if budget.max_compiles is not None:
        if ordinal - space.forgiven > budget.max_compiles:
            seen = f"compile {ordinal}; max_compiles={budget.max_compiles}"
            return finding("FG202", spec, location, seen, cause or _last(space))
        return None
    if cause is not None and cause.kind != "cache_cleared":
        seen = f"compile {ordinal}, without a new trace: the same program, compiled again"
        return finding("FG202", spec, location, seen, cause)
    return None


def _last(space: KeySpace) -> Cause | None:
    """Why the trace that led to this compile was needed."""
    return space.counters.causes[-1] if space.counters.causes else None


def check_dispatch(
    spec: Spec, misses: int, threshold: int, why: str, location: Location | None
) -> Finding | None:
    """FG210: warm calls at one signature keep missing the fast path.

    Args:
        spec: The boundary.
        misses: Warm misses in a row at this signature.
        threshold: How many are too many.
        why: What is known of the reason.
        location: The user's call.
    """
    if misses < threshold:
        return None
    seen = f"{misses} warm calls in a row missed the fast path, with nothing to trace or compile"
    return finding("FG210", spec, location, seen, fix=why)


def check_read(spec: Spec, error: BaseException, location: Location | None) -> Finding:
    """FG211: the body read a traced value on the host, and the runtime refused.

    Args:
        spec: The boundary.
        error: The runtime's own error.
        location: The line that reads.
    """
    if isinstance(error, IndexError):
        return finding(
            "FG211",
            spec,
            location,
            f"the body selects by a traced mask, which needs its values ({type(error).__name__})",
            fix="keep the shape and mask the values: jnp.where(mask, x, 0) or lax.select",
        )
    return finding(
        "FG211",
        spec,
        location,
        f"the body reads a traced value on the host ({type(error).__name__})",
        fix="end this island before the read and start another after it, with the read between them in "
        "`with host_op(reason)`; or keep the choice on the device with lax.select, lax.cond or indexing",
    )


def explain_misses(call: Signature) -> str:
    """What in the arguments of a slow call is known to keep it off the fast path."""
    odd = [leaf for leaf in call.leaves if leaf.host == "other"]
    if odd:
        return (
            f"`{odd[0].path}` is no array ({odd[0].text} as a description): pass arrays only, and describe "
            "shapes in metadata"
        )
    return (
        "a host callback or another ordered effect in the body keeps it off the fast path, and so do more "
        "than 8192 live jits with explicit attributes; take the effect out of the hot boundary"
    )
