"""The pytest plugin, in suites of its own: each runs in a fresh process, with warnings as errors."""

import json
import sys

import pytest

import fusegate
from fusegate import config

pytest_plugins = "pytester"

HAND_MADE = """
    from fusegate import config, ledger
    from fusegate.errors import Finding, Location
    from fusegate.judge.deliver import deliver

    class Spec:
        name, role, defined = "fold", "island", Location("/app/prover.py", 88, "fold")

    def trace(**amounts):
        ledger.current().count(Spec, **{"traces": 1, "compiles": 1, **amounts})

    def violate(code="FG201", seen="seen"):
        deliver(Finding(code, "fold", Location("/app/prover.py", 131), seen), config.resolve(), Spec)

    def report():
        return ledger.current().snapshot()
"""


@pytest.fixture
def suite(pytester, plugin_run):
    """Makes a suite and runs it: `suite(source, *options)`."""
    pytester.makepyfile(hand=HAND_MADE)
    pytester.makeini("[pytest]\nfilterwarnings = error\npythonpath = .\n")

    def suite(source, *options):
        pytester.makepyfile(test_suite=source)
        return plugin_run(*options)

    return suite


class TestMode:
    PRINT = """
        from fusegate import config
        def test_mode():
            assert config.resolve() == {mode!r}
    """

    @pytest.mark.parametrize(
        ("options", "environment", "mode"),
        [
            ((), {}, "strict"),
            ((), {"FUSEGATE_MODE": "warn"}, "warn"),
            (("--fusegate=off",), {"FUSEGATE_MODE": "warn"}, "off"),
            (("--fusegate", "warn"), {}, "warn"),
            (("--fusegate=strict",), {"FUSEGATE_MODE": "off"}, "strict"),
        ],
    )
    def test_strict_unless_somebody_speaks_first(
        self, suite, monkeypatch, options, environment, mode
    ):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        suite(self.PRINT.format(mode=mode), *options).assert_outcomes(passed=1)

    def test_settings_of_the_project_come_before_the_plugin(self, suite, pytester):
        pytester.makepyprojecttoml("[tool.fusegate]\nmode = 'warn'\n")
        suite(self.PRINT.format(mode="warn")).assert_outcomes(passed=1)

    def test_set_mode_in_a_conftest_comes_before_the_plugin(self, suite, pytester):
        pytester.makeconftest("import fusegate; fusegate.set_mode('off')")
        suite(self.PRINT.format(mode="off")).assert_outcomes(passed=1)

    def test_an_unknown_mode_is_a_usage_error(self, suite):
        done = suite(self.PRINT.format(mode="strict"), "--fusegate=loud")
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        done.stderr.fnmatch_lines(["*--fusegate: invalid choice: 'loud'*"])

    def test_a_session_inside_a_session_leaves_the_outer_mode_alone(self, pytester):
        before = config.resolve()
        pytester.makepyfile("def test(): pass")
        pytester.runpytest_inprocess("--fusegate=off", "-p", "no:cacheprovider").assert_outcomes(
            passed=1
        )
        assert config.resolve() == before
        pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
        assert config.resolve() == before

    def test_after_the_last_session_nothing_is_left(self, suite, pytester):
        pytester.makepyfile(
            main="""
            import pytest
            from fusegate import config
            status = pytest.main(["-p", "fusegate.pytest_plugin", "--fusegate=off", "test_suite.py"])
            print("after:", int(status), config.resolve())
            """
        )
        suite("def test(): pass")
        done = pytester.runpython(pytester.path / "main.py")
        done.stdout.fnmatch_lines(["after: 0 warn"])


