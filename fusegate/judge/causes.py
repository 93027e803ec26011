"""Why a boundary traced or compiled again: the difference from the nearest earlier signature."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fusegate.errors import Cause, CauseKind
from fusegate.observe.signature import Leaf, Signature, Static, atom_text, same, same_static

FIXES: dict[str, str] = {
    "shape": "pass the same shape on every call (pad or mask the tail), or declare the traces that the "
    "shapes cost: max_traces=lambda n: n.bit_length() for a halving table",
    "dtype": "convert it to one dtype before the boundary",
    "weak_type": "give it a dtype where it is made: jnp.float32(x) or x.astype(...), not a bare number",
    "structure": "pass the same tree structure on every call",
    "leaf_type": "pass the same kind of value on every call: an array here is data, a number is static",
    "static_value": "every static value is a program of its own: pass it as an array, or declare the "
    "values with max_traces",
    "meta_value": "every metadata value is a program of its own: make it a data field, or declare the "
    "values with max_traces",
    "meta_identity": "give the class a value __eq__ and __hash__ (a frozen dataclass has both), or build "
    "the object once and pass the same one",
    "call_form": "pass this argument the same way on every call, by position or by name",
    "sharding": "place it with the same sharding on every call, by device_put or in_shardings=",
    "committed": "device_put every input once, before the first call, or none of them",
    "config": "set the option once, before the first call",
    "callable": "define the function once at module level, or key it by value with fusegate.bind",
    "cache_cleared": "the caches were cleared; nothing to do unless it happens in a loop",
    "python_scalar": "pass an array of a fixed dtype: jnp.float32(x), not a bare Python number",
}
"""Cause kind -> what to do about it."""

COMPARED = (
    "argument structure, shapes, dtypes, weak types, shardings, call form, static arguments, metadata, "
    "configuration and mesh"
)


def cause(kind: CauseKind, path: str = "", before: str = "", after: str = "") -> Cause:
    """A cause with the fix of its kind."""
    return Cause(kind, path, before, after, FIXES.get(kind, ""))


def nothing_differs(what: str = COMPARED) -> Cause:
    """The cause where all that was compared is equal; its fix lists it."""
    return Cause(
        "none",
        fix=f"compared equal: {what}. The runtime dropped its own entry (an evicted cache, or a static "
        "value whose __eq__ or __hash__ changes); keep fewer programs alive, or make the value stable",
    )


def nearest(after: Signature, earlier: Sequence[Signature]) -> Cause:
    """The difference from the earlier signature that differs in the fewest places.

    Args:
        after: The new signature.
        earlier: Earlier ones, oldest first; of equally near ones the latest counts. May be empty.
    """
    best: list[Cause] | None = None
    for before in reversed(earlier):
        found = list(differences(before, after))
        if best is None or len(found) < len(best):
            best = found
        if len(best) == 1:
            break
    return best[0] if best else nothing_differs()


def differences(before: Signature, after: Signature) -> Iterator[Cause]:
    """All differences of two trace signatures, the weightiest kind first."""
    yield from _form(before, after)
    nodes = list(_structure(before, after))
    yield from nodes
    yield from _leaf_types(before, after)
    yield from _statics(before.statics, after.statics)
    if not nodes:
        yield from _leaves(before.leaves, after.leaves)
    if before.settings != after.settings:
        old = dict(before.settings)
        for name, text in after.settings:
            if old.get(name) != text:
                yield cause("config", name, str(old.get(name)), text)
    elif not same(before.opaque, after.opaque):
        yield cause("config", "", "", "a context of the runtime (axis names, mesh, user context)")


def _form(before: Signature, after: Signature) -> Iterator[Cause]:
    old, new = dict(before.call_form), dict(after.call_form)
    for name in dict.fromkeys((*new, *old)):
        if old.get(name) != new.get(name):
            yield cause("call_form", name, old.get(name, "omitted"), new.get(name, "omitted"))


def _structure(before: Signature, after: Signature) -> Iterator[Cause]:
    shared = dict(before.call_form).keys() & dict(after.call_form).keys()

    def shapes(signature: Signature) -> dict[str, str]:
        leaves = {leaf.path: "leaf" for leaf in signature.leaves}
        nodes = {node.path: f"{node.kind} of {len(node.suffixes)}" for node in signature.nodes}
        return {p: text for p, text in (leaves | nodes).items() if _argument(p) in shared}

    def kinds(signature: Signature) -> dict[str, tuple[str, tuple[str, ...]]]:
        return {node.path: (node.kind, node.suffixes) for node in signature.nodes}

    # A leaf that is data here and static there is told as a leaf of another type.
    turned = {s.path for s in before.statics} ^ {s.path for s in after.statics}
    old = {path: text for path, text in shapes(before).items() if path not in turned}
    new = {path: text for path, text in shapes(after).items() if path not in turned}
    old_kinds, new_kinds = kinds(before), kinds(after)
    told: list[str] = []
    for path in sorted(dict.fromkeys((*new, *old)), key=len):
        if any(path.startswith(parent) for parent in told):
            continue
        if (old.get(path), old_kinds.get(path)) != (new.get(path), new_kinds.get(path)):
            told.append(path)
            yield cause("structure", path, old.get(path, "absent"), new.get(path, "absent"))


def _argument(path: str) -> str:
    """The argument that a path starts at; `xs[2]` is one of a variable number of arguments."""
    for index, character in enumerate(path):
        if character == ".":
            return path[:index]
        if character == "[" and not path.startswith(("args[", "kwargs[")):
            return path[:index]
    return path


def _leaves(before: Iterable[Leaf], after: Iterable[Leaf]) -> Iterator[Cause]:
    old = {leaf.path: leaf for leaf in before}
    for leaf in after:
        earlier = old.get(leaf.path)
        if earlier is not None and earlier.type != leaf.type:
            yield _leaf(earlier, leaf)


def _leaf(before: Leaf, after: Leaf) -> Cause:
    if _strings(before.shape) != _strings(after.shape):
        return cause("shape", after.path, before.text, after.text)
    if (before.dtype, before.weak_type) != (after.dtype, after.weak_type):
        if "python" in {before.host, after.host}:
            return cause("python_scalar", after.path, _hosted(before), _hosted(after))
        kind: CauseKind = "dtype" if before.dtype != after.dtype else "weak_type"
        return cause(kind, after.path, before.text, after.text)
    return cause("sharding", after.path, before.sharding, after.sharding)


def _leaf_types(before: Signature, after: Signature) -> Iterator[Cause]:
    """Leaves that were traced in one call and static in the other, by Equinox's partition rule."""
    old = {leaf.path: leaf.text for leaf in before.leaves}
    new = {leaf.path: leaf.text for leaf in after.leaves}
    old_static = {s.path: f"static {type(s.value).__qualname__}" for s in before.statics}
    new_static = {s.path: f"static {type(s.value).__qualname__}" for s in after.statics}
    for path in new.keys() & old_static.keys():
        yield cause("leaf_type", path, old_static[path], new[path])
    for path in new_static.keys() & old.keys():
        yield cause("leaf_type", path, old[path], new_static[path])


