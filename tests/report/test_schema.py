import json

import pytest

from fusegate.errors import Severity
from fusegate.ledger import Ledger
from fusegate.report.model import report_of
from fusegate.report.schema import SCHEMA


def test_json_has_a_version_and_everything_a_reader_needs(hand):
    data = json.loads(hand.report().to_json())
    assert data["schema"] == SCHEMA == "fusegate.report/1"
    assert data["clean"] is False
    fold = data["boundaries"]["fold"]
    assert fold["traces"] == 2
    assert fold["role"] == "island"
    assert fold["defined"] == {"file": "/app/prover.py", "line": 88, "function": "fold"}
    assert fold["keys"] == ["fold(table: f32[1024])", "fold(table: f32[512])"]
    assert fold["causes"][0] == {
        "kind": "shape",
        "path": "state.table",
        "before": "f32[1024]",
        "after": "f32[512]",
        "fix": "declare max_traces",
    }
    (finding,) = data["violations"]
    assert finding["code"] == "FG201"
    assert finding["slug"] == "retrace"
    assert finding["severity"] == "error"
    assert finding["count"] == 3
    assert finding["location"]["line"] == 131
    assert finding["evidence"] == {"traces": 2, "shapes": [[1024], [512]], "share": 0.5}
    assert finding["message"].startswith("FG201 retrace: island `fold` (/app/prover.py:88)")
    assert data["drivers"]["prove"]["host_ops"] == {"grind": 1}
    assert data["allowed"][0]["count"] == 1
    assert data["unused_allows"][0]["location"]["line"] == 131


def test_an_empty_report_has_the_same_keys(hand):
    empty = report_of(Ledger().snapshot()).to_dict()
    assert set(empty) == set(hand.report().to_dict())
    assert empty["clean"] is True
    assert empty["boundaries"] == {}


def test_the_data_is_a_copy(hand):
    found = hand.report()
    found.to_dict()["drivers"]["prove"]["host_ops"]["grind"] = 9
    assert found.drivers["prove"].host_ops == {"grind": 1}


class Strange:
    def __str__(self):
        return "strange"

    def __iter__(self):
        raise AssertionError("taken apart")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Strange(), "strange"),
        ({1: (2, Strange())}, {"1": [2, "strange"]}),
        (Severity.ERROR, "error"),
        (True, True),
        (None, None),
    ],
)
def test_evidence_of_any_kind_can_be_written(hand, value, written):
    book = Ledger()
    book.add_finding(hand.finding(evidence={"value": value}))
    data = json.loads(report_of(book.snapshot()).to_json(None))
    assert data["violations"][0]["evidence"] == {"value": written}
