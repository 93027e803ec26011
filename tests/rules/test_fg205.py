"""FG205: a round body that reduces more often than it declares."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import refused

pytestmark = pytest.mark.usefixtures("strict")


X = jnp.arange(8.0)


def two(low, high):
    constant = (low * low).sum()
    leading = ((high - low) * low).max()  # HERE SECOND
    return constant + leading


def test_bites_at_the_second_reduction():
    message = fg.round_body(two)
    found = refused("FG205", lambda: message(X, X), marker="HERE SECOND")
    assert "reduce_sum" in str(found)
    assert "reduce_max" in str(found)
    assert found.evidence["reductions"] == 2


def test_bites_at_the_first_one_where_none_is_declared():
    @fg.round_body(reductions=0)
    def fold(x):
        return x - x.sum()  # HERE NONE

    refused("FG205", lambda: fold(X), marker="HERE NONE")


def test_bites_on_a_library_function_that_holds_two():
    @fg.round_body
    def weights(x):
        return jax.nn.softmax(x)  # HERE SOFTMAX

    refused("FG205", lambda: weights(X), marker="HERE SOFTMAX")


def test_bites_on_each_call_of_a_melted_body_by_itself():
    message = fg.round_body(two)

    @fg.single_zone
    def prove(x):
        return message(x[:4], x[4:]) + x.sum() + x.max()

    found = refused("FG205", lambda: prove(X), marker="HERE SECOND")
    assert found.boundary == "two"
    assert found.evidence["reductions"] == 2


def test_quiet_where_the_reductions_are_declared_or_stacked():
    fg.round_body(reductions=2)(two)(X, X)
    fg.round_body(lambda low, high: jnp.stack([low * low, (high - low) * low]).sum(axis=-1))(X, X)


def test_quiet_on_many_calls_of_one_body_in_a_zone():
    @fg.round_body
    def step(x):
        return x * x.sum()

    @fg.single_zone
    def prove(x):
        for _ in range(5):
            x = step(x)
        return jax.vmap(step)(x[None]).sum() + x.max()

    prove(X)


def test_quiet_under_a_derivative_of_the_zone():
    @fg.round_body
    def loss(x, w):
        return (x * w).sum()

    @fg.island
    def step(w):
        return w - jax.grad(lambda w: loss(X, w))(w)

    step(X)


def test_quiet_inside_an_opaque_composite():
    fg.round_body(reductions=0)(lambda x: lax.composite(two, name="my.kernel")(x, x))(X)
