import json

from fusegate import ledger
from fusegate.ledger import Ledger
from fusegate.report.session import SCHEMA, Totals


def test_sums_over_tests_and_names_the_slowest(hand):
    totals, fold = Totals(), hand.spec()
    for test, seconds in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        book = Ledger()
        book.count(fold, traces=1, compiles=1, compile_s=seconds)
        totals.add(book.snapshot(), test)
    data = totals.data()
    assert data["schema"] == SCHEMA
    assert data["tests"] == 3
    (row,) = data["boundaries"]
    assert (row["traces"], row["compile_s"], row["tests"]) == (3, 6.0, 3)
    assert (row["slowest_test"], row["slowest_compile_s"]) == ("b", 3.0)


def test_merging_workers_equals_running_in_one(hand):
    def run(totals, tests):
        for test in tests:
            totals.add(hand.ledger().snapshot(), test)
        return totals

    one = run(Totals(), "abcd")
    merged = Totals()
    for tests in ("ab", "cd"):
        merged.merge(json.loads(json.dumps(run(Totals(), tests).data())))
    assert merged.data() == one.data()
    assert merged.lines() == one.lines()
    assert one.data()["violations"][0]["count"] == 12
    assert one.data()["violations"][0]["tests"] == ["a", "b", "c", "d"]


def test_the_summary_is_silent_without_boundaries():
    totals = Totals()
    totals.add(Ledger().snapshot(), "a")
    assert totals.lines() == []


def test_the_summary_names_the_worst(hand):
    totals = Totals()
    totals.add(hand.ledger().snapshot(), "test_a.py::test_prove")
    first, *rest = totals.lines()
    assert first == "2 boundaries, 3 traces, 3 compiles, 3 violations"
    assert rest[:2] == [
        "most compile time:",
        "      1.50 s    2 compiles  fold (/app/prover.py:88), most in test_a.py::test_prove",
    ]
    assert rest[2] == "violations:"
    assert rest[3].startswith("     3x FG201 retrace: island `fold`")
    assert rest[3].endswith("first in test_a.py::test_prove")


def test_many_findings_are_counted_and_not_kept(hand, monkeypatch):
    monkeypatch.setattr(ledger, "MAX_FINDINGS", 3)
    totals = Totals()
    for number in range(5):
        book = Ledger()
        book.add_finding(hand.finding(seen=str(number)))
        totals.add(book.snapshot(), "a")
    assert len(totals.data()["violations"]) == 3
    assert totals.data()["dropped"] == 2
