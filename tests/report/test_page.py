from html.parser import HTMLParser

from fusegate.errors import Location
from fusegate.ledger import Ledger
from fusegate.report.model import report_of

VOID = {"meta"}


class Reader(HTMLParser):
    """Reads a page: its text, its tags, and whether they close in order."""

    def __init__(self, html):
        super().__init__()
        self.words = []
        self.tags = []
        self._open = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def test_a_page_holds_the_whole_report(hand):
    page = Reader(hand.report().to_html())
    for words in (
        "2 boundaries, 3 traces, 3 compiles, 3 violations",
        "island, defined at /app/prover.py:88",
        "again: `state.table` f32[1024] -> f32[512] (shape)",
        "FG201 retrace: island `fold`",
        "count: 3",
        "host op \u00d71: grind",
        "FG202 \u00d71: a new batch once a day",
        "FG210 at /app/prover.py:131, used by nothing: was needed once",
    ):
        assert words in page.text


def test_a_page_needs_no_other_file(hand):
    for _, attributes in Reader(hand.report().to_html()).tags:
        assert not {"src", "href"} & set(attributes)


def test_whatever_the_program_names_is_escaped(hand):
    book = Ledger()
    evil = "<script>alert(1)</script>"
    book.count(hand.spec(evil, "island", Location(f"/a/{evil}.py", 1)), traces=1)
    book.add_finding(hand.finding(boundary=evil))
    book.add_unused_allow("FG201", evil, None)
    book.count_driver(evil, None, evil)
    for html in (report_of(book.snapshot()).to_html(), report_of(book.snapshot())._repr_html_()):
        assert evil not in html
        assert "script" not in [tag for tag, _ in Reader(html).tags]


def test_a_notebook_gets_a_fragment(hand):
    fragment = hand.report()._repr_html_()
    assert "<html" not in fragment
    assert "<table>" in fragment
    assert fragment.strip() in hand.report().to_html()


def test_an_empty_report_is_a_page_too():
    page = Reader(report_of(Ledger().snapshot()).to_html())
    assert "0 boundaries" in page.text
    assert "table" not in [tag for tag, _ in page.tags]
