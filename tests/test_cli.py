"""`fusegate run`, `explain`, `rules` and `doctor`, each as the process that a user starts."""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import fusegate
from fusegate.cli import pages
from fusegate.rules import RULES
from fusegate.runtime.capabilities import probe

ROOT = Path(__file__).resolve().parent.parent

CLEAN = "fusegate: 0 boundaries, 0 traces, 0 compiles, 0 violations"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, below which there is no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder):
    """Starts `fusegate ...`; returns status, out and err."""

    def start(*words, input=None, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("FUSEGATE_")}
        inherited |= {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "fusegate", *words],
            env=inherited | environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return SimpleNamespace(status=done.returncode, out=done.stdout, err=done.stderr)

    return start


@pytest.fixture
def program(folder):
    """Writes a program; returns its file name."""

    def program(source, name="prover.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return name

    return program


class TestTheProgram:
    """What the program sees is what Python would have shown it."""

    FACTS = """
        import json, sys, types
        main = sys.modules["__main__"]
        class Point: pass
        print(json.dumps({
            "argv": sys.argv, "name": __name__, "path": sys.path[0], "file": __file__,
            "package": __package__, "spec": __spec__ and __spec__.name, "doc": __doc__,
            "main": vars(main) is globals(), "class": Point.__module__,
            "builtins": type(__builtins__).__name__, "extra": sorted(set(globals()) - {
                "json", "sys", "types", "main", "Point", "__annotations__"}),
        }))
    """

    def facts(self, folder, *words):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout)

    def test_a_script_sees_what_it_sees_under_python(self, start, program, folder):
        script = program(self.FACTS)
        ran = start("run", script, "one", "--json", "--", "-m")
        assert ran.status == 0, ran.err
        assert json.loads(ran.out) == self.facts(folder, script, "one", "--json", "--", "-m")

    def test_a_script_elsewhere_imports_its_neighbours(self, start, program, folder):
        program("NAME = 'neighbour'", "sub/neighbour.py")
        program("import neighbour; print(neighbour.NAME)", "sub/main.py")
        (folder / "link.py").symlink_to(folder / "sub" / "main.py")
        assert start("run", "sub/main.py").out == "neighbour\n"
        assert start("run", "link.py").out == "neighbour\n"

    @pytest.mark.parametrize("name", ["package/__main__.py", "package/tool.py", "single.py"])
    def test_a_module_sees_what_it_sees_under_python(self, start, program, folder, name):
        program("", "package/__init__.py")
        program(self.FACTS, name)
        module = name.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
        words = ("-m", module, "--mode", "loud", "--json", "x", "-m", "y")
        ran = start("run", *words)
        assert ran.status == 0, ran.err
        assert json.loads(ran.out) == self.facts(folder, *words)
        assert json.loads(start("run", f"-m{module}").out)["argv"][1:] == []

    def test_its_output_is_its_own_and_the_report_is_beside_it(self, start, program):
        ran = start("run", program("print('proof')"))
        assert ran.out == "proof\n"
        assert ran.err == f"\n{CLEAN}\nno boundary was called, or the mode is off\n"
        assert ran.status == 0

    def test_no_runtime_is_imported_for_it(self, start, program):
        ran = start(
            "run",
            program("import sys; print({'jax', 'frx', 'equinox', 'numpy'} & set(sys.modules))"),
        )
        assert ran.out == "set()\n"

    def test_the_mode_is_set_only_where_it_is_asked_for(self, start, program):
        script = program("from fusegate import config; print(config.resolve())")
        assert start("run", script).out == "warn\n"
        assert start("run", script, FUSEGATE_MODE="strict").out == "strict\n"
        assert start("run", "--mode", "off", script, FUSEGATE_MODE="strict").out == "off\n"


