"""Which callable a program was compiled for, as an object and as the code that it was built from."""

from __future__ import annotations

import functools
import inspect
import weakref
from dataclasses import dataclass
from typing import Any

from fusegate.errors import Location
from fusegate.observe.owners import SPEC_MARK
from fusegate.runtime import frames


@dataclass(frozen=True, slots=True)
class Built:
    """The callables that one program was compiled for.

    Attributes:
        name: Name of the first one.
        codes: Where the code of each is, and what it is called: equal for a rebuilt callable.
        spec: The boundary's declaration, where the program is one of a boundary.
        objects: The objects themselves, by weak reference; None for one that has none.
        epoch: Token of the runtime's caches when it was compiled.
        times: Which identical compile it was.
        when: When it was compiled, in the numbers that declarations have.
    """

    name: str
    codes: tuple[Location | None, ...]
    spec: Any
    objects: tuple[Any, ...]
    epoch: object
    times: int = 1
    when: int = 0

    def same_objects(self, other: Built) -> bool:
        """Whether both are of the very same objects, so that nothing was rebuilt."""
        return len(self.objects) == len(other.objects) and all(
            map(_is_one, self.objects, other.objects)
        )

    def same_first(self, other: Built) -> bool:
        """Whether the first callable, the one that a boundary decorates, is the very same."""
        return _is_one(self.objects[0], other.objects[0])


def _is_one(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a() is not None and a() is b()


def identify(callables: tuple[Any, ...], epoch: object) -> Built | None:
    """Describes the callables of a program; None where one has no Python code to tell it by.

    Args:
        callables: What was given to `jit`, or the bodies of an eager loop.
        epoch: Token of the runtime's caches.
    """
    spec = getattr(callables[0], SPEC_MARK, None)
    # The user's function, not the boundary around it: decorating one function again rebuilds nothing.
    objects = (spec.fn, *callables[1:]) if spec is not None else callables
    codes = tuple(map(_code_of, objects))
    if any(code is None for code in codes):
        return None
    first = codes[0]
    assert first is not None
    name = spec.name if spec is not None else first.function.replace("<locals>.", "")
    return Built(name, codes, spec, tuple(map(_reference, objects)), epoch)


def _code_of(value: Any) -> Location | None:
    for _ in range(16):
        if isinstance(value, functools.partial):
            value = value.func
        elif inspect.ismethod(value):
            value = value.__func__
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        else:
            break
    code = getattr(value, "__code__", None)
    if code is None:
        code = getattr(vars(type(value)).get("__call__"), "__code__", None)
    if code is None:
        return None
    return Location(code.co_filename, code.co_firstlineno, code.co_qualname)


def _reference(value: Any) -> Any:
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def is_library_code(built: Built) -> bool:
    """Whether all of it is code of the runtime, which builds some of its jits anew by itself."""
    return all(code is not None and frames.is_library_file(code.file) for code in built.codes)
