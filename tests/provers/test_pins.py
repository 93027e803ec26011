"""Six provers on zorch, held to the pin file of this suite, and what the pins say of a prover that got worse."""

import difflib
import re
from pathlib import Path

import jax
import pytest

if jax.__name__ != "frx":
    pytest.skip("needs FRX", allow_module_level=True)
pytest.importorskip("zorch")
pytest.importorskip("tomlkit")

from zk_dtypes import koalabear_mont as F
from zorch.testkit.random_field import rand_field

import fusegate
from fusegate.testing import assert_flat
from tests.provers.programs import fri, logup, merkle, spartan, sumcheck, whir
from tests.provers.programs.common import forgeries, transcript

pytest_plugins = "pytester"

PROVERS = {
    "sumcheck": sumcheck,
    "fri": fri,
    "whir": whir,
    "logup": logup,
    "merkle": merkle,
    "spartan": spartan,
}
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PROVERS)
def test_a_prover_proves_and_is_held_to_its_pins(name, fusegate_pins):
    """All of a prover in one test: its traces and compiles are then the same in any order of the suite."""
    prover = PROVERS[name]
    statement, witness = prover.instance(1)
    prover.prove(statement, witness)
    # Warm: fresh hashes, a fresh transcript and another witness find every program in place.
    before = counted()
    other, other_witness = prover.instance(2)
    other_proof = prover.prove(other, other_witness)
    proof = prover.prove(statement, witness)
    assert counted() == before

    assert prover.accepts(statement, proof)
    assert prover.accepts(other, other_proof)
    assert not prover.accepts(statement, other_proof)
    assert not prover.accepts(other, proof)
    places = []
    for place, forged in forgeries(proof):
        places.append(place)
        assert not prover.accepts(statement, forged), f"accepted with another limb at {place}"
    assert len(places) >= 6

    for program, boundary, args in prover.programs(statement, witness):
        fusegate_pins(boundary, *args, name=f"{name}.{program}")
    assert [one for one in fusegate.report().violations if one.is_error] == []


def counted():
    """Traces and compiles of every boundary that was called."""
    return {name: (one.traces, one.compiles) for name, one in fusegate.report().boundaries.items()}


# ---- a sumcheck prover that gets worse, in one way for each figure ------------------------------
SUITE = """
import frx.numpy as jnp
import fusegate
from frx import lax
from tests.provers.programs.common import transcript
from tests.provers.programs.sumcheck import all_rounds
from zk_dtypes import koalabear_mont as F
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.testkit.random_field import rand_field

TABLES = rand_field(1, (2, 2), F)
ROWS = rand_field(2, (16, 8), F)
CODE = ReedSolomon(message_len=8, blowup=2, dtype=F)

def rounds(tables, t):
    return all_rounds(tables, t, ChallengePolicy(F))

@fusegate.single_zone
def kernels(tables, t):
    {kernels}
    return rounds(tables, t)

@fusegate.single_zone
def memory(rows):
    return lax.map(CODE.encode, rows, batch_size={memory}).sum(axis=0)

@fusegate.single_zone
def equations(tables, t):
    {equations}
    return rounds(tables, t)

@fusegate.single_zone
def traces(tables, t):
    return rounds(tables, t)

@fusegate.single_zone
def runtime(tables, t):
    tables = lax.fori_loop(0, {runtime}, lambda _, x: x * x + x, tables)
    return rounds(tables, t)

def test_kernels(fusegate_pins):
    fusegate_pins(kernels, TABLES, transcript())

def test_memory(fusegate_pins):
    fusegate_pins(memory, ROWS)

def test_equations(fusegate_pins):
    fusegate_pins(equations, TABLES, transcript())

def test_traces(fusegate_pins):
    for tables in (TABLES, {traces}):
        traces(tables, transcript())
    fusegate_pins(traces, TABLES, transcript())

def test_runtime(fusegate_pins):
    fusegate_pins(runtime, TABLES, transcript(), runtime={pins_time})
"""
GOOD = {
    "kernels": "pass",
    "memory": "2",
    "equations": "tables = lax.fori_loop(0, 32, lambda _, x: x * x + x, tables)",
    "traces": "TABLES",
    "runtime": "8",
    "pins_time": "True",
}
WORSE = {
    # One kernel more: the columns are put in order before the first round.
    "kernels": "tables = tables[:, jnp.argsort(lax.bitcast_convert_type(tables[0], jnp.uint32))]",
    # A bigger buffer: four times as many codewords at once.
    "memory": "8",
    # More equations: the loop is Python's.
    "equations": "for _ in range(32): tables = tables * tables + tables",
    # One trace more: the second proof has another shape.
    "traces": "rand_field(3, (2, 4), F)",
    # The same program to look at, with a loop that runs longer; that its time is pinned, the file says.
    "runtime": "40_000",
    "pins_time": "None",
}
# What the pins say of each.
FINDINGS = {
    "kernels": ("FG501 launches-pin", r"launches \d+ -> \d+", r"likely cause: .*sort 0 -> 1 \(1 sort at \S*test_suite.py:{line} "),
    "memory": ("FG502 memory-pin", r"temp_bytes [\d,]+ -> [\d,]+", "lax.map"),
    "equations": ("FG503 compile-pin", r"equations \d+ -> \d+", r"a loop unrolled at \S*test_suite.py:{line} \(32 x `mul`, `add`\)"),
    "traces": ("FG503 compile-pin", "traces 1 -> 2; compiles 1 -> 2", r"changed: `tables` \S*\[2,2\] -> \S*\[2,4\] \(shape\)"),
    "runtime": ("FG505 runtime-pin", r"pinned at [\d.]+: [\d.]+ times as long", "the trips of a loop"),
}  # fmt: skip


