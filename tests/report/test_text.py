import io
import re

import pytest
from rich.console import Console

from fusegate import ledger
from fusegate.errors import Cause, Location
from fusegate.ledger import Ledger
from fusegate.report import text
from fusegate.report.model import report_of

WHOLE = """\
fusegate: 2 boundaries, 3 traces, 3 compiles, 3 violations
boundary  traces  compiles  trace s  lower s  compile s  violations
fold           2         2    0.250    0.125      1.500           3
    island, defined at /app/prover.py:88
    again: `state.table` f32[1024] -> f32[512] (shape)
open           1         1    0.000    0.000      0.000           0
    single zone, defined at /app/prover.py:200; 4 runs melted into a zone

driver  launches  eager  reads  uploads
prove          9      2      1        0
    driver, defined at /app/prover.py:131
    host op x1: grind

violations
FG201 retrace: island `fold` (/app/prover.py:88), at /app/prover.py:131 (x3)
  seen:    trace 2 of this key-space; max_traces=1
  changed: `state.table` f32[1024] -> f32[512] (shape)
  fix:     declare max_traces
  more:    fusegate explain FG201

allowed
  FG202 x1: a new batch once a day

opt-outs that nothing used
  FG210 at /app/prover.py:131: was needed once
"""


@pytest.fixture(autouse=True)
def all_observed(monkeypatch):
    monkeypatch.setattr(ledger._Current, "not_observed", {})


def test_the_whole_report_as_text(hand):
    assert hand.report().to_text() == WHOLE
    assert str(hand.report()) == WHOLE


def test_what_is_not_observed_is_never_shown_as_nothing(hand, monkeypatch):
    monkeypatch.setattr(ledger._Current, "not_observed", {"compiles": "no monitoring events"})
    book = Ledger()
    book.count(hand.spec(), traces=1)
    shown = report_of(book.snapshot()).to_text()
    header, row = shown.splitlines()[1:3]
    assert dict(zip(re.split(r"  +", header), row.split(), strict=True)) == {
        "boundary": "fold",
        "traces": "1",
        "compiles": "?",
        "trace s": "0.000",
        "lower s": "?",
        "compile s": "?",
        "violations": "0",
    }
    assert "1 trace, ? compiles, 0 violations" in shown
    assert "not observed\n  compiles: no monitoring events\n" in shown


def test_counts_from_before_an_observer_failed_are_a_lower_bound(hand, monkeypatch):
    monkeypatch.setattr(ledger._Current, "not_observed", {"compiles": "its observer failed"})
    shown = hand.report().to_text()
    assert "3 traces, 3+ compiles" in shown


def test_no_boundary_is_said_in_words():
    assert report_of(Ledger().snapshot()).to_text() == (
        "fusegate: 0 boundaries, 0 traces, 0 compiles, 0 violations\n"
        "no boundary was called, or the mode is off\n"
    )


def test_columns_of_rare_figures_appear_where_there_are_some(hand):
    book = Ledger()
    book.count(hand.spec(), cache_hits=2, slow_dispatches=3)
    book.count(hand.spec("other"), traces=1)
    _, header, fold, *_ = report_of(book.snapshot()).to_text().splitlines()
    assert header.split()[:6] == ["boundary", "traces", "compiles", "cache", "hits", "slow"]
    assert fold.split()[:5] == ["fold", "0", "0", "2", "3"]


def test_equal_causes_are_counted_and_many_are_summed_up(hand):
    book, fold = Ledger(), hand.spec()
    book.count(fold, traces=1)
    for number in range(12):
        for _ in range(2):
            book.add_cause(fold, Cause("shape", "x", f"f32[{number}]", f"f32[{number + 1}]"))
    lines = [line for line in report_of(book.snapshot()).to_text().splitlines() if "again" in line]
    assert len(lines) == text.SHOWN_CAUSES + 1
    assert lines[0] == "    again: `x` f32[0] -> f32[1] (shape) x2"
    assert lines[-1] == "    again: 4 further causes"


def test_a_narrow_table_cuts_no_name_and_no_figure(hand):
    book = Ledger()
    name = "a_very_long_name_of_a_boundary_in_a_prover"
    book.count(hand.spec(name), traces=12345)
    lines = report_of(book.snapshot()).to_text(width=70).splitlines()
    assert name in lines
    assert lines[lines.index(name) + 1].split()[0] == "12345"
    assert all(len(line) <= 70 for line in lines[:4])


def test_messages_keep_their_lines_on_a_narrow_terminal(hand):
    book = Ledger()
    book.add_finding(hand.finding(seen="word " * 60))
    assert f"  seen:    {'word ' * 60}".rstrip() in report_of(book.snapshot()).to_text(width=40)


def test_names_are_not_taken_for_markup(hand):
    book = Ledger()
    book.count(hand.spec("[red]fold[/red]", "island", Location("/a/[b].py", 1)), traces=1)
    shown = report_of(book.snapshot()).to_text()
    assert "[red]fold[/red]" in shown
    assert "/a/[b].py:1" in shown


def test_colours_only_on_a_terminal(hand, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def printed(*, terminal):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal or None, width=100)
        text.print_report(hand.report(), console)
        return out.getvalue()

    assert "\x1b[" in printed(terminal=True)
    assert printed(terminal=False) == WHOLE
