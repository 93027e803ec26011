"""What the likely cause of a moved pin names, and what it leaves out."""

from fusegate.errors import Location
from fusegate.judge.moved import Origin, Present, new_equations, new_kernels
from fusegate.observe.evidence import Kernel


def kernel(kind, line):
    return Kernel(kind, Location("prover.py", line, "prove"), ("add",))


def test_kernels_of_a_new_kind_are_listed_and_those_of_a_long_old_one_only_counted():
    rows = [kernel("fusion kLoop", line) for line in range(10, 16)] + [kernel("sort", 20)]
    told = new_kernels(
        {"kernels": {"fusion": 5}}, {"kernels": {"fusion": 6, "sort": 1}}, Present(rows)
    )
    assert told.startswith("fusion 5 -> 6, sort 0 -> 1 (")
    assert "prover.py:20" in told
    assert "prover.py:10" not in told
    few = new_kernels(
        {"kernels": {"sort": 1}}, {"kernels": {"sort": 2}}, Present([kernel("sort", 20)] * 2)
    )
    assert few.startswith("sort 1 -> 2 (1 sort at prover.py:20 (add); 1 sort")


def test_a_line_is_blamed_for_no_more_than_was_added():
    old, new = Location("prover.py", 5, "old"), Location("prover.py", 9, "new")
    origins = [Origin(old, {"mul": 100}, 100), Origin(new, {"mul": 12}, 12)]
    pinned = {"equations": 100, "primitives": {"mul": 100}}
    now = {"equations": 112, "primitives": {"mul": 112}}
    told = new_equations(pinned, now, Present(origins=origins))
    assert told == "a loop unrolled at prover.py:9 (12 x `mul`); `mul` 100 -> 112"
    longer = [Origin(old, {"mul": 112}, 112)]
    assert new_equations(pinned, now, Present(origins=longer)) == "`mul` 100 -> 112"
