"""What the program is waiting for: a status line while a boundary traces or compiles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from fusegate.observe import progress

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.live import Live

SHOWN_AFTER_S: Final = 0.5
"""Age at which a phase gets a status line on a terminal; a shorter one would only flicker."""
TOLD_AFTER_S: Final = 5.0
"""Age at which a phase gets a line elsewhere, and again each time its age has doubled."""

_DOING: Final = {"trace": "tracing", "lower": "lowering", "compile": "compiling"}
_DONE: Final = {"trace": "traced", "lower": "lowered", "compile": "compiled"}


@dataclass(slots=True)
class _Busy:
    phase: progress.Phase
    name: str
    since: float
    tell_at: float = field(default=TOLD_AFTER_S)


class Waiting:
    """Shows, inside a `with` block, what every boundary is busy with.

    Args:
        console: Where to show it: a line that keeps changing on a terminal, lines to keep elsewhere.
        clock: Seconds; replaced in tests.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._lock = threading.RLock()
        self._busy: dict[int, list[_Busy]] = {}
        self._awake = threading.Event()
        self._ended = threading.Event()
        self._live: Live | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._ticker = threading.Thread(target=self._keep_telling, name="fusegate", daemon=True)

    def __enter__(self) -> Self:
        self._stop_listening = progress.on_phase(self.on_phase)
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        self._ended.set()
        self._awake.set()
        self._ticker.join(timeout=2)
        with self._lock:
            self._hide()

    def on_phase(self, phase: progress.Phase, name: str, started: bool) -> None:
        """Notes the start or the end of a phase, on the thread that does the work."""
        with self._lock:
            mine = self._busy.setdefault(threading.get_ident(), [])
            if started:
                mine.append(_Busy(phase, name, self._clock()))
                self._awake.set()
                return
            ended = next((b for b in reversed(mine) if (b.phase, b.name) == (phase, name)), None)
            if ended is not None:
                mine.remove(ended)
            if not mine:
                del self._busy[threading.get_ident()]
            if not self._busy:
                self._awake.clear()
                self._hide()
            if ended is not None and ended.tell_at > TOLD_AFTER_S:
                took = self._clock() - ended.since
                self._line(f"fusegate: {_DONE[phase]} {name} in {took:.0f} s")

    def tick(self) -> None:
        """Brings what is shown up to date."""
        with self._lock:
            # The innermost phase of each thread: an outer trace waits for it.
            current = [mine[-1] for mine in self._busy.values() if mine]
            if not current:
                return
            one = min(current, key=lambda busy: busy.since)
            age = self._clock() - one.since
            doing = f"{_DOING[one.phase]} {one.name}"
            others = f" and {len(current) - 1} more" if len(current) > 1 else ""
            if self._console.is_terminal:
                if age >= SHOWN_AFTER_S:
                    self._show(f"fusegate: {doing}{others}, {age:.0f} s")
            elif age >= one.tell_at:
                one.tell_at = 2 * age
                self._line(f"fusegate: {doing} ... ({age:.0f} s)")

    def _keep_telling(self) -> None:
        while not self._ended.is_set():
            self._awake.wait()
            self.tick()
            self._ended.wait(0.25)

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def _show(self, text: str) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        if self._live is None:
            # Not console.status: that sends the program's own prints through this console.
            self._live = Live(
                console=self._console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(Spinner("dots", text=text), refresh=True)

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
