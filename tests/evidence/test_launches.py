"""Launches are counted from the module's proto; here against the text that XLA itself dumps of it."""

import re

import jax
import jax.numpy as jnp
import pytest

from fusegate.evidence.gather import evidence
from tests.evidence.programs import PROGRAMS

X = jax.ShapeDtypeStruct((8, 8), "float32")
FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id",
    "replica-id", "opt-barrier", "add-dependency", "domain", "get-dimension-size",
}  # fmt: skip
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<rest>.*)$")


def dumped(fn, folder):
    """The text of the optimized module, as XLA writes it to a file."""
    options = {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True}
    jax.jit(fn).lower(X).compile(compiler_options=options)
    (file,) = [
        path
        for path in folder.iterdir()
        if re.fullmatch(r".*after_optimizations\.txt", path.name) and fn.__name__ in path.name
    ]
    return file.read_text(encoding="utf-8")


def opcode_of(rest):
    """The opcode after the type, which may be a tuple of types with comments in it."""
    rest = re.sub(r"/\*.*?\*/", "", rest)
    if rest.startswith("("):
        depth = 0
        for at, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                rest = rest[at + 1 :]
                break
    else:
        rest = rest.partition(" ")[2]
    return re.match(r"\s*([a-z][a-z0-9-]*)\(", rest)[1]


def computations_of(text):
    """Name -> lines of each computation; the entry under ENTRY."""
    found, current = {}, None
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" ") and "HloModule" not in line:
            current = "ENTRY" if line.startswith("ENTRY") else line.split()[0].lstrip("%")
            found[current] = []
        elif line.startswith("}"):
            current = None
        elif current is not None and INSTRUCTION.match(line):
            found[current].append(INSTRUCTION.match(line)["rest"])
    return found


def count(computations, name):
    static, dynamic = 0, 0
    for rest in computations[name]:
        opcode = opcode_of(rest)
        if opcode in FREE or opcode.endswith(("-done", "-update")):
            continue
        if opcode not in {"while", "conditional", "call"}:
            static += 1
            dynamic = None if dynamic is None else dynamic + 1
            continue
        called = re.findall(
            r"(?:condition|body|to_apply|true_computation|false_computation)=%?([\w.-]+)", rest
        )
        for group in re.findall(r"branch_computations=\{([^}]*)\}", rest):
            called += [one.strip().lstrip("%") for one in group.split(",")]
        inner = [count(computations, one) for one in called]
        static += sum(one for one, _ in inner)
        counts = [one for _, one in inner]
        trips = re.search(r'"known_trip_count":\{"n":"(\d+)"', rest)
        if None in counts or dynamic is None or (opcode == "while" and not trips):
            dynamic = None
        elif opcode == "conditional":
            dynamic += max(counts)
        else:
            dynamic += sum(counts) * (int(trips[1]) if opcode == "while" else 1)
    return static, dynamic


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_agree_with_the_dump_of_xla(name, tmp_path):
    fn = PROGRAMS[name]
    found = evidence(jax.jit(fn), X)
    expected = count(computations_of(dumped(fn, tmp_path)), "ENTRY")
    assert (found.launches, found.dynamic_launches) == expected
    assert found.launches > 0
    assert sum(one.launches for one in found.kernels) == found.launches


def test_a_loop_of_known_trips_counts_its_trips():
    found = evidence(jax.jit(PROGRAMS["nested_loops"]), X)
    assert found.dynamic_launches > 5 * 3
    (inner,) = [one for one in found.kernels if one.kind == "sort"]
    assert inner.loop == ("while x5", "while x3")
    assert (inner.launches, inner.runs) == (1, 15)


def test_a_loop_of_unknown_trips_is_not_observed():
    found = evidence(jax.jit(PROGRAMS["unknown_trips"]), X)
    assert found.launches > 0
    assert found.dynamic_launches is None
    assert "dynamic_launches" in found.not_observed
    assert "?" in found.to_text()


def test_a_fused_body_is_one_launch_however_long_it_grows():
    def logic(terms):
        return jax.jit(lambda x: sum((jnp.sin(x) * i for i in range(terms)), x))

    assert evidence(logic(2), X).launches == evidence(logic(20), X).launches == 1
