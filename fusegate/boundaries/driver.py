"""The eager host loop that orders islands, and the host steps that are meant in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def host_op(reason: str) -> Iterator[None]:
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError("host_op() needs a reason; it is shown in the report")
    yield


class driver:
    def __init__(self, fn: Any = None, /, *, max_eager: int = 0, max_reads: int = 0, **k: Any) -> None:
        self.fn = fn

    def __call__(self, *a: Any, **k: Any) -> Any:
        if callable(self.fn):
            return self.fn(*a, **k)
        self.fn = a[0]
        return self

    def __enter__(self) -> None: ...
    def __exit__(self, *a: Any) -> None: ...
