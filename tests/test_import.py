"""Importing fusegate, its command line or its pytest plugin imports no array library, and little else.

Each check runs in a process of its own; the last tests show that the checks can fail.
"""

import subprocess
import sys

import pytest

RUNTIMES = {"jax", "jaxlib", "frx", "frxlib", "equinox", "numpy"}
RENDERING = {"rich", "click", "jinja2", "pygments"}


def imported_by(*statements):
    """Names of the modules in a fresh process after the statements, fusegate's own plugin apart."""
    code = "; ".join([*statements, "import sys", "print(*sys.modules)"])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import fusegate",
        "from fusegate import island, single_zone, round_body, driver, host_op, allow, freeze",
        "import fusegate; fusegate.report().to_json(); fusegate.set_mode('warn'); fusegate.reset()",
        "import fusegate; fusegate.island(lambda x: x)",
        "import fusegate.pytest_plugin",
        "import fusegate.cli, fusegate.cli.outcome, fusegate.cli.pages, fusegate.cli.installation",
        "import fusegate; fusegate.report().to_text(); fusegate.report().to_html()",
    ],
)
def test_no_array_library_is_imported(statement):
    assert not RUNTIMES & imported_by(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "import fusegate",
        "import fusegate; fusegate.report().to_json()",
        "import fusegate; fusegate.island(lambda x: x)",
    ],
)
def test_what_renders_reports_is_imported_when_one_is_rendered(statement):
    assert not RENDERING & imported_by(statement)


def test_import_fusegate_reads_none_of_its_modules():
    """Which is what keeps it far below 50 ms."""
    own = {name for name in imported_by("import fusegate") if name.startswith("fusegate")}
    assert own == {"fusegate"}


def test_importing_the_plugin_imports_neither_the_command_line_nor_rendering():
    modules = imported_by("import fusegate.pytest_plugin")
    assert "fusegate.cli" not in modules
    assert not RENDERING - {"pygments"} & modules  # pytest itself colours with pygments


@pytest.mark.parametrize("statement", ["import numpy", "import equinox"])
def test_the_check_can_fail(statement):
    assert RUNTIMES & imported_by("import fusegate", statement)


def test_the_check_for_rendering_can_fail():
    assert "rich" in imported_by("import fusegate; fusegate.report().to_text()")
    assert "jinja2" in imported_by("import fusegate; fusegate.report().to_html()")


def test_report_is_the_function_also_after_its_folder_is_imported():
    imported_by("import fusegate.report.text, fusegate", "fusegate.report().to_dict()")