class TestItsEnd:
    """The exit status is the program's own; its traceback starts in the program."""

    @pytest.mark.parametrize(
        ("leaving", "status", "told"),
        [
            ("sys.exit()", 0, ""),
            ("sys.exit(None)", 0, ""),
            ("sys.exit(7)", 7, ""),
            ("sys.exit(True)", 1, ""),
            ("sys.exit('bad proof')", 1, "bad proof\n"),
            ("raise SystemExit(3)", 3, ""),
        ],
    )
    def test_system_exit_keeps_its_code(self, start, program, leaving, status, told):
        ran = start("run", program(f"import sys\n{leaving}"))
        assert ran.status == status
        assert ran.err.startswith(f"{told}\n{CLEAN}")
        assert "Traceback" not in ran.err

    def test_an_exception_shows_as_under_python_and_then_the_report(self, start, program, folder):
        script = program(
            """
            def prove():
                raise ValueError("no witness")
            try:
                {}["x"]
            except KeyError:
                prove()
            """
        )
        plain = subprocess.run(
            [sys.executable, script],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        ran = start("run", script)
        assert ran.status == plain.returncode == 1
        assert plain.stderr.count("Traceback") == 2
        assert ran.err.startswith(f"{plain.stderr}\n{CLEAN}")

    def test_a_syntax_error_shows_as_under_python(self, start, program, folder):
        script = program("x = = 1\n")
        plain = subprocess.run(
            [sys.executable, script],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        ran = start("run", script)
        assert ran.status == 1
        assert ran.err.startswith(f"{plain.stderr}\n{CLEAN}")

    def test_a_missing_import_of_the_program_is_its_own_fault(self, start, program):
        program("import absent_library", "tool.py")
        for words in (("tool.py",), ("-m", "tool")):
            ran = start("run", *words)
            assert ran.status == 1
            assert "ModuleNotFoundError: No module named 'absent_library'" in ran.err
            assert "fusegate/cli" not in ran.err
            assert CLEAN in ran.err

    def test_its_own_exception_hook_is_used(self, start, program):
        ran = start(
            "run",
            program(
                """
                import sys
                def hook(kind, error, traceback):
                    print("hooked", kind.__name__, traceback.tb_frame.f_code.co_name)
                sys.excepthook = hook
                raise KeyError("x")
                """
            ),
        )
        assert (ran.status, ran.out) == (1, "hooked KeyError <module>\n")
        assert CLEAN in ran.err

    def test_an_exception_hook_that_fails_costs_no_report(self, start, program):
        ran = start(
            "run",
            program("import sys\nsys.excepthook = lambda *a: 1 / 0\nraise KeyError('x')"),
        )
        assert ran.status == 1
        assert "ZeroDivisionError" in ran.err
        assert "KeyError: 'x'" in ran.err
        assert CLEAN in ran.err

    def test_an_interrupt_still_reports(self, start, program):
        ran = start("run", program("raise KeyboardInterrupt"))
        assert ran.status == 130
        assert "KeyboardInterrupt" in ran.err
        assert CLEAN in ran.err

    def test_a_usage_error_of_a_program_that_uses_click_is_not_ours(self, start, program):
        ran = start("run", program("import click\nraise click.UsageError('theirs')"))
        assert ran.status == 1
        assert ran.err.startswith("Traceback")
        assert CLEAN in ran.err

    def test_a_program_that_closes_its_streams_gets_its_files(self, start, program, folder):
        ran = start(
            "run",
            "--json",
            "out.json",
            program("import sys\nsys.stdout.close()\nsys.stderr.close()"),
        )
        assert ran.status == 0
        assert json.loads((folder / "out.json").read_text())["clean"] is True

    def test_threads_that_go_on_are_mentioned(self, start, program):
        ran = start(
            "run",
            program(
                "import threading, time\nthreading.Thread(target=time.sleep, args=(3,)).start()"
            ),
        )
        assert ran.status == 0
        assert "1 thread still runs: what it does from here is not above" in ran.err


class TestUsage:
    """A wrong command line is told before any line of the program has run."""

    @pytest.fixture(autouse=True)
    def files(self, program):
        program("open('ran', 'w').close()")
        program("open('ran', 'w').close()", "package/__init__.py")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ((), "missing SCRIPT, or -m MODULE"),
            (("--json", "out.json"), "missing SCRIPT, or -m MODULE"),
            (("-m",), "Option '-m' requires an argument"),
            (("absent.py",), "cannot read absent.py: No such file or directory"),
            (("package",), "package is a directory; -m MODULE runs a package"),
            (("-m", "absent"), "no module named absent"),
            (("-m", "absent.part"), "no module named absent"),
            (("-m", "prover.py"), "no module named prover.py: prover is not a package"),
            (("-m", "../prover"), "'../prover' is not the name of a module"),
            (("-m", "__main__"), "no module named __main__"),
            (("--mode", "loud", "prover.py"), "'loud' is not one of 'strict', 'warn', 'off'"),
            (("--colour", "prover.py"), "No such option"),
            (("--json", ".", "prover.py"), "is a directory"),
            (("--json", "absent/out.json", "prover.py"), "there is no directory"),
            (("--html", "absent/out.html", "prover.py"), "there is no directory"),
            (("--json", "prover.py", "prover.py"), "is the program itself"),
            (("--json", "o", "--html", "./o", "prover.py"), "name the same file"),
        ],
    )
    def test_it_is_told_and_nothing_runs(self, start, folder, words, told):
        ran = start("run", *words)
        assert ran.status == 2
        assert told in " ".join(ran.err.split())
        assert "Traceback" not in ran.err
        assert ran.out == ""
        assert not (folder / "ran").exists()
        assert (folder / "prover.py").read_text() == "open('ran', 'w').close()"

    def test_a_package_without_a_main_is_told(self, start):
        ran = start("run", "-m", "package")
        assert ran.status == 2
        assert "no module named package.__main__" in ran.err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
    def test_a_file_without_permission_is_told(self, start, folder):
        (folder / "out.json").touch(mode=0o400)
        assert start("run", "--json", "out.json", "prover.py").status == 2
        (folder / "prover.py").chmod(0)
        assert start("run", "prover.py").status == 2

    def test_malformed_settings_are_told(self, start, folder):
        ran = start("run", "prover.py", FUSEGATE_MODE="loud")
        assert ran.status == 2
        assert "FUSEGATE_MODE: unknown mode 'loud'" in ran.err
        (folder / "pyproject.toml").write_text("[tool.fusegate]\nmood = 'strict'\n")
        ran = start("run", "prover.py")
        assert ran.status == 2
        assert "has no key 'mood'" in ran.err
        assert not (folder / "ran").exists()

    def test_an_unknown_command_is_told(self, start):
        assert start("prove").status == 2
        assert start("explain").status == 2


