"""Ledgers and findings made by hand, so that what a report shows is known to the letter."""

from types import SimpleNamespace

import pytest

from fusegate.errors import Cause, Finding, Location
from fusegate.ledger import Ledger, TraceEntry
from fusegate.report.model import report_of

FOLD = Location("/app/prover.py", 88, "fold")
CALL = Location("/app/prover.py", 131, "prove")
SHAPE = Cause("shape", "state.table", "f32[1024]", "f32[512]", "declare max_traces")


class Spec:
    """What the ledger wants to know of a boundary; compared by identity, like the real one."""

    def __init__(self, name="fold", role="island", defined=FOLD):
        self.name = name
        self.role = role
        self.defined = defined


def make_finding(code="FG201", **changes):
    facts = {
        "boundary": "fold",
        "location": CALL,
        "seen": "trace 2 of this key-space; max_traces=1",
        "role": "island",
        "defined": FOLD,
        "cause": SHAPE,
        "evidence": {"traces": 2, "shapes": ((1024,), (512,)), "share": 0.5},
    }
    return Finding(code, **(facts | changes))


def make_ledger():
    """A ledger with one boundary that retraced, one that did not, and a driver."""
    ledger = Ledger()
    fold, open_zone = Spec(), Spec("open", "single zone", Location("/app/prover.py", 200, "open"))
    ledger.count(fold, traces=2, compiles=2, trace_s=0.25, lower_s=0.125, compile_s=1.5)
    for size in (1024, 512):
        ledger.add_trace(fold, TraceEntry(f"fold(table: f32[{size}])"), repeated=False)
    ledger.add_cause(fold, SHAPE)
    for _ in range(3):
        ledger.add_finding(make_finding(), fold)
    ledger.count(open_zone, traces=1, compiles=1, melted=4)
    ledger.count_driver("prove", CALL, launches=9, eager=2, reads=1)
    ledger.count_driver("prove", CALL, "grind")
    ledger.add_allowed(make_finding("FG202"), "a new batch once a day")
    ledger.add_unused_allow("FG210", "was needed once", CALL)
    return ledger


@pytest.fixture
def hand():
    return SimpleNamespace(
        ledger=make_ledger,
        finding=make_finding,
        spec=Spec,
        report=lambda: report_of(make_ledger().snapshot()),
    )
