"""A report as text: a table of the boundaries with their causes, then what was found.

One renderer for the terminal (colours, its width) and for `to_text` (plain, a given width). Only table
rows are fitted to the width; messages keep their lines, so that they can be searched and compared.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from fusegate.errors import Cause, Finding, Location
    from fusegate.report.model import DriverStats, Report, Stats

_SEEN_BY: Final = {
    "traces": "traces",
    "trace_s": "traces",
    "compiles": "compiles",
    "cache_hits": "compiles",
    "lower_s": "compiles",
    "compile_s": "compiles",
    "slow_dispatches": "slow dispatches",
}
"""Figure -> the observation that it comes from, as `Report.not_observed` names it."""

SHOWN_CAUSES: Final = 8
"""Distinct causes shown below a boundary; the JSON report holds all that were kept."""


def plain(report: Report, width: int) -> str:
    """Returns a report as text without colours.

    Args:
        report: The report.
        width: Columns that a table row may take.
    """
    from rich.console import Console

    out = io.StringIO()
    print_report(report, Console(file=out, width=width, color_system=None, force_terminal=False))
    return out.getvalue()


def print_report(report: Report, console: Console) -> None:
    """Prints a report.

    Args:
        report: The report.
        console: Where to; its width and colour support apply.
    """
    for line in _lines(report, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def _lines(report: Report, width: int) -> Iterator[Text]:
    from rich.text import Text

    yield Text(summary(report), style="bold" if report.clean else "bold red")
    if report.boundaries:
        yield from _boundary_table(report, width)
    elif not report.violations:
        yield Text("no boundary was called, or the mode is off")
    if report.drivers:
        yield from _driver_table(report.drivers, width)
    for title, style, found in (
        ("violations", "red", report.errors),
        ("advice", "yellow", tuple(one for one in report.violations if not one.is_error)),
    ):
        if found:
            yield Text()
            yield Text(title, style=f"bold {style}")
            for finding in found:
                yield from _finding(finding, style)
    if report.dropped:
        yield Text(f"{report.dropped} further findings were counted and not kept")
    yield from _section("allowed", (f"{a.code} x{a.count}: {a.reason}" for a in report.allowed))
    yield from _section(
        "opt-outs that nothing used",
        (f"{a.code}{_at(a.location)}: {a.reason}" for a in report.unused_allows),
    )
    yield from _section(
        "not observed", (f"{what}: {why}" for what, why in report.not_observed.items())
    )


def summary(report: Report) -> str:
    """The report in one line."""
    every = report.boundaries.values()
    errors = max(sum(f.count for f in report.errors), sum(one.violations for one in every))
    advice = sum(finding.count for finding in report.violations if not finding.is_error)
    parts = [
        amount(str(len(report.boundaries)), "boundary", "boundaries"),
        amount(figure(report, "traces", sum(one.traces for one in every)), "trace"),
        amount(figure(report, "compiles", sum(one.compiles for one in every)), "compile"),
        amount(str(errors), "violation"),
    ]
    if advice:
        parts.append(amount(str(advice), "piece of advice", "pieces of advice"))
    return "fusegate: " + ", ".join(parts)


def figure(report: Report, what: str, value: float) -> str:
    """A figure as it is shown: `?` where it could not be seen, `3+` where not all of it could.

    Args:
        report: The report that it belongs to.
        what: Which attribute of `Stats` it is.
        value: Its value.
    """
    shown = f"{value:.3f}" if what.endswith("_s") else str(value)
    if _SEEN_BY.get(what) not in report.not_observed:
        return shown
    return f"{shown}+" if value else "?"


def amount(number: str, one: str, many: str = "") -> str:
    """A number with its noun.

    Args:
        number: The figure as it is shown.
        one: The noun for one.
        many: The noun for any other number; with an `s` where not given.
    """
    return f"{number} {one if number == '1' else many or one + 's'}"


def _boundary_table(report: Report, width: int) -> Iterator[Text]:
    boundaries = report.boundaries
    columns = {"traces": "traces", "compiles": "compiles"}
    if any(one.cache_hits for one in boundaries.values()):
        columns["cache_hits"] = "cache hits"
    if any(one.slow_dispatches for one in boundaries.values()):
        columns["slow_dispatches"] = "slow"
    columns |= {"trace_s": "trace s", "lower_s": "lower s", "compile_s": "compile s"}
    columns["violations"] = "violations"
    rows = [
        [name, *(figure(report, what, getattr(one, what)) for what in columns)]
        for name, one in boundaries.items()
    ]
    header, *lines = _aligned(["boundary", *columns.values()], rows, width)
    yield header
    for line, one in zip(lines, boundaries.values(), strict=True):
        if one.violations:
            line.stylize("red")
        yield line
        yield _dim(f"    {one.role}{_defined(one.defined)}{_aside(one)}")
        yield from _cause_lines(one.causes)


def _aside(stats: Stats) -> str:
    """The figures that only some boundaries have, in words."""
    named = (
        (stats.failed_traces, "failed traces"),
        (stats.aside_traces, "traces by lower, eval_shape or make_jaxpr"),
        (stats.eager_runs, "runs without jit"),
        (stats.melted, "runs melted into a zone"),
        (
            stats.derived_compiles,
            "compiles of programs derived by vmap, grad or an outer jit, or for another target",
        ),
    )
    return "".join(f"; {number} {what}" for number, what in named if number)


def _cause_lines(causes: tuple[Cause, ...]) -> Iterator[Text]:
    counted = Counter(str(cause) for cause in causes)
    for cause, times in list(counted.items())[:SHOWN_CAUSES]:
        yield _dim(f"    again: {cause}{f' x{times}' if times > 1 else ''}")
    if len(counted) > SHOWN_CAUSES:
        yield _dim(f"    again: {len(counted) - SHOWN_CAUSES} further causes")


def _driver_table(drivers: Mapping[str, DriverStats], width: int) -> Iterator[Text]:
    from rich.text import Text

    yield Text()
    rows = [
        [name, *(str(figure) for figure in (one.launches, one.eager, one.reads, one.uploads))]
        for name, one in drivers.items()
    ]
    header, *lines = _aligned(["driver", "launches", "eager", "reads", "uploads"], rows, width)
    yield header
    for line, one in zip(lines, drivers.values(), strict=True):
        yield line
        if one.defined:
            yield _dim(f"    driver{_defined(one.defined)}")
        for reason, times in one.host_ops.items():
            yield _dim(f"    host op x{times}: {reason}")
        if one.op_eager or one.op_reads or one.op_uploads:
            yield _dim(
                f"    in host ops besides: {one.op_eager} eager launches, {one.op_reads} reads, "
                f"{one.op_uploads} uploads"
            )
        for jit, times in one.jits.items():
            yield _dim(f"    jit that is no boundary x{times}: {jit}")


def _aligned(header: list[str], rows: list[list[str]], width: int) -> Iterator[Text]:
    """Lays out a table: the first column takes what is left, the figures stand to the right."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    widths = [max(cell_len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    figures = sum(widths[1:]) + 2 * len(widths[1:])
    widths[0] = min(widths[0], max(width - figures, len(header[0])))
    for number, row in enumerate([header, *rows]):
        first, *rest = row
        if cell_len(first) > widths[0]:  # a name is never cut: its figures go to the next line
            first = f"{first}\n{' ' * widths[0]}"
        else:
            first = set_cell_size(first, widths[0])
        cells = (cell.rjust(size) for cell, size in zip(rest, widths[1:], strict=True))
        yield Text("  ".join([first, *cells]), style="" if number else "bold")


def _finding(finding: Finding, style: str) -> Iterator[Text]:
    from rich.text import Text

    first, *rest = str(finding).splitlines()
    times = f" (x{finding.count})" if finding.count > 1 else ""
    yield Text(f"{first}{times}", style=style)
    for line in rest:
        yield Text(line)


def _section(title: str, lines: Iterable[str]) -> Iterator[Text]:
    from rich.text import Text

    for number, line in enumerate(lines):
        if not number:
            yield Text()
            yield Text(title, style="bold")
        yield Text(f"  {line}")


def _dim(line: str) -> Text:
    from rich.text import Text

    return Text(line, style="dim")


def _defined(location: Location | None) -> str:
    return f", defined at {location}" if location else ""


def _at(location: Location | None) -> str:
    return f" at {location}" if location else ""
