"""FG203: a call where one fused kernel is meant."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import refused

pytestmark = pytest.mark.usefixtures("strict")


X = jnp.arange(8.0)


@jax.jit
def gap(low, high):
    return (high - low) * (high - low)


def advised():
    return [(item.code, item.is_error) for item in fg.report().violations]


def test_bites_on_a_jitted_helper_in_a_round_body():
    @fg.round_body
    def message(table):
        return gap(table[:4], table[4:]).sum()  # HERE HELPER

    found = refused("FG203", lambda: message(X), marker="HERE HELPER")
    assert "`gap`" in str(found)
    refused("FG203", lambda: message(X), marker="HERE HELPER")


@pytest.mark.parametrize(
    "jitted",
    [
        jax.jit(functools.partial(lambda k, x: x * k, 2.0)),
        jax.jit(type("Scale", (), {"__call__": lambda self, x: x * 2})()),
        eqx.filter_jit(lambda x: x * 2),
    ],
    ids=["partial", "callable object", "filter_jit"],
)
def test_bites_whatever_was_jitted(jitted):
    @fg.round_body(reductions=0)
    def body(x):
        return jitted(x) + 1  # HERE ANY

    refused("FG203", lambda: body(X), marker="HERE ANY")


def test_bites_on_a_library_call_in_a_fused_region():
    def clamp(x):
        return jnp.where(x > 2.0, x, 2.0) * 0.5  # HERE REGION

    @fg.island
    def mix(x):
        return lax.composite(clamp, name="zorch.fused_region")(x) + 1.0

    found = refused("FG203", lambda: mix(X), marker="HERE REGION")
    assert "lax.select" in found.fix


def test_bites_on_a_call_in_a_melted_round_body():
    @fg.round_body
    def message(table):
        return gap(table[:4], table[4:]).sum()  # HERE MELTED

    @fg.single_zone
    def prove(table):
        return message(table)

    found = refused("FG203", lambda: prove(X), marker="HERE MELTED")
    assert found.boundary.endswith("message")


def test_bites_as_an_advice_in_an_island():
    @fg.island
    def step(table):
        return gap(table[:4], table[4:]).sum()

    step(X)
    assert advised() == [("FG203", False)]


def test_quiet_on_library_jits_and_lax_spellings():
    @fg.round_body(reductions=0)
    def body(x):
        return jnp.where(x > 1, jnp.clip(x, 0.0, 8.0), x // 2)

    def select(x):
        return lax.select(x > 2.0, x, jnp.full_like(x, 2.0))

    @fg.island
    def mix(x):
        return lax.composite(select, name="zorch.fused_region")(x) + 1.0

    body(X)
    mix(X)
    assert advised() == []


def test_quiet_on_what_leaves_no_call():
    inlined = jax.jit(lambda x: x * 2, inline=True)

    @fg.round_body(reductions=0)
    def halve(x):
        return x[:4] + x[4:]

    @fg.round_body(reductions=0)
    def body(x):
        return inlined(halve(x))

    body(X)
    assert advised() == []


def test_quiet_inside_a_composite_that_is_routed_by_name():
    @fg.round_body(reductions=0)
    def body(x):
        return lax.composite(lambda x: gap(x, x).sum() + jnp.where(x > 1, x, 0), name="my.kernel")(
            x
        )

    body(X)
    assert advised() == []


def test_quiet_on_an_island_inside_a_zone():
    @fg.island
    def inner(x):
        return x * 2

    @fg.single_zone
    def prove(x):
        return inner(x) + 1

    prove(X)
    assert advised() == []