@pytest.fixture
def suite(pytester, monkeypatch, plugin_run):
    """Runs the suite above with given parts."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeini("[pytest]\n")
    path = pytester.path / "test_suite.py"

    def suite(parts, option):
        path.write_text(SUITE.format(**parts))
        return plugin_run(f"--fusegate-pins={option}")

    return suite


def test_each_figure_that_grows_fails_by_name_until_it_is_written(suite, pytester):
    pins = pytester.path / "fusegate-pins.toml"
    suite(GOOD, "update").assert_outcomes(passed=5)
    good = pins.read_text()

    done = suite(WORSE, "check")
    done.assert_outcomes(failed=4, passed=1)  # slower is advice
    text = done.stdout.str()
    lines = SUITE.format(**WORSE).splitlines()
    for name, (code, moved, likely) in FINDINGS.items():
        found = re.search(rf"^.*({code}: single zone `{name}` .*(\n.*)*?more:)", text, re.MULTILINE)
        assert found, f"{name}: no {code}"
        line = next((n for n, one in enumerate(lines, 1) if one.strip() == WORSE[name]), 0)
        assert re.search(moved, found[1]), found[1]
        assert re.search(likely.format(line=line), found[1]), found[1]
        # Where the check is asked for.
        asks = next(n for n, one in enumerate(lines, 1) if f"fusegate_pins({name}," in one)
        assert f"test_suite.py:{asks}\n" in found[1]
    assert pins.read_text() == good

    suite(WORSE, "update").assert_outcomes(passed=5)
    changed = changes(good, pins.read_text())
    assert changed["traces"] == {"traces", "compiles"}
    assert changed["memory"] == {"temp_bytes"}
    assert changed["runtime"] == {"runtime"}
    assert "equations" in changed["equations"]
    assert {"launches", "kernels"} <= changed["kernels"]


def absorb_one_by_one(columns):
    """A transcript that is given its columns in a Python loop."""

    def absorb(table, t):
        for k in range(columns):
            t = t.observe(table[k])
        return t

    return absorb, rand_field(1, (columns, 8), F), transcript()


def absorb_at_once(columns):
    """The same columns in one message: the loop over its blocks is in the program."""

    def absorb(table, t):
        return t.observe(table.reshape(-1))

    return absorb, rand_field(1, (columns, 8), F), transcript()


def test_launches_that_grow_with_the_columns_fail_with_the_table_and_the_line(here):
    assert_flat(absorb_at_once, [2, 4])
    with pytest.raises(
        AssertionError, match="FG504 launches-grow: jit `absorb_one_by_one"
    ) as caught:
        assert_flat(absorb_one_by_one, [2, 4])  # asked here
    assert isinstance(caught.value, fusegate.PinViolation)
    text = str(caught.value)
    low, high = re.search(r"launches grow from (\d+) to (\d+) with the size", text).groups()
    assert re.search(rf"\n +2 +{low}\n +4 +{high}\n", text)
    assert "unrolls into kernels of its own" in text
    assert f"test_pins.py:{here.line(__file__, 'asked here')}\n" in text


def changes(before, after):
    """The figures that a diff of two pin files changes, by table: one line taken and one put for each."""
    found = {}
    tables, others = tables_of(before), tables_of(after)
    assert list(tables) == list(others)
    for name, lines in tables.items():
        diff = list(difflib.unified_diff(lines, others[name], n=0, lineterm=""))
        taken, put = ([line[1:] for line in diff[2:] if line[0] == mark] for mark in "-+")
        figures = [line.partition(" = ")[0] for line in taken]
        assert figures == [line.partition(" = ")[0] for line in put]
        assert len(figures) == len(set(figures))
        found[name] = set(figures)
    return found


def tables_of(text):
    """The lines of a pin file by the name of their table."""
    name, tables = "", {}
    for line in text.splitlines():
        if line.startswith("["):
            name = line[1:].partition(".")[0]
        tables.setdefault(name, []).append(line)
    return tables
