"""`measure`: what the first call of a function costs, what the later ones do, and whether the result holds."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from fusegate.evidence.gather import Steps, Subject
from fusegate.runtime import results

ROUNDS: Final = 21
"""Warm calls that are timed, where not given."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of repeated calls.

    Attributes:
        median: The median.
        low: The lower quartile.
        high: The upper quartile.
        rounds: How many calls were timed.
    """

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, seconds: list[float]) -> Times:
        """Sums up the seconds of calls, at least one."""
        ordered = sorted(seconds)
        last = len(ordered) - 1
        return cls(
            statistics.median(ordered), ordered[last // 4], ordered[last - last // 4], len(ordered)
        )

    def __str__(self) -> str:
        return f"{_seconds(self.median)} ({_seconds(self.low)} to {_seconds(self.high)})"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a function costs, cold and warm apart.

    Attributes:
        name: Name of the function.
        trace_s: Seconds of the trace; None where it was done before, or the function is no jit.
        lower_s: Seconds of the lowering, likewise.
        compile_s: Seconds of the backend compile, likewise.
        first_s: Seconds of the first call, until its result is there; what of the steps above is given had
            been done before it.
        warm: Later calls, each until its result is there.
        dispatch: The host's part of them: until the call returns.
        wait: The rest: until the device is done. On CPU small programs run within the call, so it is near 0.
        against: The other function, where one was given.
        ratio: Warm time over that of the other, the median over pairs of calls; None without one.
        parity: Whether and how the two results agree; None without another function.
    """

    name: str
    trace_s: float | None
    lower_s: float | None
    compile_s: float | None
    first_s: float
    warm: Times
    dispatch: Times
    wait: Times
    against: Measurement | None = None
    ratio: float | None = None
    parity: results.Parity | None = None

    def to_text(self) -> str:
        """Returns the measurement as plain text."""
        lines = [f"`{self.name}`"]
        for label, value in (
            ("trace", self.trace_s),
            ("lower", self.lower_s),
            ("compile", self.compile_s),
            ("first call", self.first_s),
        ):
            lines.append(f"  {label:<10} {'?' if value is None else _seconds(value)}")
        for label, times in (
            ("warm", self.warm),
            ("dispatch", self.dispatch),
            ("wait", self.wait),
        ):
            lines.append(f"  {label:<10} {times}")
        if self.against is not None and self.ratio is not None:
            lines.append(
                f"  {self.ratio:.3g} times `{self.against.name}`, whose warm call takes {self.against.warm}"
            )
        if self.parity is not None:
            lines.append(f"  results: {self.parity}")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.to_text()


def measure(
    f: Callable[..., Any],
    *args: Any,
    against: Callable[..., Any] | None = None,
    rounds: int = ROUNDS,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **kwargs: Any,
) -> Measurement:
    """Measures the first and the later calls of a function, each until its result is there.

    Args:
        f: A boundary, a jitted function or any other, which is then called as it is.
        *args: Its arguments, arrays; none of them donated.
        against: Another function of the same arguments. Its calls alternate with those of `f`, in pairs whose
            order alternates, and the two results are compared: a fused float program is not bit-equal to the
            eager one.
        rounds: Warm calls, or pairs of them; at least 1.
        rtol: Relative tolerance of floating-point results; all others have to be equal.
        atol: Absolute tolerance, likewise.
        **kwargs: Its keyword arguments.

    Raises:
        TypeError: `f` or `against` is not callable.
        ValueError: `rounds` is less than 1.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> double = lambda x: x * 2 + 1
        >>> found = measure(jax.jit(double), jnp.ones(64), against=double, rounds=5)
        >>> found.warm.rounds, found.parity.agrees
        (5, True)
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: it must be at least 1")
    ours = _Runner(f, args, kwargs)
    theirs = None if against is None else _Runner(against, args, kwargs)
    runners = [ours] if theirs is None else [ours, theirs]
    for one in runners:
        one.first()
    for number in range(rounds):
        # The order alternates, so that what the one leaves in the caches helps neither.
        for one in runners if number % 2 else reversed(runners):
            one.again()
    found = ours.measurement()
    if theirs is None:
        return found
    pairs = [mine / other for mine, other in zip(ours.warm, theirs.warm, strict=True) if other > 0]
    return replace(
        found,
        against=theirs.measurement(),
        ratio=statistics.median(pairs) if pairs else None,
        parity=results.compare(ours.out, theirs.out, rtol=rtol, atol=atol),
    )


class _Runner:
    """The calls of one function."""

    def __init__(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not callable(f):
            raise TypeError(f"a callable is measured, not {type(f).__name__}")
        self._call: Callable[[], Any] = functools.partial(f, *args, **kwargs)
        subject = Subject.find(f, args, kwargs)
        self._name = Subject.name_of(f) if subject is None else subject.name
        self._steps = Steps() if subject is None else Steps.of(subject)
        self._first = 0.0
        self.out: Any = None
        self.warm: list[float] = []
        self._dispatch: list[float] = []

    def first(self) -> None:
        """Makes the first call."""
        start = time.perf_counter()
        self.out = results.wait(self._call())
        self._first = time.perf_counter() - start

    def again(self) -> None:
        """Makes a warm call."""
        start = time.perf_counter()
        out = self._call()
        returned = time.perf_counter()
        results.wait(out)
        self.warm.append(time.perf_counter() - start)
        self._dispatch.append(returned - start)

    def measurement(self) -> Measurement:
        """Sums up."""
        seconds = self._steps.seconds
        waits = [whole - part for whole, part in zip(self.warm, self._dispatch, strict=True)]
        return Measurement(
            self._name,
            seconds.get("trace"),
            seconds.get("lower"),
            seconds.get("compile"),
            self._first,
            Times.of(self.warm),
            Times.of(self._dispatch),
            Times.of(waits),
        )


def _seconds(value: float) -> str:
    """Seconds in a unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e6:.3g} us"
