"""`filter=True`: arrays are traced and every other leaf is static, decided leaf by leaf.

Equinox's rule, with its own predicate. What a call costs is the partition, so the partition of an
immutable object is remembered for as long as the object lives, and its static part is one canonical token
that the runtime compares by identity.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from fusegate.boundaries.spec import BoundarySpec
from fusegate.observe import signature
from fusegate.observe.signature import Leaf, Signature, Static
from fusegate.runtime import modules, resolve, transfer, trees


class Token:
    """The static part of one argument: one canonical object per value, so that identity is equality.

    Attributes:
        treedef: Structure of the argument.
        statics: Static leaves by position; positions that are missing are data.
    """

    __slots__ = ("__weakref__", "statics", "treedef")

    def __init__(self, treedef: Any, statics: tuple[tuple[int, Any], ...]) -> None:
        self.treedef = treedef
        self.statics = statics

    def combine(self, data: Any) -> Any:
        """Puts data leaves and static leaves together again."""
        if not self.statics:
            return self.treedef.unflatten(data)
        static = dict(self.statics)
        rest = iter(data)
        count = self.treedef.num_leaves
        return self.treedef.unflatten(
            [static[i] if i in static else next(rest) for i in range(count)]
        )


_tokens: weakref.WeakValueDictionary[Any, Token] = weakref.WeakValueDictionary()


def _token(treedef: Any, statics: tuple[tuple[int, Any], ...]) -> Token:
    # Equal numbers of different types, and zeros of different signs, are different programs.
    key = (treedef, tuple((position, type(leaf), _by_bits(leaf)) for position, leaf in statics))
    token = _tokens.get(key)
    if token is None:
        token = _tokens[key] = Token(treedef, statics)
    return token


def _by_bits(leaf: Any) -> Any:
    return leaf.hex() if type(leaf) is float else leaf


def partition(
    value: Any, is_array: Callable[[Any], bool] | None = None
) -> tuple[tuple[Any, ...], Token]:
    """Splits an argument into its data leaves and the token of everything else.

    Args:
        value: The argument.
        is_array: Whether a leaf is data; Equinox's own predicate where not given.

    Raises:
        TypeError: A static leaf, or metadata, is not hashable.
    """
    leaves, treedef = trees.leaves_of(value)
    is_array = is_array or modules.array_predicate()
    data, statics = [], []
    for position, leaf in enumerate(leaves):
        if is_array(leaf):
            data.append(leaf)
        else:
            statics.append((position, leaf))
    return tuple(data), _token(treedef, tuple(statics))


class _Memory:
    """Partitions of immutable objects, by identity, for as long as each object lives."""

    def __init__(self) -> None:
        self._array_type = transfer.array_type()
        self._leaf = _token(trees.leaves_of(0)[1], ())
        self._known: dict[int, tuple[Any, tuple[tuple[Any, ...], Token], tuple[Any, ...]]] = {}

    def partition(self, value: Any) -> tuple[tuple[Any, ...], Token]:
        """As `partition`, remembered for Equinox modules."""
        if type(value) is self._array_type:  # nearly every argument that is no module
            return (value,), self._leaf
        known = self._known.get(id(value))
        if known is not None and known[0]() is value and all(map(_unchanged, known[2])):
            return known[1]
        parts = partition(value)
        if modules.is_module(value):
            containers: list[Any] = []
            if _is_immutable(value, containers):
                key = id(value)
                reference = weakref.ref(value, lambda _: self._known.pop(key, None))
                self._known[key] = (reference, parts, tuple(containers))
        return parts


def _is_immutable(value: Any, containers: list[Any]) -> bool:
    """Whether an object can only change through the lists and dicts in it; collects those."""
    if isinstance(value, list):
        containers.append((value, tuple(value)))
    elif isinstance(value, dict):
        containers.append((value, tuple(value.items())))
    elif not (value is None or isinstance(value, tuple) or modules.is_module(value)):
        return trees.node_of(value) is None
    node = trees.node_of(value)
    return node is None or all(_is_immutable(child, containers) for child in node.children)


def _unchanged(snapshot: tuple[Any, tuple[Any, ...]]) -> bool:
    container, before = snapshot
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(key in container and container[key] is item for key, item in before)
    return all(map(operator.is_, container, before))


def _abstractly(value: Any) -> tuple[tuple[Any, ...], Token]:
    """As `partition`, where nothing runs: a `ShapeDtypeStruct` stands for the array that it describes.

    In a call it is an ordinary static leaf, as under Equinox, so the two partitions share no memory. The
    token is the one of the call, and with it the program.
    """
    return partition(value, modules.abstract_array_predicate())


class Mixed:
    """An output with static leaves, on its way out of the compiled function."""

    __slots__ = ("data", "token")

    def __init__(self, data: tuple[Any, ...], token: Token) -> None:
        self.data = data
        self.token = token


_registered: set[str] = set()


def _register() -> None:
    runtime = resolve.required()
    if runtime.name not in _registered:
        runtime.public("tree_util").register_pytree_node(
            Mixed,
            lambda mixed: (mixed.data, mixed.token),
            lambda token, data: Mixed(tuple(data), token),
        )
        _registered.add(runtime.name)


class FilterCall:
    """The callable of a `filter=True` boundary.

    Attributes:
        jitted: The runtime's compiled function, on (donated data, other data, static parts).
    """

    def __init__(self, spec: BoundarySpec, jitted: Any) -> None:
        _register()
        self._spec = spec
        self._memory = _Memory()
        self._own = () if trees.node_of(spec.fn) is None else (spec.fn,)
        self._donated = _donated_positions(spec)
        self.jitted = jitted

    def split(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        partition: Callable[[Any], tuple[tuple[Any, ...], Token]] | None = None,
    ) -> tuple[Any, Any, tuple[Any, ...]]:
        """Partitions the arguments of a call: (donated data, other data, static parts)."""
        partition = partition or self._memory.partition
        if kwargs and self._spec.arguments.signature is not None:
            # As Equinox does it: one form of call, whether an argument came by position or by name.
            bound = self._spec.arguments.signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        data, tokens = [], []
        for value in (*self._own, *args, *kwargs.values()):
            leaves, token = partition(value)
            data.append(leaves)
            tokens.append(token)
        donated: tuple[Any, ...] = ()
        if self._donated:
            offset = len(self._own)
            positions = {i + offset for i in self._donated}
            donated = tuple(leaves if i in positions else () for i, leaves in enumerate(data))
            data = [() if i in positions else leaves for i, leaves in enumerate(data)]
        return donated, tuple(data), (tuple(tokens), tuple(kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the compiled function on the partitioned arguments."""
        __tracebackhide__ = True
        out = self.jitted(*self.split(args, kwargs))
        return out.token.combine(out.data) if type(out) is Mixed else out

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jit(...).lower`, on the partitioned arguments."""
        return self.jitted.lower(*self.split(args, kwargs, _abstractly))

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """As `jit(...).trace`, on the partitioned arguments."""
        return self.jitted.trace(*self.split(args, kwargs, _abstractly))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As `jit(...).eval_shape`: the shapes of the result, with its static leaves."""
        out = self.jitted.eval_shape(*self.split(args, kwargs, _abstractly))
        return out.token.combine(out.data) if type(out) is Mixed else out

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["jitted"], name)


def _donated_positions(spec: BoundarySpec) -> frozenset[int]:
    """Positions of the donated arguments in a call whose arguments are bound by position."""
    count = len(spec.arguments.signature.parameters) if spec.arguments.signature else 0
    return frozenset(i % count if i < 0 else i for i in spec.arguments.donated_nums)


def joined(
    spec: BoundarySpec, donated: Any, data: Any, static: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Puts the arguments of a partitioned call together: (function, args, kwargs)."""
    tokens, names = static
    parts = [(d or ()) + k for d, k in zip(donated, data, strict=True)] if donated else list(data)
    values = [token.combine(leaves) for token, leaves in zip(tokens, parts, strict=True)]
    fn = spec.fn if trees.node_of(spec.fn) is None else values.pop(0)
    split = len(values) - len(names)
    return fn, tuple(values[:split]), dict(zip(names, values[split:], strict=True))


def filtered(spec: BoundarySpec) -> Callable[..., Any]:
    """The function that a `filter=True` boundary traces."""

    def run(donated: Any, data: Any, static: tuple[Any, ...]) -> Any:
        __tracebackhide__ = True
        fn, args, kwargs = joined(spec, donated, data, static)
        out = fn(*args, **kwargs)
        leaves, token = partition(out)
        return Mixed(leaves, token) if token.statics else out

    return run


def capture(
    spec: BoundarySpec,
    args: tuple[Any, ...],
    passed: tuple[tuple[Any, ...], Mapping[str, Any]] | None,
) -> Signature:
    """Captures the signature of a partitioned call in the user's own argument names."""
    originals = joined(spec, *passed[0])[1:] if passed is not None else None
    _, plain_args, plain_kwargs = joined(spec, *args)
    whole = signature.capture(spec.arguments, plain_args, plain_kwargs, originals)
    is_array = modules.array_predicate()
    leaves: list[Leaf] = []
    statics: list[Static] = list(whole.statics)
    values = signature.values_by_path(spec.arguments.traced(plain_args, plain_kwargs))
    for leaf in whole.leaves:
        value = values[leaf.path]
        if is_array(value):
            leaves.append(leaf)
        else:
            statics.append(Static(leaf.path, value, is_argument=True))
    return Signature(
        tuple(leaves),
        whole.nodes,
        tuple(statics),
        whole.call_form,
        whole.treedef,
        whole.settings,
        whole.opaque,
    )