def _strings(shape: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, shape))


def _hosted(leaf: Leaf) -> str:
    return f"Python number ({leaf.text})" if leaf.host == "python" else leaf.text


def _statics(before: Sequence[Static], after: Sequence[Static]) -> Iterator[Cause]:
    old = {static.path: static for static in before}
    for static in after:
        earlier = old.get(static.path)
        # States tell 2.0 from 2, which compare equal.
        if earlier is not None and (
            not same_static(earlier, static) or atom_text(earlier.value) != atom_text(static.value)
        ):
            yield static_difference(earlier.value, static.value, static.path, static.is_argument)


def static_difference(
    before: Any, after: Any, path: str, is_argument: bool, depth: int = 6
) -> Cause:
    """Finds the innermost part in which two unequal static values differ.

    Args:
        before: Earlier value.
        after: Later value; unequal to it as the runtime compares.
        path: Where they stand.
        is_argument: Whether it is a static argument; metadata otherwise.
        depth: How many levels to look down.
    """
    value_kind: CauseKind = "static_value" if is_argument else "meta_value"
    if type(before) is type(after) and depth:
        parts = _unequal_part(before, after)
        if parts is not None:
            suffix, old, new = parts
            return static_difference(old, new, path + suffix, is_argument, depth - 1)
        if _is_function(after):
            kind: CauseKind = "callable" if is_argument else "meta_identity"
            return cause(kind, path, _function_text(before), f"{_function_text(after)}, built anew")
        if isinstance(after, float) and math.isnan(after):
            return cause(value_kind, path, "nan", "nan (unequal to itself)")
        # Equal in every part, and yet unequal: its __eq__ is one of identity, whoever wrote it.
        if _compares_by_identity(after) or (not _is_plain(after) and parts is None):
            shown = f"{type(after).__qualname__} ({type(after).__module__}) compares by identity"
            return cause("meta_identity", path, type(before).__qualname__, shown)
    old_text, new_text = atom_text(before), atom_text(after)
    if old_text == new_text and type(before) is not type(after):
        old_text, new_text = type(before).__qualname__, type(after).__qualname__
    return cause(value_kind, path, old_text, new_text)


