"""A hundred operations on arrays, each with what a driver sees of it: a read, an upload, an eager op."""

import copy
import io
import math
import pickle
import struct
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fusegate
from fusegate.ledger import fresh_ledger

double = jax.jit(lambda a: a * 2)
first = jax.jit(lambda a: a[0] * 2)


@fusegate.island
def island(a):
    return a * 2


@fusegate.island
def pair(a):
    return a[0] * 2


def io_callback(a):
    from jax.experimental import io_callback as call

    return call(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((3,), jnp.float32), a)


pure_callback = jax.jit(
    lambda a: jax.pure_callback(
        lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((3,), jnp.float32), a
    )
)
ordered_callback = jax.jit(io_callback)
debug_callback = jax.jit(lambda a: (jax.debug.callback(lambda v: float(v[0]), a), a)[1])


def values():
    """Fresh arrays: `x` f32[3], `s` f32[], `i` i32[], a numpy array `n`, and ready programs."""
    x = jnp.arange(3.0) + 1
    found = SimpleNamespace(
        x=x,
        s=jnp.float32(3.0) * 1,
        i=jnp.int32(2),
        ones=jnp.ones(4),
        big=jnp.ones((3, 3)),
        n=np.arange(3, dtype=np.float32),
        compiled=double.lower(x).compile(),
        key=jax.random.key_data(jax.random.key(0)),
    )
    jax.block_until_ready([found.x, found.s, found.i, found.ones, found.big, found.key])
    return found


NOTHING, READ, EAGER, UPLOAD = (
    frozenset(),
    frozenset({"reads"}),
    frozenset({"eager"}),
    frozenset({"uploads"}),
)

READS = {
    "np.asarray": lambda v: np.asarray(v.x),
    "np.array": lambda v: np.array(v.x),
    "np.asarray(dtype)": lambda v: np.asarray(v.x, dtype=np.float64),
    "__array__": lambda v: v.x.__array__(),
    "item": lambda v: v.s.item(),
    "item(0)": lambda v: v.x.item(0),
    "float": lambda v: float(v.s),
    "int": lambda v: int(v.s),
    "bool": lambda v: bool(v.s),
    "complex": lambda v: complex(v.s),
    "__index__": lambda v: [1, 2, 3][v.i],
    "range": lambda v: range(v.i),
    "tolist": lambda v: v.x.tolist(),
    "str": lambda v: str(v.x),
    "repr": lambda v: repr(v.x),
    "f-string": lambda v: f"{v.x}",
    "format spec": lambda v: f"{v.s:.2f}",
    "percent": lambda v: "%f" % v.s,  # noqa: UP031
    "print": lambda v: print(v.x, file=io.StringIO()),
    "device_get": lambda v: jax.device_get(v.x),
    "device_get(dict)": lambda v: jax.device_get({"a": v.x}),
    "memoryview": lambda v: memoryview(v.x),
    "bytes": lambda v: bytes(v.x),
    "tobytes": lambda v: v.x.tobytes(),
    "from_dlpack": lambda v: np.from_dlpack(v.x),
    "__dlpack__": lambda v: v.x.__dlpack__(),
    "pickle": lambda v: pickle.dumps(v.x),
    "np.add": lambda v: np.add(v.x, v.n),
    "np.sin": lambda v: np.sin(v.x),
    "np.stack": lambda v: np.stack([v.x, v.x]),
    "np.array([s, s])": lambda v: np.array([v.s, v.s]),
    "setitem": lambda v: v.n.__setitem__(slice(None), v.x),
    "np.testing": lambda v: np.testing.assert_allclose(v.x, v.x),
    "np.allclose": lambda v: np.allclose(v.x, v.x),
    "np.save": lambda v: np.save(io.BytesIO(), v.x),
    "math.sqrt": lambda v: math.sqrt(v.s),
    "struct.pack": lambda v: struct.pack("f", v.s),
    "np.asarray(key)": lambda v: np.asarray(v.key),
    "addressable shard": lambda v: np.asarray(v.x.addressable_shards[0].data),
    "_value": lambda v: v.x._value,
}
"""Reads, and nothing but reads."""

MIXED = {
    "if s == 3": (lambda v: 1 if v.s == 3 else 2, {"reads", "eager"}),
    "if any": (lambda v: 1 if (v.x > 0).any() else 0, {"reads", "eager"}),
    "max": (lambda v: max(v.x), {"reads", "eager"}),
    "in": (lambda v: 3 in v.x, {"reads", "eager"}),
    "boolean mask": (lambda v: v.x[v.x > 1], {"reads", "eager"}),
    "nonzero": (lambda v: jnp.nonzero(v.x), {"reads", "eager"}),
    "unique": (lambda v: jnp.unique(v.x), {"reads", "eager"}),
    "repeat": (lambda v: jnp.repeat(v.big, v.i), {"reads", "eager"}),
    "zeros((i,))": (lambda v: jnp.zeros((v.i,)), {"reads", "eager"}),
    "reshape(i)": (lambda v: v.ones.reshape(v.i, 2), {"reads", "eager"}),
    "fori_loop(0, i)": (lambda v: lax.fori_loop(0, v.i, lambda k, c: c + 1, 0), {"reads", "eager"}),
    "bool(allclose)": (lambda v: bool(jnp.allclose(v.x, v.x)), {"reads", "eager"}),
}
"""Reads that also launch."""

