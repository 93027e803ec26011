"""How long a warm call takes beside the reference kernel: the figure `runtime` of the pins.

Seconds differ between machines and between minutes. The reference kernel runs before and after each round of
calls, so a slower machine slows both down, and their ratio stays. The figure is the fastest call over the
fastest run of the reference: on a core shared with other busy processes it moved by a factor of 1.1 to 1.6
between runs, the median of the paired rounds by 1.2 to 2.2. The pairs tell how steady the machine was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from fusegate.errors import FusegateError
from fusegate.evidence.gather import Subject
from fusegate.evidence.measure import Times
from fusegate.judge.pace import Pace
from fusegate.runtime import arrays, reference, results, trees

ROUNDS: Final = 21
"""Rounds, where they fit into `SECONDS`."""
LEAST: Final = 5
"""Rounds of a call that takes longer than that."""
SECONDS: Final = 1.0
"""How long a measurement takes, the first calls apart, unless `LEAST` rounds take longer."""
SAMPLE_S: Final = 3e-4
"""The shortest sample: a shorter call runs several times in it, so that the clock's own steps do not show."""
SHORT_S: Final = 4e-3
"""Samples up to this, about what another process is given at once, are taken several times in a round."""
SAMPLES: Final = 4
"""How often: the fastest counts, since a process in between slows one sample down and not all."""
REFERENCE_PART: Final = 0.25
"""Of a longer sample, how much of its time the reference kernel runs beside it: both then meet as many other
processes."""
MOST: Final = 256
"""Calls in one sample, at most."""
COPIED_BYTES: Final = 64 * 2**20
"""Bytes of donated arguments that are made ready for one sample, at most, unless one call takes more."""


class UnmeasurableError(Exception):
    """A call cannot be timed; the text says why."""


def pace_of(subject: Subject) -> Pace:
    """Times a function against the reference kernel. It runs, some dozens of times.

    Donated arguments are copied before each call, outside of the time, so those that came in stay alive.

    Args:
        subject: The function with its arguments.

    Raises:
        UnmeasurableError: An argument is no array to run on, or the call raises.
        Violation: The call breaks a rule, in strict.
    """
    try:
        return _timed(_Calls(subject))
    except (FusegateError, UnmeasurableError):
        raise
    except Exception as error:
        raise UnmeasurableError(f"the call raised {type(error).__name__}") from error


def _timed(calls: _Calls) -> Pace:
    again = reference.reference_for(calls.first())
    results.wait(again())
    once = min(calls.sample(1) for _ in range(2))
    count = calls.fitting(min(MOST, max(1, math.ceil(SAMPLE_S / max(once, 1e-9)))))
    single = min(_sample(again, 1) for _ in range(3))
    repeats, samples = 1, SAMPLES
    if once * count > SHORT_S:
        repeats, samples = max(1, round(REFERENCE_PART * once / single)), 1
    whole = samples * (once * count + single * repeats)
    rounds = max(LEAST, min(ROUNDS, int(SECONDS / whole)))
    mine: list[float] = []
    theirs = [_fastest(lambda: _sample(again, repeats), samples)]
    for _ in range(rounds):
        mine.append(_fastest(lambda: calls.sample(count), samples))
        theirs.append(_fastest(lambda: _sample(again, repeats), samples))
    pairs = [2 * one / sum(theirs[at : at + 2]) for at, one in enumerate(mine)]
    spread = Times.of(pairs)
    return Pace(min(mine) / min(theirs), spread.low, spread.high, rounds)


def _fastest(sample: Callable[[], float], samples: int) -> float:
    return min(sample() for _ in range(samples))


def _sample(again: Callable[[], Any], repeats: int) -> float:
    """Seconds of one run of the reference kernel."""
    start = time.perf_counter()
    for _ in range(repeats):
        results.wait(again())
    return (time.perf_counter() - start) / repeats


class _Calls:
    """Calls of one function whose donated arguments are replaced each time."""

    def __init__(self, subject: Subject) -> None:
        self._call = subject.lowerable
        self._names = tuple(subject.kwargs)
        self._values = (*subject.args, *subject.kwargs.values())
        self._split = len(subject.args)
        self._donated: frozenset[int] = frozenset()
        for value in self._values:
            for leaf in trees.leaves_of(value)[0]:
                _refuse(leaf)

    def first(self) -> Any:
        """Makes the first call, on copies of all arrays, and learns which of them it takes."""
        every = frozenset(range(len(self._values)))
        copies = self._copied(every)
        out = results.wait(self._run(copies))
        self._donated = frozenset(
            place
            for place, value in enumerate(copies)
            if any(_is_gone(leaf) for leaf in trees.leaves_of(value)[0])
        )
        return out

    def fitting(self, count: int) -> int:
        """How many calls, up to `count`, one sample may hold copies for."""
        taken = sum(
            getattr(leaf, "nbytes", 0)
            for place in self._donated
            for leaf in trees.leaves_of(self._values[place])[0]
        )
        return min(count, max(1, COPIED_BYTES // taken)) if taken else count

    def sample(self, count: int) -> float:
        """Seconds of one call, the mean over some, each until its result is there."""
        ready = [self._copied(self._donated) for _ in range(count)]
        start = time.perf_counter()
        for values in ready:
            results.wait(self._run(values))
        return (time.perf_counter() - start) / count

    def _run(self, values: tuple[Any, ...]) -> Any:
        named = dict(zip(self._names, values[self._split :], strict=True))
        return self._call(*values[: self._split], **named)

    def _copied(self, places: frozenset[int]) -> tuple[Any, ...]:
        """The arguments, those at some places with copies in place of their arrays."""
        if not places:
            return self._values
        return tuple(
            _copy(value) if place in places else value for place, value in enumerate(self._values)
        )


def _copy(value: Any) -> Any:
    leaves, treedef = trees.leaves_of(value)
    if not any(map(arrays.is_device_array, leaves)):
        return value  # the object itself: a static argument may be compared by identity
    copies = [leaf.copy() if arrays.is_device_array(leaf) else leaf for leaf in leaves]
    return treedef.unflatten(results.wait(copies))


def _is_gone(leaf: Any) -> bool:
    return arrays.is_device_array(leaf) and leaf.is_deleted()


def _refuse(leaf: Any) -> None:
    """Refuses a leaf that stands for an array, and one that an earlier call has taken.

    Raises:
        UnmeasurableError: It is one.
    """
    if arrays.is_tracer(leaf):
        raise UnmeasurableError("an argument is traced, so nothing runs")
    if _is_gone(leaf):
        raise UnmeasurableError("an argument was donated to an earlier call")
    if arrays.is_struct(leaf):
        raise UnmeasurableError("an argument is a ShapeDtypeStruct, so nothing runs")