def _unequal_part(before: Any, after: Any) -> tuple[str, Any, Any] | None:
    """The one part in which two values of a class differ, where they have parts."""
    old, new = dict(_parts(before)), dict(_parts(after))
    if old.keys() != new.keys():
        return None
    for suffix, value in new.items():
        if not same(old[suffix], value):
            return suffix, old[suffix], value
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from _parts(value.args)
        yield from _parts(value.keywords)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for item in dataclasses.fields(value):
            if item.compare and hasattr(value, item.name):
                yield f".{item.name}", getattr(value, item.name)
    elif not _compares_by_identity(value) and not callable(value):
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


def _is_plain(value: Any) -> bool:
    """Whether a value is one of Python's own, whose comparison is by value."""
    return type(value).__module__ == "builtins" or isinstance(value, enum.Enum)


def _is_function(value: Any) -> bool:
    return isinstance(value, (types.MethodType, functools.partial)) or (
        callable(value) and not isinstance(value, type) and hasattr(value, "__qualname__")
    )


def _function_text(value: Any) -> str:
    inner = value.func if isinstance(value, functools.partial) else value
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"partial of {name}" if isinstance(value, functools.partial) else f"function {name}"


def _compares_by_identity(value: Any) -> bool:
    equality: Any = type(value).__eq__
    return bool(equality is object.__eq__)


def recompiled(before: Sequence[Signature], after: Signature) -> Cause:
    """Why a program whose trace was at hand was compiled again.

    Args:
        before: Calls that were compiled for the same trace key.
        after: The call that was compiled now.
    """
    best: list[Cause] | None = None
    for earlier in reversed(before):
        found = list(_placements(earlier.leaves, after.leaves))
        if best is None or len(found) < len(best):
            best = found
    return (
        best[0]
        if best
        else nothing_differs(f"{COMPARED}, placements and commitment of the arguments")
    )


def _placements(before: Iterable[Leaf], after: Iterable[Leaf]) -> Iterator[Cause]:
    old = {leaf.path: leaf for leaf in before}
    for leaf in after:
        earlier = old.get(leaf.path)
        if earlier is None:
            continue
        if bool(earlier.committed) != bool(leaf.committed):
            texts = ["committed" if side.committed else "uncommitted" for side in (earlier, leaf)]
            yield cause("committed", leaf.path, *texts)
        elif earlier.placement != leaf.placement and leaf.placement and earlier.placement:
            yield cause("sharding", leaf.path, earlier.placement, leaf.placement)
        elif earlier.layout != leaf.layout and leaf.layout and earlier.layout:
            yield cause("sharding", leaf.path, earlier.layout, leaf.layout)