EAGER_OPS = {
    "copy": lambda v: copy.copy(v.x),
    "iterate": lambda v: list(v.x),
    "unpack": lambda v: tuple(v.x),
    "np.sum": lambda v: np.sum(v.x),
    "round": lambda v: round(v.s),
    "sum": lambda v: sum(v.x),
    "x[0]": lambda v: v.x[0],
    "x[i]": lambda v: v.x[v.i],
    "jnp.asarray([s, s])": lambda v: jnp.asarray([v.s, v.s]),
    "at set": lambda v: v.x.at[0].set(v.s),
    "cond": lambda v: lax.cond(v.s > v.s, lambda: 1, lambda: 2),
    "scan": lambda v: lax.scan(lambda c, t: (c + t, None), v.s, v.x),
    "x + 1.0": lambda v: v.x + 1.0,
    "x + n": lambda v: v.x + v.n,
    "n + x": lambda v: v.n + v.x,
    "n @ x": lambda v: v.n @ v.x,
    "where": lambda v: jnp.where(v.x > 1, v.x, 0),
    "ones": lambda v: jnp.ones((3,)),
    "arange": lambda v: jnp.arange(3),
    "float32(1)": lambda v: jnp.float32(1),
    "sin": lambda v: jnp.sin(v.x),
    "stack": lambda v: jnp.stack([v.x, v.x]),
    "linspace": lambda v: jnp.linspace(0, v.s, 4),
    "vmap": lambda v: jax.vmap(jnp.sin)(v.x),
    "grad": lambda v: jax.grad(jnp.sin)(v.s),
}
"""Launches outside any boundary; where one also uploads, it may be told as either."""

UPLOADS = {
    "island(n)": lambda v: island(v.n),
    "island(2.5)": lambda v: island(2.5),
    "island([1.0, 2.0])": lambda v: pair([1.0, 2.0]),
    "island(np.float32)": lambda v: island(np.float32(2)),
    "jit(n)": lambda v: double(v.n),
}

QUIET = {
    "island(x)": lambda v: island(v.x),
    "jit(x)": lambda v: double(v.x),
    "jit(2.5)": lambda v: double(2.5),
    "compiled(x)": lambda v: v.compiled(v.x),
    "vmap(island)": lambda v: jax.vmap(island)(v.x),
    "make_jaxpr": lambda v: jax.make_jaxpr(double)(v.x),
    "eval_shape": lambda v: jax.eval_shape(double, v.x),
    "lower": lambda v: double.lower(v.x),
    "block_until_ready": lambda v: v.x.block_until_ready(),
    "device_put(n)": lambda v: jax.device_put(v.n),
    "device_put(x)": lambda v: jax.device_put(v.x),
    "jnp.asarray(n)": lambda v: jnp.asarray(v.n),
    "jnp.array(n)": lambda v: jnp.array(v.n),
    "jnp.asarray([1.0])": lambda v: jnp.asarray([1.0, 2.0]),
    "jnp.asarray(x)": lambda v: jnp.asarray(v.x),
    "copy_to_host_async": lambda v: v.x.copy_to_host_async(),
    "buffer pointer": lambda v: v.x.unsafe_buffer_pointer(),
    "jit closing over n": lambda v: jax.jit(lambda a: a + v.n)(v.x),
    "jit closing over x": lambda v: jax.jit(lambda a: a + v.x)(v.x),
    "shape": lambda v: (v.x.shape, v.x.dtype, len(v.x), hash(v.x.sharding)),
    "pure_callback": lambda v: pure_callback(v.x).block_until_ready(),
    "io_callback": lambda v: ordered_callback(v.x).block_until_ready(),
    "debug.callback": lambda v: (debug_callback(v.x).block_until_ready(), jax.effects_barrier()),
}

EXPECTED = (
    {name: (op, READ) for name, op in READS.items()}
    | {name: (op, frozenset(kinds)) for name, (op, kinds) in MIXED.items()}
    | {name: (op, EAGER) for name, op in EAGER_OPS.items()}
    | {name: (op, UPLOAD) for name, op in UPLOADS.items()}
    | {name: (op, NOTHING) for name, op in QUIET.items()}
)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_driver_sees(name):
    op, expected = EXPECTED[name]
    for state in ("cold", "warm"):
        found = values()
        with fresh_ledger():
            with fusegate.driver(name, max_eager=1000, max_reads=1000, allow=["FG302", "FG102"]):
                op(found)
            seen = fusegate.report().drivers[name]
        kinds = {kind for kind in ("reads", "eager", "uploads") if getattr(seen, kind)}
        if "eager" in expected:
            kinds -= {"uploads"}
        assert kinds == expected, (state, seen)


# struct replaces whatever the conversion of an argument raises by an error of its own.
@pytest.mark.parametrize("name", [name for name in READS if name != "struct.pack"])
def test_each_read_is_one_finding(name):
    op = READS[name]
    found = values()
    op(found)
    found = values()
    with (
        pytest.raises((fusegate.TransferViolation, SystemError)) as caught,
        fusegate.driver("reads"),
    ):
        op(found)
    assert isinstance(caught.value, fusegate.TransferViolation)
    assert caught.value.code == "FG301"
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("name", READS)
def test_the_result_of_a_read_is_the_same(name):
    op, found = READS[name], values()
    with fusegate.driver("reads", max_reads=10):
        observed = op(found)
    plain = op(values())
    assert repr(type(observed)) == repr(type(plain))
    if isinstance(plain, (np.ndarray, float, int, str, bytes, list)):
        assert np.array_equal(np.asarray(observed), np.asarray(plain))
