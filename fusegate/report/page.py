"""A report as HTML: a page that needs no other file, and the fragment that a notebook shows."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from fusegate.report import text

if TYPE_CHECKING:
    from jinja2 import Environment

    from fusegate.report.model import Report


@cache
def _environment() -> Environment:
    import jinja2

    # Names, paths and reasons come from the program: everything is escaped.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("fusegate.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(template: str, report: Report) -> str:
    return _environment().get_template(template).render(_scope(report))


def _scope(report: Report) -> dict[str, Any]:
    return {
        "report": report,
        "summary": text.summary(report),
        "figure": partial(text.figure, report),
        "advice": [finding for finding in report.violations if not finding.is_error],
        "causes": {
            name: list(Counter(str(cause) for cause in one.causes).items())
            for name, one in report.boundaries.items()
        },
    }


def page(report: Report) -> str:
    """Returns a report as a whole page.

    Args:
        report: The report.
    """
    return _render("page.html", report)


def fragment(report: Report) -> str:
    """Returns a report as a piece of a page, for notebooks.

    Args:
        report: The report.
    """
    return _render("fragment.html", report)
