"""The fixture `fusegate_pins` and `--fusegate-pins`, in suites of their own."""

import os

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
def suite(pytester, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("FUSEGATE_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    pytester.makeini("[pytest]\n")
    pytester.mkdir("tests")

    def suite(*options, body="x * 2"):
        (pytester.path / "tests" / "test_suite.py").write_text(
            "\n".join(line[4:] for line in SUITE.format(runtime=RUNTIME, body=body).splitlines())
        )
        return pytester.runpytest_subprocess(
            "-p", "fusegate.pytest_plugin", "-p", "no:cacheprovider", *options
        )

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