class TestMarker:
    def test_the_closest_mode_wins_and_ends_with_its_test(self, suite):
        suite(
            """
            import pytest
            from fusegate import config

            @pytest.mark.fusegate(mode="warn")
            class TestClass:
                def test_class(self):
                    assert config.resolve() == "warn"

                @pytest.mark.fusegate(mode="off")
                def test_function(self):
                    assert config.resolve() == "off"

            def test_after():
                assert config.resolve() == "strict"
            """
        ).assert_outcomes(passed=3)

    def test_the_mode_holds_in_fixtures_of_the_test(self, suite):
        suite(
            """
            import pytest
            from fusegate import config

            @pytest.fixture
            def seen():
                assert config.resolve() == "off"
                yield
                assert config.resolve() == "off"

            @pytest.mark.fusegate(mode="off")
            def test_mode(seen): pass
            """
        ).assert_outcomes(passed=1)

    def test_allow_lets_a_rule_pass_and_no_other(self, suite):
        suite(
            """
            import pytest
            from hand import report, violate
            from fusegate import Violation

            pytestmark = pytest.mark.fusegate(allow=["FG202"])

            @pytest.mark.fusegate(allow=["retrace"], reason="two shapes are meant")
            def test_allowed():
                violate("FG201")
                violate("FG202")
                assert set(report().allowed) == {
                    ("FG201", "two shapes are meant", 1),
                    ("FG202", "allowed by the marker of a test", 1),
                }
                with pytest.raises(Violation, match="FG210"):
                    violate("FG210")

            def test_not_allowed():
                with pytest.raises(Violation, match="FG201"):
                    violate("FG201")
            """
        ).assert_outcomes(passed=2)

    @pytest.mark.parametrize(
        ("marker", "told"),
        [
            ("mode='loud'", "unknown mode 'loud'; the modes are strict, warn, off"),
            ("mode=3", "a mode is a word or a Mode, not int"),
            ("allow=['FG999']", "unknown rule 'FG999'"),
            ("allow='FG201'", 'allow= takes a list of codes, as ["FG201"], not str'),
            ("allow=[201]", "allow= takes codes as words, not int"),
            ("allow=None", "allow= takes a list of codes"),
            ("allow=['FG201'], reason=' '", "reason= takes words"),
            ("reason='why'", "reason= belongs to allow="),
            ("'warn'", "takes keywords only: mode=, allow=, reason="),
            ("modes='warn'", "has no argument 'modes'; known are mode, allow, reason"),
        ],
    )
    def test_a_mistake_in_it_is_an_error_of_that_test(self, suite, marker, told):
        done = suite(
            f"""
            import pytest

            @pytest.mark.fusegate({marker})
            def test_marked():
                raise AssertionError("ran")

            def test_other(): pass
            """
        )
        done.assert_outcomes(errors=1, passed=1)
        done.stdout.fnmatch_lines([f"@pytest.mark.fusegate: {told}*".replace("[", "[[]")])
        done.stdout.no_fnmatch_line("*pytest_plugin.py*")

    def test_it_is_documented(self, suite):
        done = suite("", "--markers")
        done.stdout.fnmatch_lines(["@pytest.mark.fusegate(mode=..., allow=[[]...], reason=...): *"])


class TestLedger:
    def test_each_test_has_its_own_from_setup_to_teardown(self, suite):
        suite(
            """
            import pytest
            from hand import report, trace
            from fusegate import ledger

            outer = ledger.current()

            @pytest.fixture
            def warmed():
                trace()
                yield
                assert report().boundaries[0].counters.traces == 2

            def test_one(warmed):
                trace()
                assert report().boundaries[0].counters.traces == 2

            def test_two():
                assert report().boundaries == ()
                assert ledger.current() is not outer

            def test_outer_is_untouched():
                assert outer.snapshot().boundaries == ()
            """
        ).assert_outcomes(passed=3)

    def test_a_warning_told_in_one_test_is_told_in_the_next(self, suite):
        suite(
            """
            import pytest
            from hand import violate
            from fusegate import ViolationWarning

            @pytest.mark.parametrize("number", [1, 2])
            def test_told(number):
                with pytest.warns(ViolationWarning):
                    violate()
            """,
            "--fusegate=warn",
        ).assert_outcomes(passed=2)

    def test_a_violation_fails_its_test_in_strict_and_passes_in_off(self, suite):
        source = """
            from hand import violate
            def test_it(): violate()
        """
        done = suite(source)
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(["E*TraceViolation: FG201 retrace: boundary `fold`*"])
        suite(source, "--fusegate=off").assert_outcomes(passed=1)


