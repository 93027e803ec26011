import io
import threading

import pytest
from rich.console import Console

from fusegate.cli.waiting import Waiting
from fusegate.observe import progress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def make(clock, *, terminal=False):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, color_system=None)
    return Waiting(console, clock), out


def test_a_long_compile_is_told_while_it_runs_and_when_it_ends(clock):
    waiting, out = make(clock)
    waiting.on_phase("compile", "fold", True)
    clock.now += 4.9
    waiting.tick()
    assert out.getvalue() == ""
    clock.now += 0.2
    waiting.tick()
    waiting.tick()
    assert out.getvalue() == "fusegate: compiling fold ... (5 s)\n"
    clock.now += 67
    waiting.on_phase("compile", "fold", False)
    assert out.getvalue().endswith("fusegate: compiled fold in 72 s\n")


def test_it_is_told_again_when_its_age_has_doubled(clock):
    waiting, out = make(clock)
    waiting.on_phase("trace", "fold", True)
    for _ in range(100):
        clock.now += 1
        waiting.tick()
    assert out.getvalue().splitlines() == [
        f"fusegate: tracing fold ... ({age} s)" for age in (5, 10, 20, 40, 80)
    ]


def test_a_short_phase_is_not_worth_a_line(clock):
    for terminal in (False, True):
        waiting, out = make(clock, terminal=terminal)
        waiting.on_phase("compile", "fold", True)
        clock.now += 0.4
        waiting.tick()
        waiting.on_phase("compile", "fold", False)
        clock.now += 60
        waiting.tick()
        assert out.getvalue() == ""


def test_the_innermost_phase_is_shown(clock):
    waiting, out = make(clock)
    waiting.on_phase("trace", "prove", True)
    waiting.on_phase("compile", "[bold]table", True)
    clock.now += 6
    waiting.tick()
    waiting.on_phase("compile", "[bold]table", False)
    waiting.tick()
    assert out.getvalue().splitlines() == [
        "fusegate: compiling [bold]table ... (6 s)",
        "fusegate: compiled [bold]table in 6 s",
        "fusegate: tracing prove ... (6 s)",
    ]


def test_other_threads_are_counted(clock):
    waiting, out = make(clock, terminal=True)
    waiting.on_phase("compile", "fold", True)
    other = threading.Thread(target=waiting.on_phase, args=("compile", "open", True))
    other.start()
    other.join()
    clock.now += 12
    waiting.tick()
    assert "compiling fold and 1 more, 12 s" in out.getvalue()
    waiting.on_phase("compile", "fold", False)


def test_the_status_line_goes_when_the_work_is_done_and_the_streams_stay_the_programs(
    clock, capsys
):
    import sys

    waiting, out = make(clock, terminal=True)
    streams = (sys.stdout, sys.stderr)
    waiting.on_phase("compile", "fold", True)
    clock.now += 2
    waiting.tick()
    assert "compiling fold, 2 s" in out.getvalue()
    assert (sys.stdout, sys.stderr) == streams
    sys.stdout.write("from the program\n")
    waiting.on_phase("compile", "fold", False)
    assert waiting._live is None
    assert capsys.readouterr() == ("from the program\n", "")
    assert "from the program" not in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")  # the line is cleared


def test_an_end_without_a_start_is_nothing(clock):
    waiting, out = make(clock)
    waiting.on_phase("compile", "fold", False)
    waiting.tick()
    assert out.getvalue() == ""


def test_it_listens_inside_its_block_only(clock, monkeypatch):
    monkeypatch.setattr(progress._listeners, "active", ())
    waiting, _ = make(clock)
    with waiting:
        assert len(progress._listeners.active) == 1
        progress.notify("compile", "fold", True)
        assert waiting._busy
        progress.notify("compile", "fold", False)
        assert not waiting._busy
    assert progress._listeners.active == ()
    assert not waiting._ticker.is_alive()


def test_its_thread_tells_without_being_asked(monkeypatch):
    monkeypatch.setattr("fusegate.cli.waiting.TOLD_AFTER_S", 0.0)
    out = io.StringIO()
    told = threading.Event()

    class Out(io.StringIO):
        def write(self, text):
            told.set()
            return out.write(text)

    with Waiting(Console(file=Out(), width=80)) as waiting:
        waiting.on_phase("compile", "fold", True)
        waiting._busy[threading.get_ident()][0].tell_at = 0.0
        assert told.wait(20)
        waiting.on_phase("compile", "fold", False)
    assert "fusegate: compiling fold ... (0 s)" in out.getvalue()
