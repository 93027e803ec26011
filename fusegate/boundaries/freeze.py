"""Warm-up, then freeze: from then on every trace or compile of a boundary is a violation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fusegate import ledger


def freeze() -> None:
    """Ends the warm-up: any later trace or compile of a boundary is FG213, with its cause.

    Holds for the process until `reset()`. Use `with frozen():` for a part of a program.
    """
    ledger.current().frozen += 1


@contextmanager
def frozen() -> Iterator[None]:
    """Makes every trace or compile of a boundary inside the `with` block a violation (FG213).

    Process-wide while it lasts: other threads are frozen as well.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.island
        ... def serve(x):
        ...     return x * 2.0
        >>> _ = serve(jax.numpy.ones(16))
        >>> with fusegate.frozen():
        ...     _ = serve(jax.numpy.zeros(16))
    """
    book = ledger.current()
    book.frozen += 1
    try:
        yield
    finally:
        book.frozen -= 1
