"""Facts about the states that enter and leave a traced body: structure, types and metadata by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fusegate.runtime import arrays, registry, resolve


@dataclass(frozen=True, slots=True)
class LeafType:
    """The type of one data leaf.

    Attributes:
        path: Below the state: `.count`, `.layers[0]`.
        shape: Its shape.
        dtype: Short name of its dtype, or the class name of a leaf that is no array.
        weak_type: Whether its type gives way to the other operand's.
    """

    path: str
    shape: tuple[Any, ...]
    dtype: str
    weak_type: bool = False

    @property
    def text(self) -> str:
        """`f32[4]`, `weak i32[]`."""
        weak = "weak " if self.weak_type else ""
        return weak + arrays.describe_parts(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class StateFacts:
    """One state as it entered or left a traced body. Keeps no array.

    Attributes:
        path: Where it stands: `state` among the arguments, `[0]` in the result.
        kind: Name of its class, for messages.
        cls: Its class.
        structure: Paths of its data leaves, and the classes of its nodes; metadata left out.
        leaves: Types of its data leaves, in the same order.
        metas: Its metadata as (name, text).
    """

    path: str
    kind: str
    cls: type
    structure: tuple[tuple[str, ...], tuple[str, ...]]
    leaves: tuple[LeafType, ...]
    metas: tuple[tuple[str, str], ...]


def drift_facts(named: Iterable[tuple[str, Any]]) -> tuple[StateFacts, ...]:
    """Collects the states among the arguments of a traced body; call it when the body is entered.

    Args:
        named: The traced arguments as (name, value), static ones left out:
            `[(name, value) for name, _, static, value in arguments.named(args, kwargs) if not static]`.

    Returns:
        The outermost states in order; empty where there is none, at the price of one flattening.
    """
    return tuple(found for name, value in named for found in states_in(value, name))


def states_in(value: Any, path: str = "") -> tuple[StateFacts, ...]:
    """Collects the outermost states in a pytree.

    Args:
        value: An argument, or the result of a traced body.
        path: Where it stands: the argument's name, or empty for a result.
    """
    tree_util = resolve.required().public("tree_util")
    if registry.is_state(value):
        return (_facts(value, path),)
    if not any(map(registry.is_state, tree_util.tree_leaves(value, is_leaf=registry.is_state))):
        return ()
    keyed, _ = tree_util.tree_flatten_with_path(value, is_leaf=registry.is_state)
    return tuple(
        _facts(item, path + str(tree_util.keystr(keys)))
        for keys, item in keyed
        if registry.is_state(item)
    )


def _facts(state: Any, path: str) -> StateFacts:
    tree_util = resolve.required().public("tree_util")
    keyed, treedef = tree_util.tree_flatten_with_path(state)
    leaves = tuple(_leaf_type(str(tree_util.keystr(keys)), leaf) for keys, leaf in keyed)
    meta = getattr(state, registry.HIDDEN)
    return StateFacts(
        path=path,
        kind=type(state).__qualname__,
        cls=type(state),
        structure=(tuple(leaf.path for leaf in leaves), tuple(_node_classes(treedef))),
        leaves=leaves,
        metas=tuple((name, _meta_text(item)) for name, item in meta.items()),
    )


def _node_classes(treedef: Any) -> Iterator[str]:
    """Classes of all nodes without their metadata: a state with other metadata keeps its structure."""
    data = treedef.node_data()
    if data is not None:
        yield f"{data[0].__module__}.{data[0].__qualname__}"
        for child in treedef.children():
            yield from _node_classes(child)


def _meta_text(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _leaf_type(path: str, leaf: Any) -> LeafType:
    aval = arrays.abstract(leaf)
    if aval is None or not hasattr(aval, "shape"):
        return LeafType(path, (), type(leaf).__qualname__)
    return LeafType(
        path,
        tuple(aval.shape),
        arrays.short_dtype(aval.dtype),
        weak_type=bool(getattr(aval, "weak_type", False)),
    )
