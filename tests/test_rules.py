"""A rule is four things: its row, its page, a test in which it bites, a test in which it stays quiet."""

import ast
import re
from pathlib import Path

import pytest

from fusegate.rules import FAMILIES, RULES, lookup

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "rules"


@pytest.mark.parametrize("code", RULES)
def test_a_rule_has_a_page_with_its_title(code):
    page = PAGES / f"{code}.md"
    assert page.is_file(), f"docs/rules/{code}.md is missing"
    title = page.read_text(encoding="utf-8").partition("\n")[0]
    assert title == f"# {code} {RULES[code].slug}"


@pytest.mark.parametrize("code", RULES)
def test_a_page_says_what_a_reader_needs(code):
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {"What it means", "How to fix it", "How to allow it"} <= set(headings)
    assert "```python" in text, "no program that triggers it"


@pytest.mark.parametrize("code", RULES)
def test_a_rule_has_a_test_that_bites_and_one_that_stays_quiet(code):
    path = ROOT / "tests" / "rules" / f"test_{code.lower()}.py"
    assert path.is_file(), f"{path.relative_to(ROOT)} is missing"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    quiet = [name for name in names if name.startswith("test_quiet")]
    assert quiet, f"no test_quiet_... in {path.name}"
    assert [n for n in names if n.startswith("test_") and n not in quiet], (
        f"no test bites in {path.name}"
    )


def test_no_page_is_left_of_a_rule_that_is_gone():
    pages = {path.stem for path in PAGES.glob("FG*.md")}
    assert pages == set(RULES)


def test_the_index_lists_every_rule():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    rows = [
        f"| [{code}]({code}.md) | {rule.slug} | {rule.severity} | {rule.summary} |"
        for code, rule in RULES.items()
    ]
    shown = [line for line in index.splitlines() if line.startswith("| [FG")]
    assert shown == rows, "the table of docs/rules/index.md should be:\n" + "\n".join(rows)


def test_the_catalogue_is_in_order_and_every_rule_has_a_family():
    assert list(RULES) == sorted(RULES)
    for code, rule in RULES.items():
        assert rule.code == code
        assert code[2] in FAMILIES
        assert rule.summary.endswith(".")
        assert rule.remedy.endswith(".")


def test_lookup_takes_codes_and_slugs():
    assert lookup(" fg201 ") is RULES["FG201"]
    assert lookup("Retrace") is RULES["FG201"]
    with pytest.raises(ValueError, match=r"unknown rule 'FG999'; the rules are FG101, "):
        lookup("FG999")
