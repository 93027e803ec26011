"""`filter=True`: Equinox's partition rule, with the same results and retraces."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg


class Layer(eqx.Module):
    weight: Any
    activation: Any
    name: str = eqx.field(static=True, default="layer")


class Stack(eqx.Module):
    layers: list
    table: dict


def forward(layer, x):
    return layer.activation(layer.weight * x)


def counted(fn):
    runs = []

    def body(*args, **kwargs):
        runs.append(1)
        return fn(*args, **kwargs)

    return body, runs


def test_the_same_results_and_retraces_as_filter_jit():
    calls = [
        (Layer(jnp.ones(3), jnp.sin), jnp.ones(3)),
        (Layer(jnp.zeros(3), jnp.sin), jnp.ones(3)),
        (Layer(jnp.zeros(3), jnp.cos), jnp.ones(3)),
        (Layer(jnp.ones(3), jnp.cos, "other"), jnp.ones(3)),
        (Layer(np.ones(3, np.float32), jnp.cos, "other"), jnp.ones(3)),
        (Layer(2.0, jnp.cos, "other"), jnp.ones(3)),
        (Layer(2.0, jnp.cos, "other"), jnp.ones(3)),
        (Layer(3.0, jnp.cos, "other"), jnp.ones(3)),
    ]
    ours, our_runs = counted(forward)
    theirs, their_runs = counted(forward)
    f, g = fg.island(ours, filter=True), eqx.filter_jit(theirs)
    for args in calls:
        got, want = f(*args), g(*args)
        assert got.aval == want.aval
        assert np.allclose(got, want)
        assert len(our_runs) == len(their_runs)
    assert fg.stats(f).traces == len(our_runs)


def test_one_call_form_however_an_argument_is_given():
    f = fg.island(lambda layer, x, k=2.0: layer.weight * x * k, filter=True, max_traces=1)
    layer = Layer(jnp.ones(3), None)
    f(layer, jnp.ones(3))
    f(layer, x=jnp.ones(3))
    f(x=jnp.ones(3), layer=layer)
    assert fg.stats(f).traces == 1


def test_static_outputs_come_back_as_they_are():
    def body(x, k):
        return {"y": x * 2.0, "k": k, "f": jnp.sin, "n": 3}

    got = fg.island(body, filter=True)(jnp.ones(2), "word")
    want = eqx.filter_jit(body)(jnp.ones(2), "word")
    assert (
        (got["k"], got["f"], got["n"]) == (want["k"], want["f"], want["n"]) == ("word", jnp.sin, 3)
    )
    assert type(got["n"]) is int
    module = fg.island(lambda m: m, filter=True)(Layer(jnp.ones(2), jnp.sin))
    assert module.activation is jnp.sin
    assert isinstance(module.weight, jax.Array)


def test_equal_looking_static_numbers_are_told_apart():
    """Equinox serves `1` the program of `True` or `1.0`; here each has its own."""
    f = fg.island(lambda x, k: jnp.ones(2) * 1 if k is True else x * k, filter=True)
    x = jnp.ones(2, jnp.int32)
    assert f(x, 2.0).dtype == jnp.float32
    assert f(x, 2).dtype == jnp.int32
    assert f(x, True).dtype == jnp.float32
    assert f(x, 1).dtype == jnp.int32
    sign = fg.island(lambda x, k: jnp.full((), math.copysign(1.0, k)) * x, filter=True)
    assert float(sign(jnp.ones(()), 0.0)) == 1.0
    assert float(sign(jnp.ones(()), -0.0)) == -1.0
    nan = fg.island(lambda x, k: x, filter=True, max_traces=1)
    nan(x, float("nan"))
    nan(x, float("nan"))


def test_methods_and_callable_modules():
    class Net(eqx.Module):
        weight: Any
        act: Any

        def __call__(self, x):
            return self.act(self.weight @ x)

        @fg.island(filter=True)
        def step(self, x):
            return self.act(self.weight @ x)

    net = Net(jnp.eye(3), jnp.sin)
    x = jnp.arange(3.0)
    assert np.allclose(net.step(x), jnp.sin(x))
    f = fg.island(net, filter=True)
    assert np.allclose(f(x), jnp.sin(x))
    closed = f.trace(x).jaxpr
    assert not closed.consts, "the module's arrays are arguments, not constants"


def test_a_mutated_list_inside_a_remembered_module_is_seen():
    stack = Stack([jnp.ones(2), jnp.ones(2)], {"a": jnp.ones(2)})
    f = fg.island(lambda s: sum(s.layers) + sum(s.table.values()), filter=True)
    assert np.allclose(f(stack), 3.0)
    stack.layers[0] = jnp.full(2, 5.0)
    assert np.allclose(f(stack), 7.0)
    stack.layers.append(jnp.ones(2))
    assert np.allclose(f(stack), 8.0)
    stack.table["b"] = jnp.ones(2)
    assert np.allclose(f(stack), 9.0)
    stack.table["a"] = jnp.zeros(2)
    assert np.allclose(f(stack), 8.0)


def test_a_partition_is_forgotten_with_its_module():
    f = fg.island(forward, filter=True)
    for value in range(5):
        assert np.allclose(
            f(Layer(jnp.full(2, float(value)), lambda v: v), jnp.ones(2)), float(value)
        )


def test_donation_by_position_and_by_name():
    def add(layer, x):
        return layer.weight + x

    for keywords in ({"donate_argnums": 1}, {"donate_argnames": "x"}):
        f = fg.island(add, filter=True, **keywords)
        layer, x = Layer(jnp.ones(4), jnp.sin), jnp.ones(4)
        f(layer, x)
        assert x.is_deleted()
        assert not layer.weight.is_deleted()


def test_transformations():
    f = fg.island(lambda layer, x: layer.activation(layer.weight * x).sum(), filter=True)
    layer, x = Layer(jnp.ones(3), jnp.sin), jnp.arange(3.0)
    grads = eqx.filter_grad(f)(layer, x)
    assert np.allclose(grads.weight, jnp.cos(x) * x)
    assert np.allclose(jax.vmap(lambda v: f(layer, v))(jnp.stack([x, x])), jnp.sin(x).sum())
    assert np.allclose(jax.jit(lambda v: f(layer, v))(x), jnp.sin(x).sum())
    assert f.lower(layer, x).compile() is not None
    assert f.eval_shape(layer, x).shape == ()


def test_without_it_the_error_says_so():
    layer = Layer(jnp.ones(3), jnp.sin)
    with pytest.raises(TypeError) as caught:
        fg.island(forward)(layer, jnp.ones(3))
    assert any("filter=True" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "refused", ["static_argnums", "static_argnames", "in_shardings", "out_shardings"]
)
def test_keywords_that_it_decides_itself_are_refused(refused):
    with pytest.raises(TypeError, match=refused):
        fg.island(forward, filter=True, **{refused: ()})


def test_an_unhashable_static_leaf_is_an_error_as_in_equinox():
    with pytest.raises(TypeError, match="unhashable"):
        fg.island(lambda x: x, filter=True)(bytearray(b"x"))


def abstract(value):
    """The value with a ShapeDtypeStruct in place of every array."""
    return jax.tree_util.tree_map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf,
        value,
    )


def test_a_struct_stands_for_an_array_where_nothing_runs():
    fn, runs = counted(forward)
    boundary = fg.island(fn, filter=True, max_traces=1)
    layer, x = Layer(jnp.ones(3), jnp.sin), jnp.ones(3)
    with fg.mode("strict"):
        found = fg.evidence(boundary, abstract(layer), abstract(x))
        assert (found.argument_bytes, found.output_bytes) == (24, 12)
        assert boundary.lower(abstract(layer), abstract(x)).as_text().count("tensor<3xf32>") > 1
        assert boundary.trace(abstract(layer), abstract(x)).jaxpr.in_avals[0].shape == (3,)
        out = boundary.eval_shape(abstract(layer), abstract(x))
        assert (out.shape, out.dtype) == ((3,), jnp.float32)
        # The program of the structs is the one of the call.
        assert np.allclose(boundary(layer, x), np.sin(1))
        again = fg.evidence(boundary, layer, x)
    assert again.argument_bytes == found.argument_bytes
    assert len(runs) == fg.stats(boundary).traces == fg.stats(boundary).compiles == 1


def test_a_struct_is_donated_where_its_array_would_be():
    boundary = fg.island(lambda state, x: state + x, filter=True, donate_argnums=(0,))
    struct = jax.ShapeDtypeStruct((256,), "float32")
    assert fg.evidence(boundary, struct, struct).alias_bytes == 1024


def test_a_struct_is_a_static_leaf_of_a_call():
    def zeros(like, x):
        return jnp.zeros(like.shape, like.dtype) + x

    struct = jax.ShapeDtypeStruct((3,), "float32")
    for jit in (fg.island(filter=True), eqx.filter_jit):
        assert jit(zeros)(struct, jnp.float32(2)).shape == (3,)


def test_a_remembered_module_keeps_its_two_partitions_apart():
    fn, runs = counted(lambda layer, x: x + layer.weight.shape[0])
    boundary = fg.island(fn, filter=True)
    layer, x = abstract(Layer(jnp.ones(3), jnp.sin)), jnp.ones(3)
    for _ in range(2):
        assert boundary(layer, x)[0] == 4
        assert fg.evidence(boundary, layer, x).argument_bytes in {12, 24}
    assert len(runs) == 2
