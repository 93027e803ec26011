"""An evidence and the difference of two, as text with styles and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.text import Text

    from fusegate.evidence.diff import EvidenceDiff, KernelChange
    from fusegate.evidence.model import Evidence
    from fusegate.observe.evidence import Kernel

SHOWN_OPS: Final = 6
"""Operations that a row of the kernel table names; the rest is counted."""

_LABELS: Final = {
    "launches": "launches",
    "dynamic_launches": "launches, with trips",
    "equations": "equations",
    "temp_bytes": "temp bytes",
    "peak_bytes": "peak bytes",
    "argument_bytes": "argument bytes",
    "output_bytes": "output bytes",
    "alias_bytes": "donated bytes reused",
    "constant_bytes": "constant bytes",
    "flops": "flops",
    "bytes_accessed": "bytes accessed",
    "trace_s": "trace s",
    "lower_s": "lower s",
    "compile_s": "compile s",
}


def figure_text(name: str, value: float | None) -> str:
    """A figure as it is shown; `?` where it was not observed."""
    if value is None:
        return "?"
    return f"{value:.3f}" if name.endswith("_s") else f"{int(value):,}"


def kernel_cells(kernel: Kernel) -> list[str]:
    """The cells of one row of the kernel table."""
    runs = "?" if kernel.runs is None else str(kernel.runs)
    ops = ", ".join(kernel.ops[:SHOWN_OPS])
    if len(kernel.ops) > SHOWN_OPS:
        ops += f", and {len(kernel.ops) - SHOWN_OPS} more"
    place = "" if kernel.location is None else str(kernel.location)
    return [str(kernel.launches), runs, " > ".join((*kernel.loop, kernel.kind)), place, ops]


def kernel_text(kernel: Kernel) -> str:
    """A kernel in one phrase: `fusion kLoop (add, mul) at prover.py:12`."""
    _, _, kind, place, ops = kernel_cells(kernel)
    return f"{kind} ({ops})" + (f" at {place}" if place else "")


def title(evidence: Evidence) -> str:
    """What an evidence is of, in one line."""
    where = f" ({evidence.defined})" if evidence.defined else ""
    return (
        f"{evidence.role} `{evidence.name}`{where} of {evidence.arguments or 'no arguments'}, "
        f"{evidence.target}, {evidence.runtime}"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], figures: int) -> list[str]:
    """Lays a table out: the first `figures` columns to the right, the others to the left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if i < figures else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]


def evidence_text(evidence: Evidence) -> Text:
    """An evidence as text with styles."""
    from rich.text import Text

    out = Text()
    out.append(f"{title(evidence)}\n", style="bold")
    rows = [[_LABELS[name], figure_text(name, value)] for name, value in evidence.figures().items()]
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        out.append(f"  {label.ljust(width)}  {value.rjust(12)}\n")
    if evidence.kernels:
        header, *lines = table(
            ["launches", "runs", "kernel", "line", "operations"],
            [kernel_cells(one) for one in evidence.kernels],
            2,
        )
        out.append(f"  {header}\n", style="bold")
        for line in lines:
            out.append(f"  {line}\n")
    for what, why in _missing(evidence):
        out.append(f"  not observed: {what}: {why}\n", style="dim")
    return out


def _missing(evidence: Evidence) -> list[tuple[str, str]]:
    """What was not observed and why, figures with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for what, why in evidence.not_observed.items():
        by_reason.setdefault(why, []).append(_LABELS.get(what, what))
    return [
        ("every figure" if len(names) == len(_LABELS) else ", ".join(names), why)
        for why, names in by_reason.items()
    ]


def diff_text(diff: EvidenceDiff) -> Text:
    """The difference of two evidences as text with styles."""
    from rich.text import Text

    out = Text()
    out.append(f"before: {title(diff.before)}\n", style="bold")
    out.append(f"after:  {title(diff.after)}\n", style="bold")
    moved = {one.name for one in diff.changed}
    rows = [
        [_LABELS[one.name], figure_text(one.name, one.before), figure_text(one.name, one.after),
         "<" if one.name in moved else ""]
        for one in diff.figures
    ]  # fmt: skip
    width = max(len(row[0]) for row in rows)
    for label, before, after, mark in rows:
        line = f"  {label.ljust(width)}  {before.rjust(12)}  {after.rjust(12)}  {mark}".rstrip()
        out.append(line + "\n", style="bold" if mark else "")
    for change in diff.kernels:
        out.append(
            f"  {change_text(change)}\n", style="red" if change.after > change.before else ""
        )
    return out


def change_text(change: KernelChange) -> str:
    """`+2 fusion kLoop (add, mul) at prover.py:12`."""
    return f"{change.after - change.before:+d} {kernel_text(change.kernel)}"


@cache
def _environment() -> Environment:
    import jinja2

    # Names and paths come from the program: everything is escaped.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("fusegate.evidence"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _html(**scope: Any) -> str:
    return _environment().get_template("evidence.html").render(**scope)


def evidence_html(evidence: Evidence) -> str:
    """An evidence as a piece of a page, for notebooks."""
    return _html(
        titles=[title(evidence)],
        rows=[(_LABELS[name], [figure_text(name, v)]) for name, v in evidence.figures().items()],
        kernels=[kernel_cells(one) for one in evidence.kernels],
        changes=[],
        missing=_missing(evidence),
    )


def diff_html(diff: EvidenceDiff) -> str:
    """The difference of two evidences as a piece of a page, for notebooks."""
    return _html(
        titles=[title(diff.before), title(diff.after)],
        rows=[
            (_LABELS[f.name], [figure_text(f.name, f.before), figure_text(f.name, f.after)])
            for f in diff.figures
        ],
        kernels=[],
        changes=[change_text(one) for one in diff.kernels],
        missing=[],
    )
