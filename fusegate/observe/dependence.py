"""Runs of launches of one boundary, and whether a launch depends on the results of the one before."""

from __future__ import annotations

import weakref
from typing import Any, Final

from fusegate.runtime import trees

WATCHED: Final = 64
"""Launches of one boundary that are looked at in a driver; a run shows within its first few dozen."""


class Run:
    """Launches of one boundary in a row, eager ops between them apart.

    Holds no array: results are known by weak reference.
    """

    __slots__ = ("_fn", "_last", "_results", "length", "signature")

    def __init__(self) -> None:
        self._fn: Any = None
        self._last: list[Any] = []
        self._results: dict[int, weakref.ref[Any]] = {}
        self.length = 0
        self.signature: tuple[Any, ...] = ()

    def launched(self, fn: Any, inputs: list[Any], outputs: Any) -> int:
        """Notes a launch of a boundary.

        Args:
            fn: What tells the boundary.
            inputs: Its traced arguments.
            outputs: Its results.

        Returns:
            How many independent launches at one signature this run has by now.
        """
        leaves, _ = trees.leaves_of(inputs)
        signature = tuple((getattr(x, "shape", ()), getattr(x, "dtype", None)) for x in leaves)
        if fn is not self._fn or signature != self.signature or any(map(self.depends, leaves)):
            self._fn, self.signature, self.length = fn, signature, 1
            self._results = {}
        elif not self._repeats(leaves):
            self.length += 1
        self._last = [_reference(leaf) for leaf in leaves]
        self._note(outputs)
        return self.length

    def passed_on(self, inputs: list[Any], outputs: Any) -> None:
        """Notes an eager op: what it makes of a result depends on that result."""
        if self._results:
            leaves, _ = trees.leaves_of(inputs)
            if any(map(self.depends, leaves)):
                self._note(outputs)

    def interrupted(self) -> None:
        """Ends the run: another program was launched, or a result was read on the host."""
        self._fn, self.length = None, 0
        self._results = {}
        self._last = []

    def depends(self, array: Any) -> bool:
        """Whether an array is a result of this run, or was made from one."""
        reference = self._results.get(id(array))
        return reference is not None and reference() is array

    def _repeats(self, leaves: list[Any]) -> bool:
        """Whether a launch has the very arguments of the one before: a repetition, no further item."""
        return len(leaves) == len(self._last) and all(
            (known() if isinstance(known, weakref.ref) else known) is leaf
            for known, leaf in zip(self._last, leaves, strict=True)
        )

    def _note(self, outputs: Any) -> None:
        for leaf in trees.leaves_of(outputs)[0]:
            reference = _reference(leaf)
            if isinstance(reference, weakref.ref):
                self._results[id(leaf)] = reference


def _reference(leaf: Any) -> Any:
    try:
        return weakref.ref(leaf)
    except TypeError:  # a number, or a numpy scalar
        return None
