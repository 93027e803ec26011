"""Watches every compile for a program that was compiled before, for another object of the same code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import FrameType

from fusegate import config, ledger
from fusegate.boundaries import scope
from fusegate.boundaries.spec import SEQUENCE
from fusegate.config import Mode
from fusegate.judge.deliver import deliver
from fusegate.judge.rebuilt import check_rebuilt
from fusegate.observe import health, rebuilt
from fusegate.runtime import context, modulehash, stack

OBSERVER = "rebuilt callables"


def install() -> None:
    """Starts watching; costs nothing where nothing is compiled. Further calls do nothing."""
    if not modulehash.on_compile(_on_compile):
        health.switch_off(OBSERVER, "this runtime has no compile_or_get_cached to observe")


def _on_compile(program: str, fingerprint: Callable[[], bytes], frame: FrameType) -> None:
    __tracebackhide__ = True
    mode = config.resolve()
    health.guarded(OBSERVER, mode, lambda: _judge(program, fingerprint, frame))


def _judge(program: str, fingerprint: Callable[[], bytes], frame: FrameType) -> None:
    __tracebackhide__ = True
    callables, loop, call_frame = modulehash.callables_of(program, frame)
    if not callables:
        return
    built = rebuilt.identify(callables, context.cache_epoch())
    if built is None or rebuilt.is_library_code(built):
        return
    driver = scope.current()
    module = str(getattr(callables[0], "__module__", "") or "")
    if built.spec is not None:
        mode, allow = built.spec.mode(), built.spec.allow
    elif driver is not None:
        mode, allow = driver.mode, driver.spec.allow
    else:
        mode, allow = config.resolve(None, module), frozenset()
    if mode is Mode.OFF:
        return
    where = stack.place(call_frame, launch=True)
    if where.inside:  # part of a program that is being traced
        return
    book = ledger.current()
    key = (built.codes, where.location, program, fingerprint())
    # Without the declaration: what the ledger keeps must not keep a boundary alive.
    kept = dataclasses.replace(built, spec=None, when=next(SEQUENCE))
    earlier: rebuilt.Built | None = book.remember(key, kept)
    if earlier is None or earlier.epoch is not built.epoch or earlier.same_objects(built):
        return
    if built.spec is not None and not earlier.same_first(built) and built.spec.made < earlier.when:
        return  # one of several boundaries that were made beforehand, each for good
    book.remember(key, dataclasses.replace(kept, times=earlier.times + 1))
    role = built.spec.role if built.spec is not None else "loop body" if loop else "jit"
    found = check_rebuilt(
        built.name,
        role,
        built.codes[0],
        where.location,
        earlier.times + 1,
        enforced=built.spec is not None or driver is not None,
        loop=loop,
    )
    deliver(found, mode, built.spec, allow=allow)
