"""Runs the examples as a reader does, under `fusegate run`, and looks at their reports."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
REPORTED = {"01_sumcheck_single_zone.py", "02_vit_inference.py"}  # have tests of their own


def run(folder, *command):
    """Runs Python on a command; returns its exit status and its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FUSEGATE_")}
    environment |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def run_reported(name, folder):
    """Runs an example under `fusegate run`; returns its exit status, its output and its report."""
    report = folder / "report.json"
    command = ("-m", "fusegate", "run", "--json", report, ROOT / "examples" / name)
    status, output = run(folder, *command)
    assert report.is_file(), output
    return status, output, json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in REPORTED])
def test_example_runs(name, runtime, tmp_path):
    path = ROOT / "examples" / name
    imports = re.findall(
        r"^(?:import|from) (frx|zorch)\b", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    if ("frx" if imports else "jax") != runtime or ("zorch" in imports and not find_spec("zorch")):
        pytest.skip("needs another runtime, or zorch")
    status, output = run(tmp_path, path)
    assert status == 0, output


def test_sumcheck_proves_in_one_program_and_its_twins_are_caught(runtime, tmp_path):
    if runtime != "frx" or find_spec("zorch") is None:
        pytest.skip("needs FRX and zorch")
    status, output, report = run_reported("01_sumcheck_single_zone.py", tmp_path)
    assert status == 1, output  # the twins' violations
    assert re.search(r"proof verified: +yes", output)
    assert re.search(r"tampered proof rejected: +yes", output)

    prove = report["boundaries"]["prove"]
    assert (prove["traces"], prove["compiles"], prove["violations"]) == (1, 1, 0)
    assert (prove["causes"], prove["slow_dispatches"]) == ([], 0)
    verifier = report["boundaries"]["check_round"]
    assert (verifier["traces"], verifier["compiles"]) == (1, 1)
    for body in ("round_polynomial", "fold_tables"):
        assert report["boundaries"][body]["traces"] == 0
        assert report["boundaries"][body]["melted"] > 0

    found = [
        (one["code"], one["boundary"], one["cause"]["kind"], one["cause"]["path"])
        for one in report["violations"]
    ]
    assert found == [
        ("FG201", "prove_identity_permutation", "meta_identity", "transcript.permutation"),
        ("FG201", "prove_fresh_lambda", "callable", "summand"),
        ("FG201", "prove_two_shapes", "shape", "tables"),
    ]
    assert "IdentityPermutation" in report["violations"][0]["cause"]["after"]
    # The report is what the program ends with.
    assert (
        output.index("tampered proof rejected")
        < output.index("defined at")
        < output.index("FG201 retrace")
    )


def test_vit_head_is_one_program_per_boundary(runtime, tmp_path):
    if runtime != "jax":
        pytest.skip("needs JAX")
    status, output, report = run_reported("02_vit_inference.py", tmp_path)
    assert status == 0, output
    for name in ("eager", "eqx.filter_jit", "island(filter=True)"):
        assert re.search(rf"^{re.escape(name)} +[0-9.]+ ms per crop, warm$", output, re.MULTILINE)
    assert "tolerance" in output
    island = report["boundaries"]["island"]
    assert (island["traces"], island["compiles"], island["violations"]) == (1, 1, 0)
    assert report["clean"]
