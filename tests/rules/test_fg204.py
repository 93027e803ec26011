"""FG204: what cannot ride in one fused kernel."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import refused

pytestmark = pytest.mark.usefixtures("strict")


X = jnp.arange(8.0)
ORDER = jnp.array([3, 1, 2])


def hidden(x, order):
    return x[order]  # HERE HIDDEN


def scanned(x):
    return lax.scan(lambda c, _: (c * 2, None), x, None, length=3)[0]  # HERE LOOP


BREAKERS = {
    "gather": lambda x: x[ORDER],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (ORDER[0],), (2,)),
    "scatter": lambda x: x.at[ORDER[0]].set(1.0),
    "scatter-add": lambda x: x.at[ORDER].add(1.0),
    "sort": jnp.sort,
    "dot_general": lambda x: x @ x,
    "cumsum": jnp.cumsum,
    "scan": scanned,
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x),
    "cond": lambda x: lax.cond(x[0] > 1, lambda v: v * 2, lambda v: v, x),
    "top_k": lambda x: lax.top_k(x, 2)[0],
}


@pytest.mark.parametrize("primitive", BREAKERS)
def test_bites_on_each_breaker_and_takes_it_where_allowed(primitive):
    found = refused("FG204", lambda: fg.round_body(lambda x: BREAKERS[primitive](x))(X))
    assert primitive in found.evidence["primitives"]
    allowed = sorted(found.evidence["primitives"])
    fg.round_body(allow_primitives=allowed)(lambda x: BREAKERS[primitive](x))(X)


def test_bites_at_the_line_of_a_hidden_gather():
    @fg.round_body
    def message(table, order):
        return hidden(table, order).sum()

    found = refused("FG204", lambda: message(X, ORDER), marker="HERE HIDDEN")
    assert "lax.slice" in found.fix


def test_bites_on_a_loop_and_names_the_tools():
    @fg.round_body(reductions=0)
    def rounds(x):
        return scanned(x)

    found = refused("FG204", lambda: rounds(X), marker="HERE LOOP")
    assert "jax.vmap" in found.fix


@pytest.mark.parametrize("wrap", ["jvp", "vjp", "remat"])
def test_bites_through_custom_rules_and_remat(wrap):
    def pick(x):
        return x[ORDER]  # HERE RULE

    inner = jax.checkpoint(pick)
    if wrap == "jvp":
        inner = jax.custom_jvp(pick)
        inner.defjvp(lambda p, t: (pick(*p), pick(*t)))
    elif wrap == "vjp":
        inner = jax.custom_vjp(pick)
        inner.defvjp(lambda x: (pick(x), None), lambda _, g: (g,))
    refused("FG204", lambda: fg.round_body(lambda x: inner(x).sum())(X), marker="HERE RULE")


def test_bites_in_a_melted_round_body_and_not_in_its_zone():
    @fg.round_body
    def message(table):
        return hidden(table, ORDER).sum()

    @fg.single_zone
    def prove(table):
        return message(jnp.sort(scanned(table)))

    found = refused("FG204", lambda: prove(X), marker="HERE HIDDEN")
    assert found.boundary.endswith("message")
    assert set(found.evidence["primitives"]) == {"gather"}


def test_quiet_on_arithmetic_layout_and_static_slices():
    @fg.round_body
    def body(x):
        y = jnp.concatenate([x[::-1], x[-1:], x[:3].reshape(1, 3)[0]]) * x[-1] + x[0]
        z = jnp.stack([jnp.exp(y), jnp.where(y > 0, y, 0.0)]).T
        return (z.astype(jnp.int32) ^ 1).sum()

    body(X)


def test_quiet_in_islands_zones_and_opaque_composites():
    def program(x):
        return scanned(jnp.sort(x[ORDER])) @ x[:3]

    fg.island(program)(X)
    fg.single_zone(program)(X)
    fg.round_body(reductions=0)(lambda x: lax.composite(program, name="my.kernel")(x))(X)


def test_quiet_on_a_gather_of_a_zone_around_a_scan_of_rounds():
    @fg.round_body(reductions=1)
    def step(carry):
        return carry * carry.sum()

    @fg.single_zone
    def prove(x):
        return lax.scan(lambda c, _: (step(c), None), x[ORDER], None, length=3)[0]

    prove(X)


def test_bites_at_lower_too_so_that_a_program_lowered_first_is_never_unchecked():
    body = fg.round_body(lambda table, order: table[order], reductions=0)
    args = (jnp.arange(8.0), jnp.array([3, 1, 2]))
    for _ in range(2):
        refused("FG204", lambda: body.lower(*args))
    refused("FG204", lambda: body(*args))
