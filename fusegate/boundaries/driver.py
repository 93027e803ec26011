"""The eager host loop that orders islands, and the host steps that are meant in it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from fusegate import config, ledger
from fusegate.boundaries import scope
from fusegate.boundaries.sampling import Entry
from fusegate.boundaries.scope import DriverScope, DriverSpec
from fusegate.boundaries.spec import callable_name, definition_of
from fusegate.config import Mode, ModeName
from fusegate.observe import launches
from fusegate.rules import lookup
from fusegate.runtime import frames

P = ParamSpec("P")
R = TypeVar("R")


class Driver:
    """A declared driver: decorates a function, or is entered with `with`. Made by `driver()`."""

    def __init__(
        self,
        name: str | None,
        max_eager: int,
        max_reads: int,
        allow: Collection[str],
        mode: Mode | ModeName | None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of a driver is a string, not {type(name).__name__}")
        self._name = name
        self._max_eager = _budget("max_eager", max_eager)
        self._max_reads = _budget("max_reads", max_reads)
        if isinstance(allow, str) or not isinstance(allow, Collection):
            raise TypeError(f"allow is a collection of codes, not {type(allow).__name__}")
        self._allow = frozenset(lookup(code).code for code in allow)
        self._mode = None if mode is None else config.as_mode(mode)
        self._entered: list[Entry] = []
        # A malformed environment or project table is told here, not in the middle of a run.
        config.environment_mode()
        config.project()

    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Decorates a function, a coroutine function or a generator function."""
        if isinstance(fn, (staticmethod, classmethod)):
            return type(fn)(self(fn.__func__))
        if not callable(fn):
            raise TypeError(f"a driver decorates a callable, not {type(fn).__name__}")
        spec = DriverSpec(
            self._name if self._name is not None else callable_name(fn),
            definition_of(fn),
            str(getattr(fn, "__module__", "") or ""),
            self._max_eager,
            self._max_reads,
            self._allow,
            self._mode,
        )
        wrapped: Callable[P, R] = _wrapped(spec, fn)
        return wrapped

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        flags = frame.f_code.co_flags
        entry = Entry(
            DriverSpec(
                self._name if self._name is not None else frame.f_code.co_qualname,
                frames.location_of(frame),
                str(frame.f_globals.get("__name__", "")),
                self._max_eager,
                self._max_reads,
                self._allow,
                self._mode,
            ),
            frame,
            bound=bool(flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)),
        )
        entry.open()
        self._entered.append(entry)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        entered = self._entered
        # One object may be entered by several tasks: the one that is open here is the one to end.
        here = launches.current()
        entry = next((one for one in reversed(entered) if one.scope is here), entered[-1])
        entered.remove(entry)
        entry.finish(error)


