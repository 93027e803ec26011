"""The assertion sees what a grep and a text match do not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import lax

from fusegate.testing import assert_fusion_ready

X = jnp.arange(8.0)


def test_a_straight_line_passes():
    assert_fusion_ready(lambda x: (jnp.where(x > 1, x, 0.0) * x**2 / 3).sum(), X)
    assert_fusion_ready(lambda x: jnp.stack([x, x[::-1]]) * 2, X, reductions=0)


def test_a_nested_call_is_seen(here):
    @jax.jit
    def square(x):
        return x * x

    def body(x):
        return square(x).sum()  # CALL

    with pytest.raises(AssertionError, match="FG203") as caught:
        assert_fusion_ready(body, X)
    assert f"test_assert_fusion_ready.py:{here.line(__file__, 'CALL')}" in str(caught.value)


def test_every_finding_is_listed():
    def body(x, order):
        jax.debug.print("{}", x[0])
        return x[order].sum() + x.max()

    with pytest.raises(AssertionError) as caught:
        assert_fusion_ready(body, X, jnp.array([1, 0]))
    for code in ("FG204", "FG205", "FG206"):
        assert code in str(caught.value)
    assert_fusion_ready(
        lambda x, order: x[order].sum() + x.max(), X, jnp.array([1, 0]),
        reductions=2, allow_primitives=["gather"],
    )  # fmt: skip


def test_reductions_count_outside_routed_composites_only():
    def inner(x):
        return x.sum() + x.max()

    assert_fusion_ready(lambda x: lax.composite(inner, name="my.routed")(x), X, reductions=0)
    with pytest.raises(AssertionError, match="FG205"):
        assert_fusion_ready(lambda x: lax.composite(inner, name="zorch.fused_region")(x), X)


def test_jitted_functions_modules_and_shapes_are_taken():
    def body(x, scale):
        return (x * scale).sum()

    shape = jax.ShapeDtypeStruct((8,), jnp.float32)
    assert_fusion_ready(body, shape, scale=2.0)
    assert_fusion_ready(jax.jit(body), X, 2.0)
    assert_fusion_ready(jax.jit(body, static_argnames="scale"), X, scale=2)
    assert_fusion_ready(eqx.filter_jit(body), X, 2.0)
    assert_fusion_ready(lambda x, act: act(x), X, jnp.tanh, reductions=0)

    class Layer(eqx.Module):
        weight: jax.Array
        act: object

        def __call__(self, x):
            return self.act(self.weight * x)

    assert_fusion_ready(Layer(X, jax.nn.relu), X, reductions=0)
    assert_fusion_ready(lambda layer, x: layer(x), Layer(X, jax.nn.relu), X, reductions=0)


def test_a_softmax_has_two_reductions_and_a_dense_layer_a_product():
    assert_fusion_ready(jax.nn.softmax, X, reductions=2)
    with pytest.raises(AssertionError, match="FG205"):
        assert_fusion_ready(jax.nn.softmax, X)
    with pytest.raises(AssertionError, match="dot_general"):
        assert_fusion_ready(eqx.nn.Linear(8, 8, key=jax.random.key(0)), X)
