"""The rule pages: shipped in the wheel as `fusegate/_rules`, read from `docs/rules` in a checkout."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

import fusegate
from fusegate.rules import RULES, Rule, lookup


def explain(code: str) -> None:
    """Prints the page of a rule.

    Args:
        code: A code or a slug, in any case.

    Raises:
        click.UsageError: There is no such rule; the message names those that come near.
    """
    try:
        rule = lookup(code)
    except ValueError:
        near = ", ".join(f"{one.code} {one.slug}" for one in near_rules(code))
        raise click.UsageError(
            f"there is no rule {code!r}; did you mean {near}? `fusegate rules` lists them all"
        ) from None
    from rich.console import Console
    from rich.markdown import Markdown

    Console(highlight=False).print(Markdown(page_of(rule)))


def near_rules(word: str) -> list[Rule]:
    """The rules whose code or slug comes near a word, at least one and at most six.

    Args:
        word: What somebody typed.
    """
    wanted = word.strip().lower()
    begins = [
        rule
        for rule in RULES.values()
        if wanted and (rule.code.lower().startswith(wanted) or wanted in rule.slug)
    ]
    names = {name: rule for rule in RULES.values() for name in (rule.code.lower(), rule.slug)}
    close = [names[name] for name in difflib.get_close_matches(wanted, names, n=6, cutoff=0.0)]
    return list(dict.fromkeys([*begins, *close]))[:6]


def page_of(rule: Rule) -> str:
    """Returns the page of a rule as Markdown.

    Args:
        rule: The rule.
    """
    package = Path(fusegate.__file__).parent
    for folder in (package / "_rules", package.parent / "docs" / "rules"):
        page = folder / f"{rule.code}.md"
        if page.is_file():
            return page.read_text(encoding="utf-8")
    return (
        f"# {rule.code} {rule.slug}\n\n{rule.summary}\n\n## How to fix it\n\n{rule.remedy}\n\n"
        "*The page of this rule is missing from this installation.*\n"
    )


def list_rules() -> None:
    """Prints a table of all rules."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for title in ("code", "rule", "severity"):
        table.add_column(title, no_wrap=True)
    table.add_column("when it speaks")
    for rule in RULES.values():
        table.add_row(rule.code, rule.slug, rule.severity.value, rule.summary)
    Console(highlight=False).print(table)