@overload
def driver(fn: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def driver(
    name: str | None = None,
    /,
    *,
    max_eager: int = 0,
    max_reads: int = 0,
    allow: Collection[str] = (),
    mode: Mode | ModeName | None = None,
) -> Driver: ...
@overload
def driver(
    *,
    name: str | None,
    max_eager: int = 0,
    max_reads: int = 0,
    allow: Collection[str] = (),
    mode: Mode | ModeName | None = None,
) -> Driver: ...
def driver(
    fn: Any = None,
    /,
    *,
    max_eager: int = 0,
    max_reads: int = 0,
    allow: Collection[str] = (),
    mode: Mode | ModeName | None = None,
    name: str | None = None,
) -> Any:
    """Declares the eager host loop that orders islands; a decorator, and a `with` block of a given name.

    What happens inside is observed: launches, device-to-host reads, implicit uploads. Works on functions,
    methods, static and class methods, coroutine functions, generators and asynchronous generators. What
    happens in a driver that is called inside another counts for the inner one alone. In warn, the first
    calls are observed and then one in many (`driver_observed_calls`, `driver_sample_every`).

    Args:
        fn: The function, or the name of a `with` block.
        max_eager: Eager launches allowed in one call, at least 0 (FG303).
        max_reads: Device-to-host reads allowed in one call, at least 0 (FG301).
        allow: Codes or slugs of rules that this driver may break.
        mode: `strict`, `warn` or `off` for this driver, whatever else is set.
        name: Name in messages and reports; the qualified name of the function where not given.

    Raises:
        TypeError: A keyword is of a wrong type.
        ValueError: A budget is negative, or a code is unknown.

    Example:
        >>> import jax, fusegate
        >>> @fusegate.island
        ... def step(x):
        ...     return x * 0.5
        >>> @fusegate.driver
        ... def run(x):
        ...     for _ in range(3):
        ...         x = step(x)
        ...     return x
        >>> fusegate.reset()
        >>> _ = run(jax.numpy.ones(4))
        >>> fusegate.report().drivers["run"].launches
        3
    """
    given = fn if isinstance(fn, str) else None
    if given is not None and name is not None:
        raise TypeError("a driver has one name: give it first, or as name=")
    made = Driver(given if given is not None else name, max_eager, max_reads, allow, mode)
    return made if fn is None or given is not None else made(fn)


@contextmanager
def host_op(reason: str) -> Iterator[None]:
    """Marks a deliberate host step in a driver: a proof-of-work grind, a query index, a log line.

    Reads, uploads and eager ops inside are allowed, counted apart, and shown with the reason. Outside of
    any driver it does nothing.

    Args:
        reason: Why it is meant; shown in the report.

    Raises:
        TypeError: The reason is no string.
        ValueError: The reason is empty.

    Example:
        >>> import fusegate
        >>> with fusegate.host_op("proof-of-work grind"):
        ...     pass
    """
    if not isinstance(reason, str):
        raise TypeError(f"the reason of a host op is a string, not {type(reason).__name__}")
    if not reason.strip():
        raise ValueError("host_op() needs a reason; it is shown in the report")
    within = scope.current()
    if within is None:
        yield
        return
    spec = within.spec
    ledger.current().count_driver(spec.name, spec.defined, op=reason)
    # contextlib's frame is between this generator and the `with` statement.
    caller = sys._getframe(2)
    inner = DriverScope(
        spec,
        within.mode,
        caller,
        bound=_is_generator(caller),
        items=within.items,
        within=within,
        reason=reason,
    )
    ledger.watch_unflushed(inner)
    inner.open()
    try:
        yield
    finally:
        inner.close()
        inner.flush()


def _is_generator(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))


def _budget(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an integer, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name}={value}: it must be at least 0")
    return value


def _wrapped(spec: DriverSpec, fn: Callable[..., Any]) -> Any:
    """The function with a scope around each call; a generator's is open only while its body runs."""
    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            entry = Entry(spec, sys._getframe())
            entry.open()
            try:
                result = await fn(*args, **kwargs)
            except BaseException as error:
                entry.finish(error)
                raise
            entry.finish()
            return result

        return run_async
    if inspect.isgeneratorfunction(fn):

        @functools.wraps(fn)
        def run_generator(*args: Any, **kwargs: Any) -> Any:
            return _stepwise(spec, fn(*args, **kwargs))

        return run_generator
    if inspect.isasyncgenfunction(fn):

        @functools.wraps(fn)
        def run_async_generator(*args: Any, **kwargs: Any) -> Any:
            return _stepwise_async(spec, fn(*args, **kwargs))

        return run_async_generator

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        entry = Entry(spec, sys._getframe())
        entry.open()
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            entry.finish(error)
            raise
        entry.finish()
        return result

    return run


def _stepwise(spec: DriverSpec, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    __tracebackhide__ = True
    entry = Entry(spec, sys._getframe())
    try:
        step, value = inner.send, None
        while True:
            entry.open()
            try:
                item = step(value)
            except StopIteration as stop:
                return stop.value
            finally:
                entry.leave()
            try:
                step, value = inner.send, (yield item)
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:  # noqa: BLE001 - thrown in by the consumer, and handed on
                step, value = inner.throw, error
    finally:
        entry.finish()


async def _stepwise_async(spec: DriverSpec, inner: Any) -> Any:
    __tracebackhide__ = True
    entry = Entry(spec, sys._getframe())
    try:
        step, value = inner.asend, None
        while True:
            entry.open()
            try:
                item = await step(value)
            except StopAsyncIteration:
                return
            finally:
                entry.leave()
            try:
                step, value = inner.asend, (yield item)
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - thrown in by the consumer, and handed on
                step, value = inner.athrow, error
    finally:
        entry.finish()