SUMS = """
    import pytest
    from hand import trace, violate

    @pytest.mark.parametrize("seconds", [0.5, 2.0, 1.0])
    def test_trace(seconds):
        trace(compile_s=seconds)

    @pytest.mark.parametrize("number", range(3))
    def test_violate(number):
        with pytest.raises(Exception):
            violate()
"""


class TestSummary:
    def test_it_sums_over_the_session(self, suite):
        done = suite(SUMS)
        done.assert_outcomes(passed=6)
        done.stdout.fnmatch_lines(
            [
                "*= fusegate =*",
                "1 boundary, 3 traces, 3 compiles, 3 violations",
                "most compile time:",
                "*3.50 s    3 compiles  fold (/app/prover.py:88), most in *::test_trace[[]2.0]",
                "violations:",
                "     3x FG201 retrace: boundary `fold`, at /app/prover.py:131, first in *::test_violate[[]0]",
            ]
        )

    def test_it_is_silent_in_a_suite_without_boundaries(self, suite):
        done = suite("def test(): pass")
        done.stdout.no_fnmatch_line("*fusegate*")

    def test_the_figures_are_written_as_json(self, suite, pytester):
        done = suite(SUMS, "--fusegate-json", "out.json")
        done.stdout.fnmatch_lines(["written to */out.json"])
        data = json.loads((pytester.path / "out.json").read_text())
        assert data["schema"] == "fusegate.pytest/1"
        assert data["tests"] == 6
        (fold,) = data["boundaries"]
        assert (fold["name"], fold["traces"], fold["compiles"], fold["compile_s"]) == (
            "fold",
            3,
            3,
            3.5,
        )
        (finding,) = data["violations"]
        assert (finding["code"], finding["count"], len(finding["tests"])) == ("FG201", 3, 3)

    @pytest.mark.parametrize("target", [".", "absent/out.json"])
    def test_json_that_cannot_be_written_is_told_before_any_test(self, suite, pytester, target):
        done = suite("def test(): open('ran', 'w').close()", "--fusegate-json", target)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        done.stderr.fnmatch_lines(["ERROR: --fusegate-json*directory*"])
        assert not (pytester.path / "ran").exists()

    def test_workers_of_xdist_add_up_to_the_same(self, suite, pytester):
        pytest.importorskip("xdist")
        suite(SUMS, "--fusegate-json", "one.json")
        done = suite(SUMS, "--fusegate-json", "two.json", "-p", "xdist", "-n", "2")
        done.assert_outcomes(passed=6)
        done.stdout.fnmatch_lines(["1 boundary, 3 traces, 3 compiles, 3 violations"])

        def settled(name):
            data = json.loads((pytester.path / name).read_text())
            for finding in data["violations"]:
                finding["tests"].sort()
            return data

        assert settled("two.json") == settled("one.json")

    def test_the_mode_reaches_the_workers_of_xdist(self, suite):
        pytest.importorskip("xdist")
        done = suite(TestMode.PRINT.format(mode="off"), "--fusegate=off", "-p", "xdist", "-n", "1")
        done.assert_outcomes(passed=1)


