"""The abstract signature of one trace or compile: everything that the runtime keys it on, with paths."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fusegate.runtime import arrays, context, trees


@dataclass(frozen=True, slots=True)
class Leaf:
    """One traced leaf.

    Attributes:
        path: In the user's argument names: `state.perm`, `xs[2]`.
        shape: Its shape; symbolic sizes stay symbolic.
        dtype: Short name of its dtype.
        weak_type: Whether its type gives way to the other operand's.
        sharding: Sharding and the like that are part of its type, as text.
        host: What the caller passed: `array`, `numpy`, `python`, `tracer`, or empty where unknown.
        committed: Whether the array is committed to its devices; None where unknown.
        placement: Devices as text; empty where unknown.
        layout: Layout in memory as text; empty where unknown.
    """

    path: str
    shape: tuple[Any, ...]
    dtype: str
    weak_type: bool
    sharding: str = ""
    host: str = ""
    committed: bool | None = None
    placement: str = ""
    layout: str = ""

    @property
    def type(self) -> tuple[Any, ...]:
        """What a trace is keyed on."""
        return (self.path, tuple(map(str, self.shape)), self.dtype, self.weak_type, self.sharding)

    @property
    def text(self) -> str:
        """`f32[4]`, `weak f32[]`."""
        weak = "weak " if self.weak_type else ""
        return weak + arrays.describe_parts(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Shape:
    """One interior node of an argument: its class and the names of its children."""

    path: str
    kind: str
    suffixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Static:
    """One static argument, or one piece of pytree metadata.

    Attributes:
        path: In the user's argument names.
        value: Its value.
        is_argument: Whether it is a static argument; metadata otherwise.
        keyed: Whether a `@state` holds it, and so keys it strictly.
    """

    path: str
    value: Any
    is_argument: bool
    keyed: bool = False


@dataclass(frozen=True, eq=False)
class Signature:
    """What one trace of a boundary was keyed on.

    Two signatures are equal when the runtime would take them for the same key. Values of static arguments
    and metadata are kept, and compared as the runtime compares them; array values are not kept.

    Attributes:
        leaves: Traced leaves in flattening order.
        nodes: Interior nodes of the arguments.
        statics: Static arguments and metadata.
        call_form: How each argument was given: `(("x", "positional"), ("k", "keyword"))`.
        treedef: The runtime's tree structure of the traced arguments.
        settings: Configuration in force, as (name, text).
        opaque: The runtime's own context part of the key.
    """

    leaves: tuple[Leaf, ...]
    nodes: tuple[Shape, ...]
    statics: tuple[Static, ...]
    call_form: tuple[tuple[str, str], ...]
    treedef: Any
    settings: tuple[tuple[str, str], ...] = ()
    opaque: Any = None
    digest: int = field(init=False)

    def __post_init__(self) -> None:
        # One integer settles nearly every comparison; the treedef and the statics decide the rest.
        types = tuple(leaf.type for leaf in self.leaves)
        object.__setattr__(self, "digest", hash((types, self.call_form, self.settings)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Signature)
            and self.digest == other.digest
            and same(self.treedef, other.treedef)
            and same(self.opaque, other.opaque)
            and [s.path for s in self.statics] == [s.path for s in other.statics]
            and all(
                same_static(a, b)
                for a, b in zip(self.statics, other.statics, strict=True)
                if a.is_argument
            )
        )

    def __hash__(self) -> int:
        return self.digest

    def __str__(self) -> str:
        shown = [f"{leaf.path}: {leaf.text}" for leaf in self.leaves[:8]]
        if len(self.leaves) > 8:
            shown.append(f"… {len(self.leaves) - 8} more")
        shown += [f"{s.path}={atom_text(s.value)}" for s in self.statics if s.is_argument]
        return ", ".join(shown) or "()"

    __repr__ = __str__

    @property
    def leading_size(self) -> int:
        """Leading size of the first array argument; 0 where there is none or it is symbolic."""
        for leaf in self.leaves:
            if leaf.shape:
                return leaf.shape[0] if isinstance(leaf.shape[0], int) else 0
        return 0


def same(before: Any, after: Any) -> bool:
    """Whether the runtime takes two static values for the same; a comparison that fails says no."""
    if before is after:
        return True
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001 - a user's __eq__ may raise anything; the runtime then misses as well
        return False


def same_static(before: Static, after: Static) -> bool:
    """As `same`; the types of static arguments are told apart as well, and zeros of different signs."""
    if before.is_argument and type(before.value) is not type(after.value):
        return False
    if type(before.value) is float and before.value == 0.0 == after.value:
        return math.copysign(1.0, before.value) == math.copysign(1.0, after.value)
    return same(before.value, after.value)


def atom_text(value: Any) -> str:
    """A static value in a message: small atoms as they are, everything else by its class."""
    if value is None or isinstance(value, (bool, int, float, complex, type)):
        return repr(value) if not isinstance(value, type) else value.__qualname__
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= 40 else f"{type(value).__name__} of length {len(value)}"
    if isinstance(value, tuple) and len(value) <= 6 and all(_is_atom(item) for item in value):
        return f"({', '.join(atom_text(item) for item in value)})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"function {value.__qualname__}"
    return type(value).__qualname__


def _is_atom(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes))


@dataclass(frozen=True)
class Arguments:
    """How the arguments of a decorated function are named, and which are static.

    Attributes:
        signature: Its inspected signature; None where it has none.
        static_nums: Positions of static arguments.
        static_names: Names of static arguments.
        donated_nums: Positions of donated arguments.
        donated_names: Names of donated arguments.
    """

    signature: inspect.Signature | None
    static_nums: frozenset[int] = frozenset()
    static_names: frozenset[str] = frozenset()
    donated_nums: frozenset[int] = frozenset()
    donated_names: frozenset[str] = frozenset()

    def traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yields (name, value) for each argument of a call that is not static."""
        for name, _, is_static, value in self.named(args, kwargs):
            if not is_static:
                yield name, value

    def named(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, bool, Any]]:
        """Yields (name, form, is static, value) for each argument of a call."""
        parameters = list(self.signature.parameters.values()) if self.signature else []
        positional = [
            p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}
        ]
        rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "kwargs")
        known = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        nums = {index % len(args) if index < 0 and args else index for index in self.static_nums}
        for index, value in enumerate(args):
            if index < len(positional):
                name = positional[index].name
            else:
                name = f"{rest}[{index - len(positional)}]"
            yield name, "positional", index in nums, value
        for key in sorted(kwargs):
            name = key if key in known or not parameters else f"{keywords}[{key!r}]"
            yield name, "keyword", key in self.static_names, kwargs[key]


