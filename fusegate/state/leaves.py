"""The data of a state, leaf by leaf: arrays, bare numbers, and what no jit takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fusegate.judge.state import DataFact
from fusegate.runtime import arrays, registry, resolve
from fusegate.state import names

FIT: Final[set[type]] = {type(None)}
"""Types whose instances are fit whatever they hold: arrays and modules; filled as they are met."""
_SCALARS: Final = (bool, int, float, complex)
_TEXT: Final = (str, bytes, bytearray)
_NO_NUMBERS: Final = "OUSMm"
"""Kinds of numpy dtypes that no jit takes: objects, text, times."""
_LIBRARIES: Final = ("jax", "jaxlib", "frx", "frxlib", "equinox", "optax", "orbax", "flax", "chex")
"""Whose own classes stand for arrays in a tree of specifications: shardings, types, restore arguments."""


def all_fit(values: Iterable[Any]) -> bool:
    """Whether all data of a state is at a glance what a jit takes; the quick way of a construction.

    Args:
        values: The values of the data fields.
    """
    for value in values:
        cls = type(value)
        if cls not in FIT and registry.MARK not in cls.__dict__ and not _fits(value):
            return False
    return True


def _fits(value: Any) -> bool:
    runtime = resolve.loaded()
    if runtime is None:
        return False
    if _is_array(value):
        return True
    if _is_of(type(value), ("equinox",)):
        FIT.add(type(value))
        return True
    if isinstance(value, (*_SCALARS, *_TEXT)):
        return False
    leaves = runtime.public("tree_util").tree_leaves(value, is_leaf=registry.is_state)
    if len(leaves) == 1 and leaves[0] is value:
        return False
    return all(type(leaf) in FIT or registry.is_state(leaf) or _is_array(leaf) for leaf in leaves)


def _is_array(value: Any) -> bool:
    if isinstance(value, resolve.required().module.Array):
        FIT.add(type(value))
        return True
    return arrays.is_host_array(value) and value.dtype.kind not in _NO_NUMBERS


def facts_of(value: Any, path: str) -> list[DataFact]:
    """Describes the leaves of one data field.

    Nested states answered for themselves when they were constructed; an Equinox module holds functions
    among its leaves by design, and `filter=True` takes them.

    Args:
        value: The field's value.
        path: The field's name.
    """
    tree_util = resolve.required().public("tree_util")
    keyed, _ = tree_util.tree_flatten_with_path(value, is_leaf=_is_opaque)
    return [_fact(leaf, path + str(tree_util.keystr(keys))) for keys, leaf in keyed]


def _is_opaque(value: Any) -> bool:
    return registry.is_state(value) or _is_of(type(value), ("equinox",))


def _is_of(cls: type, libraries: tuple[str, ...]) -> bool:
    return any(base.__module__.partition(".")[0] in libraries for base in cls.__mro__)


def _fact(leaf: Any, path: str) -> DataFact:
    cls = type(leaf)
    if registry.is_state(leaf) or _is_opaque(leaf):
        return DataFact(path, "array", cls.__qualname__)
    if _is_array(leaf):
        return DataFact(path, "array", arrays.describe(leaf))
    if isinstance(leaf, _SCALARS):
        kind = "integer" if isinstance(leaf, int) else "number"
        return DataFact(path, kind, cls.__name__)  # type: ignore[arg-type]
    if arrays.is_host_array(leaf):
        return DataFact(path, "unfit", f"a numpy array of dtype {leaf.dtype}")
    if cls is object or isinstance(leaf, type) or _is_of(cls, _LIBRARIES) or _is_dtype(leaf):
        return DataFact(path, "other", cls.__qualname__)
    what = names.of_callable(leaf) if callable(leaf) else names.of_type(cls)
    return DataFact(path, "unfit", what)


def _is_dtype(value: Any) -> bool:
    return _is_of(type(value), ("numpy", "ml_dtypes", "zk_dtypes"))
