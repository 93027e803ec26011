"""FG303: ops launched outside any boundary inside a driver."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import refused

X = jnp.arange(4.0)


@fg.island
def step(weights, keys):
    return weights + jax.random.normal(keys[0], weights.shape), keys[1]


@fg.driver
def train(weights, key):
    for _ in range(3):
        keys = jax.random.split(key)  # HERE
        weights, key = step(weights, keys)
    return weights


def test_bites_at_the_line():
    found = refused("FG303", lambda: train(X, jax.random.key(0)), marker="HERE")
    assert "eager launch 1 of this call, max_eager=0" in str(found)


OPS = {
    "primitive": lambda: lax.neg(X),
    "library jit": lambda: jnp.sin(X),
    "method": lambda: X.sum(),
    "index": lambda: X[0],
    "iteration": lambda: list(X),
    "scan": lambda: lax.scan(add, X[0], X),
    "vmap": lambda: jax.vmap(jnp.sin)(X),
    "grad": lambda: jax.grad(total)(X),
    "creation": lambda: jnp.ones(3),
}


def add(c, x):
    return c + x, c


def total(x):
    return (x * x).sum()


@pytest.mark.parametrize("state", ["cold", "warm"])
@pytest.mark.parametrize("name", OPS)
def test_bites_for_each_kind_of_op(name, state):
    if state == "warm":
        OPS[name]()
    else:
        jax.clear_caches()
    with fg.driver("d"):
        refused("FG303", OPS[name])


def test_bites_beyond_the_budget_with_the_count():
    @fg.driver(max_eager=2)
    def run():
        jnp.sin(X), jnp.cos(X)
        jnp.tan(X)  # THIRD

    found = refused("FG303", run, marker="THIRD")
    assert "`tan`" in str(found)
    assert "eager launch 3" in str(found)
    run_again = fg.report().drivers[run.__qualname__.replace("<locals>.", "")]
    assert run_again.eager == 3


def test_bites_again_after_a_caught_one():
    with fg.driver("d"):
        for _ in range(2):
            with pytest.raises(fg.TransferViolation):
                jnp.sin(X)


def test_bites_in_warn_and_runs_on():
    with fg.mode("warn"), pytest.warns(fg.ViolationWarning, match="FG303"):
        train(X, jax.random.key(0))
    assert fg.report().drivers["train"].eager >= 3


def test_quiet_inside_islands():
    key = jax.random.key(0)

    @fg.island
    def whole(weights, key):
        keys = jax.random.split(key)
        return weights + jax.random.normal(keys[0], weights.shape), keys[1]

    with fg.driver("d"):
        weights = X
        for _ in range(3):
            weights, key = whole(weights, key)
    assert fg.report().drivers["d"].launches == 3


def test_quiet_within_the_budget():
    with fg.driver("d", max_eager=3):
        for _ in range(3):
            jnp.sin(X)


def test_quiet_in_a_host_op():
    with fg.driver("d"):
        with fg.host_op("pick a row"):
            jnp.sin(X)
        with contextlib.suppress(KeyError), fg.host_op("pick a row"):
            jnp.cos(X)
            raise KeyError
    seen = fg.report().drivers["d"]
    assert (seen.eager, seen.op_eager, dict(seen.host_ops)) == (0, 2, {"pick a row": 2})


def test_quiet_for_another_jit_which_is_listed():
    @jax.jit
    def other(x):
        return x + 1

    mean = jax.jit(jnp.mean)
    with fg.driver("d"):
        for _ in range(2):
            other(X)
            mean(X)
        jax.vmap(other)(X)
    seen = fg.report().drivers["d"]
    assert (seen.launches, seen.eager) == (5, 0)
    assert seen.jits["other"] == 3


def test_quiet_for_ahead_of_time_programs():
    compiled = jax.jit(total).lower(X).compile()
    with fg.driver("d"):
        compiled(X)
        compiled(X)
    assert fg.report().drivers["d"].launches == 2


def test_quiet_while_tracing():
    def body(x):
        with jax.ensure_compile_time_eval():
            table = jnp.arange(4.0) * 2 + jnp.sin(jnp.ones(4))
        return x * table + np.asarray(table)

    with fg.driver("d"):
        fg.island(body)(X)
        jax.jit(lambda x: body(x) + 1)(X)
        jax.make_jaxpr(total)(X)
        jax.eval_shape(total, X)
    assert fg.report().drivers["d"].eager == 0


def test_quiet_outside_of_drivers_and_where_allowed():
    jnp.sin(X)
    with fg.driver("d", allow=["FG303"]):
        jnp.sin(X)
    with fg.driver("d"), fg.allow("eager-dispatch", reason="one of these days"):
        jnp.sin(X)
    with fg.driver("d", mode="off"):
        jnp.sin(X)
    with fg.mode("off"), fg.driver("d"):
        jnp.sin(X)
    assert not fg.report().violations


@pytest.mark.parametrize("transform", [jax.grad, jax.value_and_grad, jax.hessian, jax.checkpoint])
def test_quiet_for_a_foreign_jit_of_a_transformed_function(transform):
    def loss(x):
        return (x * x).sum()

    step = jax.jit(transform(loss))
    x = jnp.ones(3)
    with fg.driver("train"):
        step(x)
        step(x)
    assert not fg.report().violations


@pytest.mark.parametrize(
    "op",
    [lambda x: jnp.einsum("i,i->", x, x), lambda x: jnp.interp(x, x, x)],
    ids=["einsum", "interp"],
)
def test_bites_for_functions_that_the_runtime_jits_on_the_spot(op):
    x = jnp.ones(3)
    op(x)
    with fg.driver("train"):
        refused("FG303", lambda: op(x))
