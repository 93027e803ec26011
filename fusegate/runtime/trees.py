"""One level of a pytree at a time: children with their keys, and the metadata beside them.

Public `tree_util` only. The runtime's own flattening gives the leaves; what differs between two calls
may sit in the metadata, so this walk keeps both, with paths in the user's own names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fusegate.runtime import registry, resolve

_BUILTIN = (tuple, list, dict)


class Node(NamedTuple):
    """One interior node of a pytree.

    Attributes:
        type: Its class.
        suffixes: Path suffix of each child: `.perm`, `['k']`, `[2]`.
        children: The child values, in the same order.
        metas: Its static metadata as (suffix, value); empty for tuples, lists and dicts.
        keyed: Whether it is a `@state`, whose metadata is one canonical object per strict value.
    """

    type: type
    suffixes: tuple[str, ...]
    children: tuple[Any, ...]
    metas: tuple[tuple[str, Any], ...]
    keyed: bool = False


def node_of(value: Any) -> Node | None:
    """Returns the top node of a pytree; None where the value is a leaf.

    Args:
        value: Any Python value; never changed.
    """
    tree_util = resolve.required().public("tree_util")
    keyed, treedef = tree_util.tree_flatten_with_path(
        value, is_leaf=lambda other: other is not value
    )
    described = treedef.node_data()
    if described is None:  # a leaf
        return None
    kind, aux = described
    suffixes = tuple(_suffix(path) for path, _ in keyed)
    children = tuple(child for _, child in keyed)
    # None is a node without children; so is an empty container, whose one "child" would be itself.
    held = None if isinstance(value, _BUILTIN) or value is None else _held(aux)
    if isinstance(held, registry.Meta):  # a state keeps all of it in one canonical object
        metas = tuple((f".{name}", item) for name, item in held.items())
    else:
        metas = () if held is None else _metas(value, aux)
    keyed = isinstance(held, registry.Meta)
    return Node(kind, _named(value, suffixes, children), children, metas, keyed)


def _held(aux: Any) -> Any:
    return aux[0] if type(aux) is tuple and len(aux) == 1 else aux


def _suffix(path: tuple[Any, ...]) -> str:
    tree_util = resolve.required().public("tree_util")
    return str(tree_util.keystr(path))


def _named(value: Any, suffixes: tuple[str, ...], children: tuple[Any, ...]) -> tuple[str, ...]:
    """Replaces `[<flat index 0>]`, which names no user thing, by the attribute that holds the child."""
    if not any("flat index" in suffix for suffix in suffixes):
        return suffixes
    attributes = {id(item): f".{name}" for name, item in _attributes(value)}
    return tuple(
        attributes.get(id(child), suffix.replace("<flat index ", "").replace(">", ""))
        for suffix, child in zip(suffixes, children, strict=True)
    )


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                yield field.name, getattr(value, field.name)
    else:
        yield from getattr(value, "__dict__", {}).items()


def _metas(value: Any, aux: Any) -> tuple[tuple[str, Any], ...]:
    """Names the metadata of a node after the attributes that hold it, by identity."""
    names: dict[int, list[str]] = {}
    for name, item in _attributes(value):
        names.setdefault(id(item), []).append(f".{name}")
    metas: list[tuple[str, Any]] = []
    unnamed = 0

    def cover(part: Any, depth: int) -> None:
        nonlocal unnamed
        if names.get(id(part)):
            metas.append((names[id(part)].pop(0), part))
        elif type(part) in {tuple, list} and depth:
            for inner in part:
                cover(inner, depth - 1)
        elif part is not None and not _is_bookkeeping(part):
            metas.append((f"<static {unnamed}>", part))
            unnamed += 1

    cover(aux, 2)
    return tuple(metas)


def _is_bookkeeping(part: Any) -> bool:
    """Whether a piece of metadata is a library's own marker (Equinox keeps a `Missing` in each node)."""
    return type(part).__module__.startswith("equinox.")


def leaves_of(value: Any) -> tuple[list[Any], Any]:
    """Flattens a pytree with the runtime's registry: (leaves, treedef)."""
    leaves, treedef = resolve.required().public("tree_util").tree_flatten(value)
    return leaves, treedef


def flattener() -> Callable[[Any], tuple[list[Any], Any]]:
    """What flattens a pytree, without the Python frame around the runtime's own where it has a name for it.

    `tree_util.default_registry` is exported and not documented. Ran on frx 0.10.2, jax 0.7.2, 0.10.2 and
    0.12.0; without it, or before there is a runtime, the public function is used.
    """
    runtime = resolve.loaded()
    registry_ = None
    if runtime is not None:
        registry_ = getattr(runtime.public("tree_util"), "default_registry", None)
    found: Callable[[Any], tuple[list[Any], Any]] = getattr(registry_, "flatten", leaves_of)
    return found
