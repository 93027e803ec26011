"""The fixture `fusegate_pins` and `--fusegate-pins`, in suites of their own."""

import importlib.util
import textwrap
import tomllib

import pytest

from tests.conftest import RUNTIME

pytest.importorskip("tomlkit")
pytest_plugins = "pytester"

SUITE = """
    import {runtime}
    import jax.numpy as jnp
    import fusegate as fg

    @fg.island
    def prove(x):
        return {body}

    def test_prove(fusegate_pins):
        fusegate_pins(prove, jnp.ones(64))

    def test_other(fusegate_pins):
        fusegate_pins(lambda x: x + 1, jnp.ones(64), name="other")
"""


@pytest.fixture
def suite(pytester, plugin_run):
    pytester.makeini("[pytest]\n")
    pytester.mkdir("tests")

    def suite(*options, body="x * 2", source=SUITE, runtime=RUNTIME):
        (pytester.path / "tests" / "test_suite.py").write_text(
            textwrap.dedent(source.format(runtime=runtime, body=body))
        )
        return plugin_run(*options)

    return suite


def test_update_then_check_then_a_regression_then_update(suite, pytester):
    path = pytester.path / "tests" / "fusegate-pins.toml"
    suite().assert_outcomes(failed=2)  # nothing is pinned yet
    assert not path.exists()
    done = suite("--fusegate-pins=update")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        ["pins: * figures written to *fusegate-pins.toml", "*other, * launches (none) -> 1"]
    )
    written = path.read_text()
    suite("--fusegate-pins=check").assert_outcomes(passed=2)
    done = suite(body="jnp.sort(x * 2)")
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(
        ["*FG501 launches-pin: island `prove`*", "*launches 1 -> 2*sort 0 -> 1*"]
    )
    assert path.read_text() == written
    suite("--fusegate-pins=off", body="jnp.sort(x * 2)").assert_outcomes(passed=2)
    suite("--fusegate-pins=update", body="jnp.sort(x * 2)").assert_outcomes(passed=2)
    suite(body="jnp.sort(x * 2)").assert_outcomes(passed=2)


def test_workers_of_xdist_write_one_file(suite, pytester):
    pytest.importorskip("xdist")
    done = suite("--fusegate-pins=update", "-p", "xdist", "-n", "2")
    done.assert_outcomes(passed=2)
    text = (pytester.path / "tests" / "fusegate-pins.toml").read_text()
    assert "[prove." in text
    assert "[other." in text


def test_another_version_is_skipped_and_told(suite, pytester):
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text('[prove."jax 0.0 tpu"]\nlaunches = 1\n\n[other."jax 0.0 tpu"]\nlaunches = 1\n')
    done = suite()
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["pins not checked: prove: pinned for jax 0.0 tpu; this is *"])


@pytest.mark.parametrize("option", ["check", "update"])
def test_a_corrupt_file_ends_the_run_before_any_test(suite, pytester, option):
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text("[prove")
    done = suite(f"--fusegate-pins={option}")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*fusegate-pins.toml: not readable as TOML*"])
    assert path.read_text() == "[prove"


@pytest.mark.parametrize("option", ["check", "update"])
def test_a_corrupt_file_ends_the_run_under_xdist_too(suite, pytester, option):
    pytest.importorskip("xdist")
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text("prove = 3")
    done = suite(f"--fusegate-pins={option}", "-p", "xdist", "-n", "2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*fusegate-pins.toml: [[]prove] is int, not a table*"])
    assert path.read_text() == "prove = 3"


def test_a_corrupt_file_is_left_alone_in_off(suite, pytester):
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text("[prove")
    suite("--fusegate-pins=off").assert_outcomes(passed=2)
    assert path.read_text() == "[prove"


def test_a_file_that_is_spoilt_while_the_suite_runs_is_told_and_left_alone(suite, pytester):
    path = pytester.path / "tests" / "fusegate-pins.toml"
    spoil = """
    from pathlib import Path

    def test_spoil():
        Path(__file__).with_name("fusegate-pins.toml").write_text("[prove")
    """
    done = suite("--fusegate-pins=update", source=textwrap.dedent(SUITE) + textwrap.dedent(spoil))
    done.assert_outcomes(passed=3)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stdout.fnmatch_lines(["pins: nothing is written: *fusegate-pins.toml: not readable*"])
    done.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert path.read_text() == "[prove"


MARKED = """
    import {runtime}
    import jax.numpy as jnp
    import pytest
    import fusegate as fg

    @fg.island
    def prove(x):
        return {body}

    @pytest.mark.fusegate(mode="warn")
    def test_warn(fusegate_pins):
        fusegate_pins(prove, jnp.ones(64))

    @pytest.mark.fusegate(mode="off")
    def test_off(fusegate_pins):
        fusegate_pins(prove, jnp.ones(64))

    @pytest.mark.fusegate(allow=["FG501", "FG502", "FG503"], reason="a sort is meant")
    def test_allowed(fusegate_pins):
        fusegate_pins(prove, jnp.ones(64))
"""


