"""Properties over random values: keys, states and bindings are equal exactly when the values are."""

import math
import struct
from typing import Any

import jax
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

from fusegate.config import mode
from fusegate.runtime.registry import HIDDEN
from fusegate.state.bind import bind, stable
from fusegate.state.declare import meta, replace, state
from fusegate.state.keys import value_key

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, math.nan, -math.nan, math.inf]),
    st.sampled_from([0j, 1j, complex(0.0, -0.0)]),
    st.sampled_from(["", "a", b"a"]),
    st.sampled_from([np.float32(1), np.float32(-0.0), np.int8(1), np.bool_(True)]),
)
STATICS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=2)
    ),
    max_leaves=6,
)
QUICK = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def strictly_equal(one: Any, other: Any) -> bool:
    """Equality written down another way: by type, and for numbers by their bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and not isinstance(one, np.generic):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return strictly_equal(one.real, other.real) and strictly_equal(one.imag, other.imag)
    if isinstance(one, np.generic):
        return one.tobytes() == other.tobytes()
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(strictly_equal, one, other))
    if isinstance(one, frozenset):
        return len(one) == len(other) and all(any(strictly_equal(a, b) for b in other) for a in one)
    return bool(one == other)


@state
class Leafy:
    x: Any
    y: Any
    m: Any = meta(default=0)
    n: Any = meta(default=0)


DATA = st.recursive(
    st.integers(0, 9).map(np.int32),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        st.none(),
        st.builds(Leafy, inner, inner, ATOMS, st.tuples(ATOMS)),
    ),
    max_leaves=8,
)


@QUICK
@given(STATICS, STATICS)
def test_keys_are_equal_exactly_when_values_are_strictly(one, other):
    assert (value_key(one) == value_key(other)) == strictly_equal(one, other)
    assert value_key((one, other)) == value_key((one, other))


@QUICK
@given(STATICS, STATICS)
def test_states_match_exactly_when_their_metadata_does(one, other):
    before, after = Leafy(None, None, one), Leafy(None, None, other)
    same = strictly_equal(one, other)
    assert (getattr(before, HIDDEN) is getattr(after, HIDDEN)) == same
    assert (jax.tree.structure(before) == jax.tree.structure(after)) == same
    assert getattr(replace(after, m=one), HIDDEN) is getattr(before, HIDDEN)


@QUICK
@given(STATICS, STATICS)
def test_bindings_are_one_exactly_when_their_values_are(one, other):
    @stable
    def build(value):
        return lambda x: (x, value)

    same = strictly_equal(one, other)
    with mode("strict"):
        assert (bind(pair, one) is bind(pair, other)) == same
        assert (bind(pair, value=one) is bind(pair, value=other)) == same
        assert (build(one) is build(other)) == same
        assert strictly_equal(build(one)(0), (0, one))


def pair(value, x=None):
    return value, x


@QUICK
@given(DATA, ATOMS)
def test_nested_states_survive_flattening(data, static):
    with mode("off"):
        item = Leafy(data, (data,), static)
    leaves, treedef = jax.tree.flatten(item)
    again = jax.tree.unflatten(treedef, leaves)
    assert jax.tree.structure(again) == treedef
    assert all(one is other for one, other in zip(leaves, jax.tree.leaves(again), strict=True))
    assert strictly_equal(again.m, static)
    keyed, same = jax.tree_util.tree_flatten_with_path(item)
    assert same == treedef
    assert [leaf for _, leaf in keyed] == leaves
    for path, leaf in keyed:
        assert follow(item, path) is leaf


def follow(item, path):
    """Walks a key path, as a checkpoint library does."""
    for key in path:
        if isinstance(key, jax.tree_util.GetAttrKey):
            item = getattr(item, key.name)
        else:
            item = item[key.key if isinstance(key, jax.tree_util.DictKey) else key.idx]
    return item