class TestBoundaries:
    """A real program, on the runtime of this run."""

    @pytest.fixture
    def prover(self, program, runtime):
        def prover(*calls, decorator="fusegate.island(max_traces=1)"):
            lines = "\n".join(calls)
            return program(
                f"import {runtime}\nimport {runtime}.numpy as jnp\nimport fusegate\n\n"
                f"@{decorator}\ndef fold(table):\n    return table + table\n\n"
                f"{lines}\n"
            )

        return prover

    def test_clean(self, start, prover, folder):
        script = prover("for _ in range(3): fold(jnp.ones(4))", "print('verified')")
        ran = start("run", "--mode", "strict", "--json", "r.json", "--html", "r.html", script)
        assert (ran.status, ran.out) == (0, "verified\n"), ran.err
        assert "fusegate: 1 boundary, 1 trace, 1 compile, 0 violations" in ran.err
        assert "island, defined at prover.py:5" in ran.err
        assert "\x1b" not in ran.err
        data = json.loads((folder / "r.json").read_text())
        assert data["schema"] == "fusegate.report/1"
        fold = data["boundaries"]["fold"]
        assert (fold["traces"], fold["compiles"], fold["violations"]) == (1, 1, 0)
        assert fold["keys"] == ["table: f32[4]"]
        assert fold["compile_s"] > 0
        assert "1 boundary, 1 trace, 1 compile, 0 violations" in (folder / "r.html").read_text()

    def test_a_retrace_in_warn_is_status_1_and_the_program_runs_on(self, start, prover, folder):
        script = prover("for n in (8, 4, 2): fold(jnp.ones(n))", "print('done')")
        ran = start("run", "--mode", "warn", "--json", "r.json", script)
        assert (ran.status, ran.out) == (1, "done\n")
        assert ran.err.count("ViolationWarning: FG201 retrace: island `fold` (prover.py:5)") == 1
        assert "again: `table` f32[8] -> f32[4] (shape)" in ran.err
        data = json.loads((folder / "r.json").read_text())
        assert data["clean"] is False
        (finding,) = data["violations"]
        assert (finding["code"], finding["count"], finding["location"]["line"]) == ("FG201", 2, 9)
        assert finding["cause"]["kind"] == "shape"

    def test_a_violation_that_escapes_in_strict_is_a_traceback_and_the_report(
        self, start, prover, folder
    ):
        script = prover("for n in (8, 4): fold(jnp.ones(n))", "print('never')")
        ran = start("run", "--mode", "strict", "--json", "r.json", script)
        assert (ran.status, ran.out) == (1, "")
        assert ran.err.startswith("Traceback (most recent call last):\n")
        assert 'prover.py", line 9, in <module>' in ran.err.splitlines()[1]
        traceback, report = ran.err.split("\nfusegate: ")
        assert "fusegate.TraceViolation: FG201 retrace" in traceback
        assert report.startswith("1 boundary, 2 traces, 1 compile, 1 violation\n")
        assert len(json.loads((folder / "r.json").read_text())["violations"]) == 1

    def test_a_violation_that_is_caught_in_strict_is_still_status_1(self, start, prover):
        script = prover(
            "fold(jnp.ones(8))",
            "try: fold(jnp.ones(4))",
            "except fusegate.Violation: print('caught')",
        )
        ran = start("run", "--mode", "strict", script)
        assert (ran.status, ran.out) == (1, "caught\n")

    def test_the_programs_own_status_wins_over_violations(self, start, prover):
        script = prover("for n in (8, 4): fold(jnp.ones(n))", "raise SystemExit(7)")
        ran = start("run", "--mode", "warn", script)
        assert ran.status == 7
        assert "FG201 retrace" in ran.err

    def test_leaving_with_zero_does_not_hide_violations(self, start, prover):
        script = prover("for n in (8, 4): fold(jnp.ones(n))", "raise SystemExit(0)")
        assert start("run", "--mode", "warn", script).status == 1

    def test_an_exception_of_the_program_keeps_the_report_and_its_files(
        self, start, prover, folder
    ):
        script = prover("fold(jnp.ones(8))", "import os; os.chdir('/')", "raise KeyError('x')")
        ran = start("run", "--json", "r.json", script)
        assert ran.status == 1
        assert "KeyError: 'x'" in ran.err
        assert "1 boundary, 1 trace, 1 compile, 0 violations" in ran.err
        assert json.loads((folder / "r.json").read_text())["clean"] is True

    def test_off_counts_nothing(self, start, prover):
        ran = start("run", "--mode", "off", prover("for n in (8, 4): fold(jnp.ones(n))"))
        assert ran.status == 0
        assert "no boundary was called, or the mode is off" in ran.err

    def test_an_existing_report_is_written_over(self, start, program, folder):
        (folder / "r.json").write_text("old" * 10_000)
        assert start("run", "--json", "r.json", program("")).status == 0
        assert json.loads((folder / "r.json").read_text())["boundaries"] == {}


