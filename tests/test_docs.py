"""Runs what the documentation shows: the README, every page under docs/, every docstring example.

A page is one program: its `python` blocks run in order, in a process of their own, in `warn` mode as
on a reader's machine. A `text` block right after a `python` block is what the block prints, warnings
included; `...` in it stands for anything. An HTML comment on the line above a block, `<!-- frx -->`,
`<!-- jax -->` or `<!-- not run -->`, keeps it to one runtime or to none; `<!-- file: prover.py -->` writes
the block to that file in place of running it, and may follow a runtime: `<!-- frx, file: conftest.py -->`.
A `sh` block is run by the shell, in the page's folder; it has to succeed unless its output is shown.
"""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import fusegate
from fusegate.config import read_project

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARK = "\x1e"
BLOCK = re.compile(
    r"(?:<!-- (?P<only>frx|jax|not run)?(?:, )?(?:file: (?P<file>\S+))? -->\n)?"
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Block:
    """One block of a page, as Python to run, with the output that the page shows."""

    code: str
    shown: str | None
    runs: bool


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


def blocks_of(page: Path, runtime: str) -> list[Block]:
    """The blocks of a page; one that is not for this runtime keeps its lines, emptied."""
    found = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        runs = match["only"] in {None, runtime}
        code = python_of(match) if runs else ""
        code += "\n" * (match["code"].count("\n") - code.count("\n"))
        found.append(Block(code, match["shown"], runs))
    return found


def python_of(block: re.Match[str]) -> str:
    """A block as Python: as it is, or one line that writes the file or runs the commands."""
    code = block["code"]
    if block["file"]:
        return (
            f"_file = __import__('pathlib').Path({block['file']!r}); "
            f"_file.parent.mkdir(exist_ok=True); _file.write_text({code!r})\n"
        )
    if block["language"] == "sh":
        checked = block["shown"] is None
        return f"__import__('subprocess').run({code!r}, shell=True, check={checked})\n"
    return code


def program_of(blocks: list[Block]) -> str:
    """The page as one program; a line between two blocks marks the end of the first one's output."""
    return "".join(f'{block.code}print(end="{MARK}")\n' for block in blocks)


def run_page(page: Path, runtime: str, folder: Path) -> tuple[list[Block], list[str]]:
    """Runs the blocks of a page; returns them with what each printed."""
    blocks = blocks_of(page, runtime)
    name = "prover.py" if page.name == "README.md" else f"{page.stem.lower()}.py"
    (folder / name).write_text(program_of(blocks), encoding="utf-8")
    mine = ("FUSEGATE_", "PYTEST_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    environment |= {"PYTHONUNBUFFERED": "1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A page that runs pytest does so with this package's plugin and no other.
    environment |= {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "fusegate.pytest_plugin",
    }
    start = f"import {runtime}, runpy; runpy.run_path({name!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", start],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return blocks, done.stdout.split(MARK)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page_runs_and_prints_what_it_shows(page, runtime, tmp_path):
    if not any(block.runs for block in blocks_of(page, runtime)):
        pytest.skip(f"no block for {runtime}")
    blocks, printed = run_page(page, runtime, tmp_path)
    for block, output in zip(blocks, printed, strict=False):
        if block.runs and block.shown is not None:
            shown = doctest.Example(block.code, block.shown)
            assert CHECKER.check_output(block.shown, output, FLAGS), CHECKER.output_difference(
                shown, output, FLAGS
            )


def test_a_page_that_shows_something_else_fails(runtime, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('one')\n```\n\n```text\ntwo\n```\n", encoding="utf-8")
    (block,), printed = run_page(page, runtime, tmp_path)
    assert printed[0] == "one\n"
    assert not CHECKER.check_output(block.shown, printed[0], FLAGS)


def test_files_and_commands_of_a_page_are_run(runtime, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        f"<!-- {runtime}, file: part/one.py -->\n```python\nTEXT = 'one'\n```\n"
        "```sh\ncat part/one.py\nfalse\n```\n\n```text\nTEXT = ...\n```\n"
        "```python\nfrom part.one import TEXT\nprint(TEXT)\n```\n",
        encoding="utf-8",
    )
    _, printed = run_page(page, runtime, tmp_path)
    assert printed == ["", "TEXT = 'one'\n", "one\n", ""]
    page.write_text("```sh\nfalse\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="CalledProcessError"):
        run_page(page, runtime, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_settings_shown_are_accepted(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r"^```toml\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
    for table in tables:
        path = tmp_path / "pyproject.toml"
        path.write_text(table, encoding="utf-8")
        read_project(path)


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(fusegate.__path__, "fusegate.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["fusegate", *MODULES])
def test_docstring_examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for example in finder.find(module, name):
        report = []
        runner.run(example, out=report.append)
        assert runner.failures == 0, "".join(report)