class TestRuntimes:
    def test_a_suite_without_a_runtime_gets_none(self, suite):
        suite(
            """
            import sys
            import pytest

            @pytest.mark.fusegate(mode="warn", allow=["FG201"])
            def test_none():
                assert not {"jax", "jaxlib", "frx", "equinox", "numpy"} & set(sys.modules)
            """,
            "--fusegate-json=out.json",
        ).assert_outcomes(passed=1)

    RETRACE = """
        import pytest
        import fusegate

        @fusegate.island(max_traces=1)
        def fold(table):
            return table + table

        def prove(*sizes):
            import jax.numpy as jnp
            for size in sizes:
                fold(jnp.ones(size))

        def test_clean():
            prove(3, 3)
            assert fusegate.stats(fold).traces == 1

        def test_retrace():
            prove(4, 5)

        @pytest.mark.fusegate(mode="warn")
        def test_warned():
            with pytest.warns(fusegate.ViolationWarning, match="FG201"):
                prove(6, 7)

        @pytest.mark.fusegate(allow=["FG201"])
        def test_allowed():
            prove(8, 9)
    """

    def test_a_retrace_fails_its_test(self, suite, pytester, runtime):
        # Late, in a fixture: the decorated function exists before any runtime is imported.
        pytester.makeconftest(
            f"""
            import pytest

            @pytest.fixture(scope="session", autouse=True)
            def runtime():
                import {runtime}
                import jax
                assert jax.__name__ == {runtime!r}
            """
        )
        done = suite(self.RETRACE)
        done.assert_outcomes(passed=3, failed=1)
        done.stdout.fnmatch_lines(
            [
                "E*TraceViolation: FG201 retrace: island `fold` (test_suite.py:4), at test_suite.py:11",
                "*= fusegate =*",
                "1 boundary, 7 traces, 6 compiles, 2 violations",
                "FAILED test_suite.py::test_retrace - fusegate.TraceViolation: FG201 retrace*",
            ]
        )

    @pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")])
    def test_a_conftest_may_import_the_runtime_late(self, suite, pytester, runtime, options):
        """After the plugin and fusegate, at the top of a conftest below the first one, before jax is."""
        if options:
            pytest.importorskip("xdist")
        pytester.makeconftest(
            """
            import sys
            import fusegate
            assert not {"jax", "jaxlib", "frx", "equinox"} & set(sys.modules)

            import early
            """
        )
        pytester.makepyfile(
            early="import fusegate\ndouble = fusegate.island(lambda x: x + x, max_traces=1)"
        )
        below = pytester.mkdir("below")
        (below / "conftest.py").write_text(f"import {runtime}\nimport jax\n")
        (below / "test_below.py").write_text(
            "import jax, pytest, fusegate\n"
            "from early import double\n"
            f"def test_runtime(): assert jax.__name__ == {runtime!r}\n"
            "def test_early():\n"
            "    double(jax.numpy.ones(3))\n"
            "    assert fusegate.stats(double).traces == 1\n"
            "    with pytest.raises(fusegate.Violation, match='FG201'):\n"
            "        double(jax.numpy.ones(4))\n"
        )
        done = suite("def test_none(): pass", *options)
        done.assert_outcomes(passed=3)

    @pytest.mark.parametrize("mode", ["strict", "warn", "off"])
    def test_the_mode_of_the_suite_is_the_one_of_its_boundaries(
        self, suite, pytester, runtime, mode
    ):
        pytester.makeconftest(f"import {runtime}")
        done = suite(self.RETRACE.replace('mode="warn"', f"mode={mode!r}"), f"--fusegate={mode}")
        if mode == "strict":
            done.assert_outcomes(passed=2, failed=2)
        elif mode == "warn":  # a warning is an error in this suite
            done.assert_outcomes(passed=3, failed=1)
            done.stdout.fnmatch_lines(["E*ViolationWarning: FG201 retrace: island `fold`*"])
        else:  # nothing is counted, and nothing is told
            done.assert_outcomes(passed=2, failed=2)
            done.stdout.fnmatch_lines(["*assert 0 == 1*", "*DID NOT WARN*"])


def test_pytest_may_start_in_a_process_that_has_imported_fusegate():
    """As in `fusegate run -m pytest`: without the mark pytest warns that it cannot rewrite the package."""
    assert "PYTEST_DONT_REWRITE" in fusegate.__doc__


def test_the_entry_point_leads_here():
    from importlib.metadata import entry_points

    (found,) = entry_points(group="pytest11", name="fusegate")
    assert found.load() is sys.modules["fusegate.pytest_plugin"]