def test_pins_are_assertions_in_every_mode(suite):
    """As those of `fusegate.testing` are: what does nothing in off are the boundaries."""
    suite("--fusegate-pins=update", source=MARKED).assert_outcomes(passed=3)
    for mode in ("strict", "warn", "off"):
        done = suite(f"--fusegate={mode}", source=MARKED, body="jnp.sort(x * 2)")
        done.assert_outcomes(failed=2, passed=1)
        done.stdout.fnmatch_lines(["FAILED *::test_warn - *FG501*", "FAILED *::test_off - *FG501*"])


def test_workers_of_xdist_keep_what_they_did_not_find(suite, pytester):
    pytest.importorskip("xdist")
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text('# ours\n[gone."jax 0.0 tpu"]\nlaunches = 3 # inherent\n')
    suite("--fusegate-pins=update", "-p", "xdist", "-n", "2").assert_outcomes(passed=2)
    text = path.read_text()
    assert "# ours" in text
    assert "launches = 3 # inherent" in text
    assert set(tomllib.loads(text)) == {"gone", "prove", "other"}
    # The same figures as one process finds: nothing is left to write.
    done = suite("--fusegate-pins=update")
    done.stdout.fnmatch_lines(["pins: 0 figures written to *"])
    assert path.read_text() == text
    suite("-p", "xdist", "-n", "2").assert_outcomes(passed=2)
    done = suite("-p", "xdist", "-n", "2", body="jnp.sort(x * 2)")
    done.assert_outcomes(failed=1, passed=1)


def test_what_workers_of_xdist_skipped_is_told(suite, pytester):
    pytest.importorskip("xdist")
    path = pytester.path / "tests" / "fusegate-pins.toml"
    path.write_text('[prove."jax 0.0 tpu"]\nlaunches = 1\n\n[other."jax 0.0 tpu"]\nlaunches = 1\n')
    done = suite("-p", "xdist", "-n", "2")
    done.assert_outcomes(skipped=2)
    for name in ("prove", "other"):
        done.stdout.fnmatch_lines([f"pins not checked: {name}: pinned for jax 0.0 tpu; this is *"])


def test_each_runtime_has_rows_of_its_own(suite, pytester):
    others = {"frx", "jax"} - {RUNTIME}
    if any(importlib.util.find_spec(name) is None for name in others):
        pytest.skip("needs both runtimes")
    path = pytester.path / "tests" / "fusegate-pins.toml"
    for runtime in ("frx", "jax"):
        suite("--fusegate-pins=update", runtime=runtime).assert_outcomes(passed=2)
    pinned = tomllib.loads(path.read_text())["prove"]
    assert sorted(name.partition(" ")[0] for name in pinned) == ["frx", "jax"]
    suite(runtime="frx").assert_outcomes(passed=2)


TIMED = """
    import {runtime}
    import jax, jax.numpy as jnp
    import fusegate as fg

    @fg.island(donate_argnums=(0,))
    def prove(x, w):
        step = lambda _, c: jnp.sin(c) * w + c[::-1]
        return jax.lax.fori_loop(0, 40 * {body}, step, x)

    def test_prove(fusegate_pins):
        fusegate_pins(prove, jnp.ones(4096), jnp.ones(4096), runtime=True)

    def test_struct(fusegate_pins):
        x = jax.ShapeDtypeStruct((4096,), "float32")
        fusegate_pins(prove, x, x, runtime=True, name="struct")
"""


def test_a_slower_call_is_an_advice_in_the_summary(suite, pytester):
    pytest.importorskip("xdist")
    workers = ("-p", "xdist", "-n", "2")
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    path = pytester.path / "tests" / "fusegate-pins.toml"
    done = suite("--fusegate-pins=update", *workers, source=TIMED, body="1")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["pins not checked: runtime of struct: not observed: *Struct*"])
    ((row,), (other,)) = (list(rows.values()) for rows in tomllib.loads(path.read_text()).values())
    assert row["runtime"] > 0
    assert "runtime" not in other
    written = path.read_text()
    done = suite(*workers, source=TIMED, body="30")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            "pins not checked: runtime of struct: not observed: *Struct*",
            "advice: FG505 runtime-pin: island `prove` *",
            "* seen: * a warm call takes * times the reference kernel *",
        ]
    )
    assert path.read_text() == written
    done = suite("--fusegate-pins=update", source=TIMED, body="30")
    done.stdout.fnmatch_lines(["pins: 1 figures written to *", "*prove, *: runtime * -> *"])
