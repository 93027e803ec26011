"""Whatever the arguments and transformations: `island(f)` and `jit(f)` agree.

In result (structure, shapes, dtypes, weak types, bytes), in exception type and message, and in how often
the body runs, so in cache behaviour.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import fusegate as fg
from fusegate.ledger import fresh_ledger

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

shapes = st.sampled_from([(), (1,), (3,), (2, 3)])
dtypes = st.sampled_from(["float32", "int32", "uint8", "bool"])


@st.composite
def arrays(draw):
    shape, dtype = draw(shapes), draw(dtypes)
    value = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)
    return draw(st.sampled_from([value, jnp.asarray(value)]))


leaves = st.one_of(arrays(), st.integers(-3, 3), st.floats(-2, 2, width=32), st.booleans())
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        st.none(),
    ),
    max_leaves=4,
)
statics = st.one_of(st.integers(0, 2), st.sampled_from(["s", None, (1, "a"), 2.5, True]))


def double(value):
    return jax.tree_util.tree_map(lambda leaf: leaf + leaf, value)


def counted(fn):
    runs = []

    @functools.wraps(fn)
    def body(*args, **kwargs):
        runs.append(1)
        return fn(*args, **kwargs)

    return body, runs


def outcome(call):
    """What a call did, comparable."""
    try:
        out = call()
    except Exception as error:
        return type(error), str(error).splitlines()[:1]
    flat, treedef = jax.tree_util.tree_flatten(out)
    described = [
        (leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", None), np.asarray(leaf).tobytes())
        if hasattr(leaf, "dtype")
        else leaf
        for leaf in flat
    ]
    return treedef, described


def agree(fn, calls, **keywords):
    """Both twins see the same calls, in one order, in warn and so without a verdict in the way."""
    ours, our_runs = counted(fn)
    theirs, their_runs = counted(fn)
    with fg.mode("warn"), fresh_ledger():
        f, g = fg.island(ours, **keywords), jax.jit(theirs, **keywords)
        for args, kwargs in calls:
            assert outcome(lambda: f(*args, **kwargs)) == outcome(lambda: g(*args, **kwargs))
            assert len(our_runs) == len(their_runs)
            assert f._cache_size() == g._cache_size()


@QUICK
@given(st.lists(trees, min_size=1, max_size=4))
def test_argument_trees(values):
    agree(double, [((value,), {}) for value in values for _ in range(2)])


@QUICK
@given(st.lists(st.tuples(arrays(), statics), min_size=1, max_size=5), st.booleans())
def test_static_arguments(pairs, by_name):
    def fn(x, k):
        return double(x), len(str(k))

    keywords = {"static_argnames": "k"} if by_name else {"static_argnums": 1}
    agree(fn, [((x, k), {}) for x, k in pairs], **keywords)


@QUICK
@given(st.lists(st.tuples(arrays(), st.sampled_from(["pos", "key", "omit", "extra"])), max_size=5))
def test_call_forms_and_wrong_ones(pairs):
    def fn(x, k=2.0, *, z=None):
        return double((x, k, z))

    forms = {
        "pos": lambda x: ((x, 3.0), {}),
        "key": lambda x: ((x,), {"k": 3.0}),
        "omit": lambda x: ((x,), {}),
        "extra": lambda x: ((x,), {"nope": 1.0}),
    }
    agree(fn, [forms[form](x) for x, form in pairs])


class BadShape(ValueError):
    pass


@QUICK
@given(st.lists(arrays(), min_size=1, max_size=5))
def test_errors_of_the_body(values):
    def fn(x):
        if x.ndim == 1:
            raise BadShape(f"rank {x.ndim}")
        if x.dtype == bool:
            return "no array"
        return x if x.ndim == 0 else x[5:, 5:] @ x

    agree(fn, [((value,), {}) for value in values for _ in range(2)])


@QUICK
@given(
    st.lists(
        st.sampled_from(
            ["call", "vmap", "grad", "jit", "scan", "checkpoint", "shape", "jaxpr", "lower"]
        ),
        min_size=1,
        max_size=5,
    )
)
def test_transformations_in_any_order(names):
    def fn(x):
        return jnp.sin(x) * x

    x = jnp.arange(3.0)

    def run(f, name):
        match name:
            case "call":
                return f(x)
            case "vmap":
                return jax.vmap(f)(x)
            case "grad":
                return jax.grad(lambda v: f(v).sum())(x)
            case "jit":
                return jax.jit(lambda v: f(v) + 1.0)(x)
            case "scan":
                return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
            case "checkpoint":
                return jax.checkpoint(f)(x)
            case "shape":
                return str(jax.eval_shape(f, x))
            case "jaxpr":
                return str(jax.make_jaxpr(f)(x))
            case _:
                return f.lower(x).compile()(x)

    ours, our_runs = counted(fn)
    theirs, their_runs = counted(fn)
    f, g = fg.island(ours), jax.jit(theirs)
    fg.reset()
    for name in names:
        assert outcome(lambda: run(f, name)) == outcome(lambda: run(g, name))
        assert len(our_runs) == len(their_runs), name
