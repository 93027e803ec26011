"""Two evidences side by side: the figures that moved, and the kernels that came or went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusegate.observe.evidence import Kernel

if TYPE_CHECKING:
    from rich.text import Text

    from fusegate.evidence.model import Evidence

_TIMES = frozenset({"trace_s", "lower_s", "compile_s"})


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure on both sides; None where it was not observed.

    Attributes:
        name: Name of the figure.
        before: The earlier side.
        after: The later side.
    """

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kind of kernel that the program holds more or less often than before.

    Attributes:
        kernel: The kernel, with its line on the side that has it.
        before: How many launches of it the earlier program holds.
        after: How many the later one does.
    """

    kernel: Kernel
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class EvidenceDiff:
    """The difference of two evidences.

    Attributes:
        before: The earlier evidence.
        after: The later one.
        figures: Every figure on both sides, times included.
        kernels: The kernels whose number changed; lines are not compared, so that moved code is no change.
    """

    before: Evidence
    after: Evidence
    figures: tuple[FigureChange, ...]
    kernels: tuple[KernelChange, ...]

    @property
    def changed(self) -> tuple[FigureChange, ...]:
        """The figures that differ; times are left out, no two are equal."""
        return tuple(
            one for one in self.figures if one.before != one.after and one.name not in _TIMES
        )

    def to_text(self) -> str:
        """Returns both sides as plain text."""
        from fusegate.evidence import render

        return render.diff_text(self).plain

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> Text:
        """The difference as rich prints it."""
        from fusegate.evidence import render

        return render.diff_text(self)

    def _repr_html_(self) -> str:
        """The difference as a notebook shows it."""
        from fusegate.evidence import render

        return render.diff_html(self)


def diff_of(before: Evidence, after: Evidence) -> EvidenceDiff:
    """Compares two evidences.

    Args:
        before: The earlier one.
        after: The later one.
    """
    ours, theirs = before.figures(), after.figures()
    return EvidenceDiff(
        before,
        after,
        tuple(FigureChange(name, ours[name], theirs[name]) for name in ours),
        kernel_changes(before.kernels, after.kernels),
    )


def kernel_changes(
    before: tuple[Kernel, ...], after: tuple[Kernel, ...]
) -> tuple[KernelChange, ...]:
    """The kernels whose number changed, the most added first.

    Args:
        before: The earlier table of kernels.
        after: The later one.
    """
    counts = [Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()]
    shown: dict[tuple[object, ...], Kernel] = {}
    for side, table in enumerate((before, after)):
        for one in table:
            key = (one.kind, one.ops, one.loop)
            counts[side][key] += one.launches
            shown[key] = one
    changes = [
        KernelChange(kernel, counts[0][key], counts[1][key])
        for key, kernel in shown.items()
        if counts[0][key] != counts[1][key]
    ]
    return tuple(sorted(changes, key=lambda one: one.before - one.after))
