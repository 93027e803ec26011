"""The judgement alone: facts made by hand, no array library."""

import subprocess
import sys

import pytest

from fusegate.config import Thresholds
from fusegate.errors import Location
from fusegate.judge import fusion, programs
from fusegate.observe.primitives import CLASSES, Kind, classify
from fusegate.observe.program import (
    ClosedOver,
    NestedCall,
    Program,
    Region,
    Repeat,
    Site,
    contract_of,
)
from fusegate.rules import Severity


class Zone:
    name, role, defined = "prove", "single zone", Location("prover.py", 1)


class Body:
    name, role, defined = "fold", "round body", Location("rounds.py", 1)


def at(line):
    return Location("prover.py", line)


def program(own=None, **parts):
    empty = {
        "equations": 1, "melted": {}, "opaque": Region(), "composites": {}, "callbacks": (),
        "constants": (), "repeats": (),
    }  # fmt: skip
    return Program(own=own or Region(), **(empty | parts))


def judged(facts, spec=Zone, contract=None, regions=None, boundaries=(), **figures):
    return fusion.check_program(
        spec, contract, facts, Thresholds(**figures), regions, boundaries=boundaries
    )


def test_a_finding_lists_every_offender_and_stands_at_the_first():
    region = Region(breakers=(Site("gather", at(3)), Site("scan", at(5), 2), Site("sort", None)))
    (found,) = judged(program(region), Body)
    assert found.code == "FG204"
    assert found.location == at(3)
    assert "gather at prover.py:3, scan x2 at prover.py:5, sort;" in found.seen
    assert found.evidence["primitives"] == {"gather": 1, "scan": 2, "sort": 1}
    assert "allow_primitives=('gather', 'scan', 'sort')" in found.remedy


def test_what_is_allowed_is_neither_a_breaker_nor_a_reduction_too_many():
    region = Region(
        breakers=(Site("scatter-add", at(3)),),
        reductions=(Site("argmax", at(4)), Site("reduce_sum", at(5))),
    )
    allowed = frozenset({"scatter_add", "argmax"})
    assert judged(program(region), Body, fusion.Contract(1, allowed)) == []


@pytest.mark.parametrize(("reductions", "line"), [(0, 3), (1, 3), (2, 4), (3, None)])
def test_the_first_reduction_beyond_the_contract_is_the_line(reductions, line):
    region = Region(reductions=(Site("reduce_sum", at(3), 2), Site("reduce_max", at(4))))
    found = judged(program(region), Body, fusion.Contract(reductions))
    assert [(f.code, f.location.line) for f in found] == ([("FG205", line)] if line else [])


def test_a_zone_is_free_to_reduce_gather_and_loop():
    region = Region(reductions=(Site("reduce_sum", at(3), 9),), breakers=(Site("scan", at(4)),))
    assert judged(program(region)) == []


def test_a_call_is_an_error_where_one_kernel_is_meant_and_an_advice_elsewhere():
    call = NestedCall("square", "user", at(7), at(2))
    for spec, severity in ((Body, True), (Zone, False)):
        (found,) = judged(program(Region(calls=(call,))), spec)
        assert (found.code, found.is_error, found.location) == ("FG203", severity, at(7))


@pytest.mark.parametrize("owner", ["library", "dependency"])
def test_only_the_programs_own_jits_are_worth_an_advice(owner):
    calls = (NestedCall("_where", owner, at(7), Location("lib.py", 2)),)
    assert judged(program(Region(calls=calls))) == []
    in_body = judged(program(Region(calls=calls)), Body)
    assert [f.code for f in in_body] == (["FG203"] if owner == "dependency" else [])


def test_a_nested_boundary_is_legal_in_a_zone():
    calls = (NestedCall("fold", "user", at(7), at(2)),)
    assert judged(program(Region(calls=calls)), boundaries={("prover.py", 2)}) == []


def test_a_library_call_in_a_marker_composite_has_its_lax_spelling():
    calls = (NestedCall("_where", "library", at(7), None, fused="zorch.fused_region"),)
    (found,) = judged(program(Region(calls=calls)))
    assert found.is_error
    assert "zorch.fused_region" in found.seen
    assert found.remedy == "spell `where` as lax.select"


