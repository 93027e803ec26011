import dataclasses

import pytest

from fusegate import ledger
from fusegate.errors import Location
from fusegate.ledger import Counters, Ledger, TraceEntry
from fusegate.report import DriverStats, Report, Stats, report, stats
from fusegate.report.model import report_of


def test_a_report_holds_what_was_counted(hand):
    found = hand.report()
    assert list(found.boundaries) == ["fold", "open"]
    fold = found.boundaries["fold"]
    assert (fold.traces, fold.compiles, fold.violations) == (2, 2, 3)
    assert (fold.trace_s, fold.lower_s, fold.compile_s) == (0.25, 0.125, 1.5)
    assert (fold.name, fold.role, str(fold.defined)) == ("fold", "island", "/app/prover.py:88")
    assert [str(key) for key in fold.keys] == ["fold(table: f32[1024])", "fold(table: f32[512])"]
    assert [cause.kind for cause in fold.causes] == ["shape"]
    assert found.boundaries["open"].melted == 4
    assert found.drivers["prove"] == DriverStats(
        launches=9,
        eager=2,
        reads=1,
        host_ops={"grind": 1},
        name="prove",
        defined=hand.finding().location,
    )
    assert [(one.code, one.reason, one.count) for one in found.allowed] == [
        ("FG202", "a new batch once a day", 1)
    ]
    assert [(one.code, one.location.line) for one in found.unused_allows] == [("FG210", 131)]


def test_every_counter_has_its_figure_in_stats():
    counted = {field.name for field in dataclasses.fields(Counters)}
    assert counted <= {field.name for field in dataclasses.fields(Stats)}
    counters = Counters(**dict.fromkeys(counted - {"keys", "causes"}, 7))
    one = Stats.of(counters, name="f", role="island", defined=None)
    assert {getattr(one, name) for name in counted - {"keys", "causes"}} == {7}


def test_a_finding_keeps_its_count_and_advice_is_among_the_violations(hand):
    book = hand.ledger()
    book.add_finding(hand.finding("FG210", severity="advice", cause=None))
    found = report_of(book.snapshot())
    assert [(one.code, one.count) for one in found.violations] == [("FG201", 3), ("FG210", 1)]
    assert [one.code for one in found.errors] == ["FG201"]
    assert not found.clean


def test_advice_alone_is_clean(hand):
    book = Ledger()
    book.add_finding(hand.finding(severity="advice"), hand.spec())
    found = report_of(book.snapshot())
    assert len(found.violations) == 1
    assert found.clean


def test_a_violation_that_was_only_counted_is_not_clean(hand, monkeypatch):
    monkeypatch.setattr(ledger, "MAX_FINDINGS", 0)
    book = Ledger()
    book.add_finding(hand.finding(), hand.spec())
    found = report_of(book.snapshot())
    assert (found.violations, found.dropped) == ((), 1)
    assert not found.clean


def test_the_second_definition_site_of_a_name_is_told_apart(hand):
    book = Ledger()
    for file, line in (("/a/one.py", 3), ("/a/two.py", 12), ("/b/two.py", 12)):
        book.count(hand.spec("fold", "island", Location(file, line, "fold")), traces=1)
    book.count(hand.spec("fold", "round body", Location("/a/one.py", 3, "fold")), traces=1)
    book.count(hand.spec("fold", "driver", None), traces=1)
    found = report_of(book.snapshot()).boundaries
    assert list(found) == [
        "fold",
        "fold (two.py:12)",
        "fold (two.py:12) #2",
        "fold (one.py:3)",
        "fold #2",
    ]
    assert {one.name for one in found.values()} == {"fold"}


def test_reports_are_frozen_and_later_counting_leaves_them_alone(hand):
    book, fold = Ledger(), hand.spec()
    book.count(fold, traces=1)
    book.count_driver("prove", None, "grind", launches=1)
    found = report_of(book.snapshot())
    book.count(fold, traces=1)
    book.add_trace(fold, TraceEntry("later"), repeated=False)
    book.count_driver("prove", None, "grind", launches=1)
    assert found.boundaries["fold"].traces == 1
    assert found.boundaries["fold"].keys == ()
    assert found.drivers["prove"].launches == 1
    assert found.drivers["prove"].host_ops == {"grind": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.boundaries["fold"].traces = 5
    for mapping in (found.boundaries, found.drivers, found.not_observed):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["fold"] = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.violations = ()


def test_report_reads_the_ledger_in_use(hand):
    with ledger.fresh_ledger() as book:
        assert report() == Report(not_observed=report().not_observed)
        book.count(hand.spec("inner"), traces=1)
        assert list(report().boundaries) == ["inner"]
    assert "inner" not in report().boundaries


def test_stats_refuses_what_is_no_boundary():
    with pytest.raises(TypeError):
        stats(len)


def test_drivers_are_bounded(monkeypatch):
    monkeypatch.setattr(ledger, "MAX_BOUNDARIES", 2)
    monkeypatch.setattr(ledger, "MAX_CAUSES", 2)
    book = Ledger()
    for number in range(5):
        book.count_driver(f"driver {number}", None, launches=1)
        book.count_driver("driver 0", None, f"reason {number}")
    found = report_of(book.snapshot()).drivers
    assert {name: one.launches for name, one in found.items()} == {
        "driver 0": 1,
        "driver 1": 1,
        "(further drivers)": 3,
    }
    assert found["driver 0"].host_ops == {"reason 0": 1, "reason 1": 1}
