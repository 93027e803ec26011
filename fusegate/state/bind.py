"""`bind` and `@stable`: equal code and equal bound values give one callable, so that its caches hit."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

from fusegate import config
from fusegate.config import Mode
from fusegate.judge import state as judge
from fusegate.judge.deliver import deliver
from fusegate.judge.state import Owner
from fusegate.runtime import frames
from fusegate.state import identity, names
from fusegate.state.closures import CallableKeyer, frozen_copy
from fusegate.state.keys import NotByValue, holder_of

P = ParamSpec("P")
R = TypeVar("R")

MAX_KEPT: Final = 4096
"""Callables kept alive, the least recently asked for first to go; as many as the runtime keeps programs."""

_kept: Final[OrderedDict[Hashable, Any]] = OrderedDict()
_lock: Final = Lock()


def bind(fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Callable[..., R]:
    """Binds arguments by value: equal bindings of equal functions give the very same callable.

    A `functools.partial`, a lambda or a nested function is a new object each time, and jit, scan, cond and
    while_loop key their programs on that object. Functions count by their code, cells and defaults, and a
    copy is bound, so that a `nonlocal` assigned later makes another callable instead of a stale program.

    Args:
        fn: A function; a lambda or a nested one will do.
        *args: Leading arguments; static values, not arrays.
        **kwargs: Keyword arguments; static values, not arrays.

    Returns:
        The callable, kept for as long as it is among the 4096 that were asked for last.

    Raises:
        Violation: In strict: a value is an array (FG403: pass it as an argument of the call), is mutable
            (FG402), or compares by identity (FG401). In warn a plain `functools.partial` is returned.
        TypeError: `fn` is not callable.

    Example:
        >>> def scaled(k, x):
        ...     return k * x
        >>> bind(scaled, 2.0) is bind(scaled, 2.0)
        True
        >>> bind(scaled, 2.0) is bind(scaled, 2)
        False
    """
    __tracebackhide__ = True
    if not callable(fn):
        raise TypeError(f"bind() takes a callable, not {type(fn).__qualname__}")
    partial = functools.partial(fn, *args, **kwargs)
    parts = [*((f"args[{i}]", item) for i, item in enumerate(args)), *sorted(kwargs.items())]
    held: Callable[..., R] = _one_of(partial, [("", fn), *parts], _bound)
    return held


def stable(factory: Callable[P, R]) -> Callable[P, R]:
    """Makes a function that builds closures return the same one for equal code, cells and defaults.

    Args:
        factory: Returns a function, a partial, or a tuple of them (an optimizer's `init` and `update`).

    Returns:
        The factory; what it returns is one callable per value, with cells that no later assignment
        reaches. Also usable on a factory of another library: `fusegate.stable(optax.adam)(1e-3)`.

    Raises:
        TypeError: `factory` is not callable. When called, as `bind`.

    Example:
        >>> @stable
        ... def scaling(k):
        ...     return lambda x: k * x
        >>> scaling(2.0) is scaling(2.0)
        True
        >>> scaling(2.0) is scaling(-2.0)
        False
    """
    if not callable(factory):
        raise TypeError(f"stable() decorates a callable, not {type(factory).__qualname__}")

    @functools.wraps(factory)
    def build(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        made: R = _stabilised(factory(*args, **kwargs))
        return made

    return build


def _stabilised(made: Any) -> Any:
    __tracebackhide__ = True
    if isinstance(made, tuple):
        parts = [_stabilised(item) for item in made]
        return type(made)._make(parts) if hasattr(made, "_make") else tuple(parts)
    if not identity.is_function_like(made) or identity.is_module_level(made):
        return made
    return _one_of(made, [("", made)], frozen_copy)


def _one_of(made: Any, parts: list[tuple[str, Any]], finish: Callable[[Any], Any]) -> Any:
    """The one callable of a value.

    Args:
        made: The callable that was built now.
        parts: What it is made of, as (path, value).
        finish: Makes the callable that is kept from it.
    """
    __tracebackhide__ = True
    keyer = CallableKeyer()
    place = ""
    try:
        key: list[Hashable] = [finish]
        for path, value in parts:
            place = path
            key.append((path, keyer.key(value)))
        place = ""
        found = _recall(tuple(key))
        if found is not None:
            return found
        keyer.verify()
    except NotByValue as error:
        _refused(made, error, place)
        return made
    return _keep(tuple(key), finish(made))


def _recall(key: Hashable) -> Any:
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
        return found


def _keep(key: Hashable, value: Any) -> Any:
    identity.mark_stable(value)
    with _lock:
        kept = _kept.setdefault(key, value)
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
        return kept


def _bound(partial: functools.partial[Any]) -> functools.partial[Any]:
    """A partial of a frozen copy that goes by the name of its function, in programs and in reports."""
    held: Any = functools.partial(frozen_copy(partial.func), *partial.args, **partial.keywords)
    inner = holder_of(partial)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(inner, name):
            setattr(held, name, getattr(inner, name))
    return held  # type: ignore[no-any-return]


def _refused(made: Any, error: NotByValue, place: str) -> None:
    __tracebackhide__ = True
    inner = holder_of(made)
    mode = config.resolve(None, getattr(inner, "__module__", None) or "")
    if mode is Mode.OFF:
        return
    location = frames.user_location()
    owner = Owner(
        getattr(inner, "__name__", type(inner).__qualname__),
        "callable",
        frames.definition_of(getattr(inner, "__code__", None)),
    )
    path = (place + error.path).removeprefix(".")
    fix = error.fix
    if error.kind == "array":
        fix = "pass it as an argument of the call instead of binding it"
    elif identity.is_function_like(inner) and not path:
        fix = f"decorate the plain function, not {names.of_callable(inner)}, and make the jit of the result"
    fact = judge.ValueFact(error.kind, path, error.what, error.reason, fix)
    for finding in judge.check_values(owner, [fact], location, noun="bound value"):
        deliver(finding, mode)