def test_melted_calls_are_judged_by_their_contract_and_told_once():
    region = Region(breakers=(Site("gather", at(9)),), reductions=(Site("reduce_sum", at(9), 2),))
    facts = program(melted={f"fusegate.round_body:fold#3.{call}": region for call in range(4)})
    regions = {"fusegate.round_body:fold#3": (Body, fusion.Contract(2))}
    (found,) = judged(facts, regions=regions)
    assert (found.code, found.boundary, found.role, found.count) == (
        "FG204",
        "fold",
        "round body",
        4,
    )
    assert found.defined == Body.defined


def test_the_marker_of_one_call_is_found_as_well():
    facts = program(melted={"fusegate.round_body:fold#7": Region(breakers=(Site("sort", at(9)),))})
    (found,) = judged(facts, regions={"fusegate.round_body:fold#7": (Body, fusion.Contract())})
    assert found.boundary == "fold"


def test_a_round_body_that_nobody_registered_is_left_alone():
    facts = program(melted={"fusegate.round_body:x#1": Region(breakers=(Site("sort", at(9)),))})
    assert judged(facts) == []


@pytest.mark.parametrize(
    ("marker", "contract"),
    [("a:fold#3.17", "a:fold#3"), ("a:fold#3", "a:fold#3"), ("a:v1.5#3", "a:v1.5#3")],
)
def test_a_marker_without_its_call(marker, contract):
    assert contract_of(marker) == contract


def test_errors_come_before_advice():
    facts = program(
        Region(calls=(NestedCall("f", "user", at(1), at(2)),)),
        callbacks=(Site("debug_print", at(5)),),
        constants=(ClosedOver("f32[4]", 16, False, at(6)), ClosedOver("f32[9]", 36, True)),
        repeats=(
            Repeat(at(8), 600, 200, ("mul f32[4]",)),
            Repeat(at(9), 400, 100, ("add f32[4]",)),
        ),
    )
    found = judged(facts, captured_bytes=16)
    assert [f.code for f in found] == ["FG206", "FG203", "FG207", "FG208"]
    assert found[-1].evidence == {"bytes": 52, "numpy_bytes": 16, "device_bytes": 36}
    assert found[-1].seen.index("device array f32[9]") < found[-1].seen.index("numpy array f32[4]")
    assert "one pattern 200 times: mul f32[4]" in found[2].seen


def test_a_round_body_is_not_advised_to_loop():
    facts = program(repeats=(Repeat(at(8), 600, 200, ("mul f32[4]",)),))
    assert judged(facts, Body) == []


def test_many_shapes_of_one_round_body_are_one_advice():
    def calls(*sizes):
        return [programs.MeltedCall("fold", "fold", (f"f32[{n}]",), at(n)) for n in sizes]

    limit = Thresholds(zone_shapes=2)
    assert programs.check_shapes(Zone, calls(8, 4, 8, 4), limit) == []
    (found,) = programs.check_shapes(Zone, calls(8, 4, 2, 4), limit)
    assert (found.code, found.severity or found.rule.severity) == ("FG212", Severity.ADVICE)
    assert found.evidence == {"shapes": 3, "round_body": "fold"}


def test_an_unknown_primitive_is_never_a_violation():
    assert classify("warp_drive") is Kind.UNKNOWN
    assert judged(program(Region(unknown=(Site("warp_drive", at(3)),))), Body) == []


def test_the_classes_do_not_overlap():
    from fusegate.observe import primitives

    texts = [primitives._ELEMENTWISE, primitives._STRUCTURAL, primitives._REDUCTION]
    texts += [primitives._BREAKER, primitives._CALLBACK, primitives._CONTAINER]
    names = [name for text in texts for name in text.split()]
    assert len(names) == len(set(names))
    assert set(names) | {"jit", "pjit", "composite"} == set(CLASSES)


def test_judgement_imports_no_array_library():
    code = (
        "import sys; import fusegate.judge.fusion, fusegate.judge.donation, fusegate.observe.jaxpr;"
        "assert not {'jax', 'frx', 'numpy', 'equinox'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
