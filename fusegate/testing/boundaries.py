"""`assert_single_trace` and `expect_violation`: what boundaries did in a `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fusegate import config, ledger
from fusegate.boundaries.proxy import spec_of
from fusegate.errors import Finding, Violation, ViolationWarning
from fusegate.rules import lookup


@contextmanager
def assert_single_trace(*boundaries: Any) -> Iterator[None]:
    """Asserts that each boundary traces and compiles at most once inside a `with` block.

    Call it twice in there, with fresh arguments that are equal by value: what a program does from one proof
    to the next.

    Args:
        *boundaries: Decorated functions or methods, at least one.

    Raises:
        AssertionError: One traced or compiled more often, with the causes; or its mode is off.
        TypeError: An argument is no boundary, or none is given.

    Example:
        >>> import fusegate, jax.numpy as jnp
        >>> double = fusegate.island(lambda x: x * 2)
        >>> with assert_single_trace(double):
        ...     for _ in range(2):
        ...         _ = double(jnp.ones(4))
        >>> with assert_single_trace(double):
        ...     for n in (5, 6):
        ...         _ = double(jnp.ones(n))
        Traceback (most recent call last):
        ...
        AssertionError: island `<lambda>` traced 2 times and compiled 2 times: `x` ...
    """
    __tracebackhide__ = True
    if not boundaries:
        raise TypeError("assert_single_trace takes the boundaries that it is about")
    specs = [spec_of(one) for one in boundaries]
    book = ledger.current()
    before = [book.counters_of(spec).copy() for spec in specs]
    yield
    for spec, earlier in zip(specs, before, strict=True):
        if spec.mode() is config.Mode.OFF:
            raise AssertionError(f"{spec.role} `{spec.name}` is not observed: its mode is off")
        now = book.counters_of(spec)
        traces = now.traces - earlier.traces
        compiles = now.compiles + now.cache_hits - earlier.compiles - earlier.cache_hits
        if traces > 1 or compiles > 1:
            causes = "; ".join(str(cause) for cause in now.causes[len(earlier.causes) :])
            raise AssertionError(
                f"{spec.role} `{spec.name}` traced {_times(traces)} and compiled {_times(compiles)}"
                + (f": {causes}" if causes else "")
            )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


class Expected:
    """What a `with expect_violation()` block found.

    Attributes:
        code: The code that is expected.
        finding: The first finding of that code, once the block has ended.
        violation: The exception it came as; None for an advice, and for a warning that was not raised.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.finding: Finding | None = None
        self.violation: Violation | ViolationWarning | None = None


@contextmanager
def expect_violation(code: str) -> Iterator[Expected]:
    """Expects that a rule is broken inside a `with` block, which runs in strict.

    An advice is expected the same way; it does not raise, so the block runs to its end.

    Args:
        code: Code or slug of the rule.

    Yields:
        What is found; filled in when the block ends.

    Raises:
        AssertionError: Nothing of that code was found; the message names what was.
        ValueError: There is no such rule.
        Violation: Another rule is broken.

    Example:
        >>> import fusegate, jax.numpy as jnp
        >>> first = fusegate.round_body(lambda table, order: table[order].sum())
        >>> with expect_violation("FG204") as expected:
        ...     _ = first(jnp.ones(4), jnp.array([1, 0]))
        >>> expected.finding.slug
        'fusion-breaker'
    """
    __tracebackhide__ = True
    expected = Expected(lookup(code).code)
    book = ledger.current()
    before = {found.key: found.count for found in book.snapshot().findings}
    try:
        with config.mode("strict"):
            yield expected
    except (Violation, ViolationWarning) as error:
        if error.code != expected.code:
            raise
        expected.finding, expected.violation = error.finding, error
        return
    fresh = [found for found in book.snapshot().findings if found.count > before.get(found.key, 0)]
    expected.finding = next((found for found in fresh if found.code == expected.code), None)
    if expected.finding is None:
        others = ", ".join(sorted({found.code for found in fresh}))
        raise AssertionError(
            f"no {expected.code} was found" + (f"; found was {others}" if others else "")
        )
