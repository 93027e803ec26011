"""`assert_fusion_ready`: whether a function could be a round body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusegate import config
from fusegate.judge import fusion
from fusegate.observe.jaxpr import program_facts
from fusegate.runtime import frames, jaxprs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fusegate.errors import Location


@dataclass(frozen=True, slots=True)
class _Subject:
    """A function under test, as a finding speaks of it."""

    name: str
    defined: Location | None
    role: str = fusion.ROUND_BODY


def assert_fusion_ready(
    fn: Callable[..., Any],
    *args: Any,
    reductions: int = 1,
    allow_primitives: Iterable[str] = (),
    **kwargs: Any,
) -> None:
    """Asserts that a function could be a round body: one fused kernel, by its traced program.

    Sees what a helper hides: nested calls, breakers and host callbacks at any depth, `custom_jvp`, `scan`
    and `cond` bodies included. What is inside a name-routed composite is left to whoever routed it.
    Nothing is compiled and nothing runs.

    Args:
        fn: A plain function, a jitted one or a boundary.
        *args: Its arguments; `ShapeDtypeStruct`s do.
        reductions: How many reductions it may hold, those inside name-routed composites left out.
        allow_primitives: Names of primitives that it may hold although they break fusion.
        **kwargs: Its keyword arguments.

    Raises:
        AssertionError: It is not fusion-ready; the message lists every finding with its lines.

    Example:
        >>> import jax.numpy as jnp
        >>> assert_fusion_ready(
        ...     lambda low, high, r: low + r * (high - low), *[jnp.ones(4)] * 3, reductions=0
        ... )
        >>> assert_fusion_ready(
        ...     lambda table, order: table[order].sum(), jnp.ones(4), jnp.array([1, 0])
        ... )
        Traceback (most recent call last):
        ...
        AssertionError: FG204 fusion-breaker: round body `<lambda>` ...
    """
    __tracebackhide__ = True
    plain = _plain(fn)
    name = getattr(plain, "__name__", type(plain).__name__)
    subject = _Subject(name, frames.definition_of(getattr(plain, "__code__", None)))
    facts = program_facts(jaxprs.trace_program(fn, args, kwargs))
    contract = fusion.Contract(reductions, frozenset(allow_primitives))
    findings = [
        finding
        for finding in fusion.check_program(subject, contract, facts, config.thresholds())
        if finding.is_error
    ]
    if findings:
        raise AssertionError("\n".join(map(str, findings)))


def _plain(fn: Any) -> Any:
    """The function that the user wrote, below jits, boundaries and partial objects."""
    while True:
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "func", None)
        if inner is None:
            return fn
        fn = inner