def capture(
    arguments: Arguments,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    passed: tuple[tuple[Any, ...], Mapping[str, Any]] | None = None,
) -> Signature:
    """Captures the signature of a trace from inside the traced body, or of a call from its arguments.

    Args:
        arguments: How the arguments are named and which are static.
        args: Positional arguments, tracers or concrete arrays.
        kwargs: Keyword arguments.
        passed: What the caller passed for them, where it is known; tells numbers and numpy from arrays.

    Returns:
        The signature; it keeps no array.
    """
    leaves: list[Leaf] = []
    nodes: list[Shape] = []
    statics: list[Static] = []
    dynamic: list[Any] = []
    form: list[tuple[str, str]] = []
    originals = values_by_path(arguments.traced(*passed)) if passed is not None else {}
    for name, how, is_static, value in arguments.named(args, kwargs):
        form.append((name, how))
        if is_static:
            statics.append(Static(name, value, is_argument=True))
        else:
            dynamic.append(value)
            _walk(name, value, leaves, nodes, statics, originals)
    _, treedef = trees.leaves_of(dynamic)
    return Signature(
        tuple(leaves),
        tuple(nodes),
        tuple(statics),
        tuple(form),
        treedef,
        (*context.config_values(), ("mesh", context.mesh())),
        context.opaque_context(),
    )


def values_by_path(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The leaves of named values by their paths, in flattening order."""
    found: dict[str, Any] = {}

    def visit(path: str, value: Any) -> None:
        node = trees.node_of(value)
        if node is None:
            found[path] = value
            return
        for suffix, child in zip(node.suffixes, node.children, strict=True):
            visit(path + suffix, child)

    for name, value in named:
        visit(name, value)
    return found


def _walk(
    path: str,
    value: Any,
    leaves: list[Leaf],
    nodes: list[Shape],
    statics: list[Static],
    originals: Mapping[str, Any],
) -> None:
    node = trees.node_of(value)
    if node is None:
        leaves.append(_leaf(path, value, originals.get(path, value)))
        return
    nodes.append(Shape(path, node.type.__qualname__, node.suffixes))
    statics.extend(
        Static(path + suffix, meta, is_argument=False, keyed=node.keyed)
        for suffix, meta in node.metas
    )
    for suffix, child in zip(node.suffixes, node.children, strict=True):
        _walk(path + suffix, child, leaves, nodes, statics, originals)


def _leaf(path: str, value: Any, original: Any) -> Leaf:
    aval = arrays.abstract(value)
    if aval is None or not hasattr(aval, "shape"):
        return Leaf(path, (), type(value).__qualname__, weak_type=False)
    # The concrete sharding of an eager array is a placement; only a tracer's is part of its type.
    typed = ("sharding", "vma", "memory_space") if arrays.is_tracer(value) else ()
    return Leaf(
        path,
        tuple(aval.shape),
        arrays.short_dtype(aval.dtype),
        weak_type=bool(getattr(aval, "weak_type", False)),
        sharding=" ".join(str(getattr(aval, name, "")) for name in typed),
        host=arrays.host_kind(original),
        committed=arrays.committed(original),
        placement=arrays.placement(original),
        layout=arrays.layout(original),
    )