class TestRules:
    @pytest.mark.parametrize("word", ["FG201", "fg201", "retrace"])
    def test_explain_prints_the_page(self, start, word):
        ran = start("explain", word)
        assert ran.status == 0, ran.err
        assert "FG201 retrace" in ran.out
        assert "How to fix it" in ran.out
        assert "\x1b" not in ran.out

    def test_every_rule_has_its_page_at_hand(self):
        for code, rule in RULES.items():
            assert "## How to allow it" in pages.page_of(rule), code

    def test_the_wheel_takes_the_pages_along(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
        assert wheel["force-include"] == {"docs/rules": "fusegate/_rules"}

    def test_an_installed_wheel_has_the_pages_inside(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fusegate, "__file__", str(tmp_path / "fusegate" / "__init__.py"))
        assert "missing from this installation" in pages.page_of(RULES["FG201"])
        inside = tmp_path / "fusegate" / "_rules"
        inside.mkdir(parents=True)
        (inside / "FG201.md").write_text("# FG201 from the wheel")
        assert pages.page_of(RULES["FG201"]) == "# FG201 from the wheel"

    def test_an_unknown_rule_names_those_that_come_near(self, start):
        ran = start("explain", "FG2O1")
        assert ran.status == 2
        assert "there is no rule 'FG2O1'" in ran.err
        assert "FG201 retrace" in ran.err
        assert ran.out == ""

    @pytest.mark.parametrize(
        ("word", "near"), [("FG21", "FG211"), ("retraces", "FG201"), ("", "FG"), ("host", "FG211")]
    )
    def test_near_rules(self, word, near):
        found = pages.near_rules(word)
        assert any(rule.code.startswith(near) for rule in found)
        assert 1 <= len(found) <= 6

    def test_rules_lists_all_of_them(self, start):
        ran = start("rules")
        assert ran.status == 0
        for code, rule in RULES.items():
            row = next(line for line in ran.out.splitlines() if code in line)
            assert row.split()[1:3] == [rule.slug, rule.severity]


class TestDoctor:
    def test_it_shows_versions_settings_and_what_can_be_observed(self, start, runtime):
        ran = start("doctor", "--runtime", runtime)
        assert ran.status == 0, ran.out
        assert f"fusegate-jit  {fusegate.__version__}" in ran.out
        assert "mode          warn" in ran.out
        assert "imported by this command: none" in ran.out
        assert f"{runtime}.monitoring listeners" in ran.out
        for what, how in (
            ("compiled modules: launch counts, kernels", "LoadedExecutable.hlo_modules and "),
            ("memory plans: temp and peak bytes", "LoadedExecutable.get_compiled_memory_stats"),
        ):
            assert re.search(rf"^  yes  {what}\s+{re.escape(how)}", ran.out, re.MULTILINE), ran.out
        assert ran.out.count("\n  yes  ") == len(probe())
        assert "\n  NO  " not in ran.out

    def test_a_runtime_that_cannot_be_imported_is_told(self, start, folder):
        (folder / "jax.py").write_text("raise RuntimeError('no driver')")
        ran = start("doctor", "--runtime", "jax")
        assert ran.status == 1
        assert "cannot be examined: RuntimeError: no driver" in ran.out

    def test_bad_usage_is_told(self, start):
        assert start("doctor", "--runtime", "torch").status == 2
        ran = start("doctor", FUSEGATE_MODE="loud")
        assert ran.status == 2
        assert "unknown mode 'loud'" in ran.err


def test_version_and_help(start):
    assert start("--version").out.split() == ["fusegate,", "version", fusegate.__version__]
    shown = start("run", "--help").out
    assert "standard error" in shown
    assert "Exit status" in shown
