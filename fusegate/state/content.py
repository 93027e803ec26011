"""Host arrays as metadata: copied once, read-only, keyed by their bytes."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any, Final, TypeVar

from fusegate.runtime import arrays, resolve
from fusegate.state import names

A = TypeVar("A")
_blessed: Final[dict[int, tuple[weakref.ref[Any], ContentKey]]] = {}


class ContentKey:
    """Equal for arrays of one dtype, shape and content; the hash is taken once."""

    __slots__ = ("_hash", "data", "dtype", "shape")

    def __init__(self, dtype: Any, shape: tuple[int, ...], data: bytes) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data
        self._hash = hash((str(dtype), shape, data))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ContentKey)
            and self._hash == other._hash
            and self.dtype == other.dtype
            and self.shape == other.shape
            and self.data == other.data
        )

    def __hash__(self) -> int:
        return self._hash


def by_content(array: A) -> A:
    """Returns a read-only copy of a small host array that may be metadata or a static argument.

    It is keyed by dtype, shape and bytes, hashed here once. Every distinct content is a program of its
    own, with the array baked in as a constant, so this is for tables that rarely change; anything else
    is a data field.

    Args:
        array: A numpy array.

    Returns:
        A numpy array that nothing can write to.

    Raises:
        TypeError: It is no numpy array (a device array would be read from the device), or holds Python
            objects.

    Example:
        >>> import numpy as np
        >>> offsets = by_content(np.arange(3))
        >>> offsets.flags.writeable
        False
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise TypeError(f"by_content() takes a numpy array, not {names.of_type(type(array))}")
    if array.dtype.hasobject:
        kind = array.dtype
        raise TypeError(f"by_content() takes an array of numbers, not of dtype {kind}")
    data = array.tobytes()
    # A view of an immutable buffer: setflags(write=True) is refused on it.
    copy: Any = np.ndarray(array.shape, array.dtype, buffer=data)
    _bless(copy, ContentKey(array.dtype, array.shape, data))
    return copy  # type: ignore[no-any-return]


def _bless(array: Any, key: ContentKey) -> None:
    number = id(array)
    _blessed[number] = (weakref.ref(array, lambda _: _blessed.pop(number, None)), key)


def key_of(value: Any) -> Hashable | None:
    """The key of a host array or scalar.

    Args:
        value: A numpy array or scalar.

    Returns:
        The key; None for an array that `by_content` did not make.
    """
    import numpy as np

    if isinstance(value, np.generic):
        if value.dtype.hasobject:
            return None
        data = value.tobytes()
        # NaN has many bit patterns and one meaning. Types without an order of their own are left alone.
        if value.dtype.kind in "fc" and bool(value != value):  # noqa: PLR0124
            data = b"nan"
        return ("scalar", str(value.dtype), data)
    reference, key = _blessed.get(id(value), (None, None))
    return key if reference is not None and reference() is value else None


def is_array(value: Any) -> bool:
    """Whether a value is an array of the host or of the runtime; a numpy scalar is a value."""
    if arrays.is_host_array(value):
        import numpy as np

        return isinstance(value, np.ndarray)
    runtime = resolve.loaded()
    return runtime is not None and isinstance(value, runtime.module.Array)
