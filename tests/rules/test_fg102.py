"""FG102: the same code built anew per call, and compiled to the same program again."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import lines_of, refused

X = jnp.arange(4.0)


def scale(factor, x):
    return x * factor


class Player:
    """Builds a boundary per instance, or per call."""

    def __init__(self, gain):
        self.gain = gain
        self.act = fg.island(self.policy)

    def policy(self, x):
        return x * self.gain

    def act_anew(self, x):
        @fg.island  # BUILT
        def policy(x):  # BUILT
            return x * self.gain + 1.0

        return policy(x)  # BUILT


def boundary_from_lambda():
    for _ in range(3):
        fg.island(lambda x: x * 2.0)(X)  # LAMBDA


def boundary_from_partial():
    for _ in range(3):
        fg.island(functools.partial(scale, 2.0))(X)


def boundary_per_instance():
    for _ in range(3):
        Player(0.5).act(X)


def boundary_in_method():
    player = Player(0.5)
    for _ in range(3):
        player.act_anew(X)


@fg.driver(max_eager=100)
def jit_in_driver():
    for _ in range(3):
        jax.jit(lambda x: x * 3.0)(X)


@fg.driver(max_eager=100)
def jit_of_grad():
    for _ in range(3):
        jax.jit(jax.grad(lambda x: (x * x).sum()))(X)


@fg.driver(max_eager=100)
def scan_body():
    for _ in range(3):
        lax.scan(lambda c, x: (c + x, c), X[0], X)  # SCAN


@fg.driver(max_eager=100)
def while_body():
    for _ in range(3):
        lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, X)


@fg.driver(max_eager=100)
def cond_branches():
    for _ in range(3):
        lax.cond(X[0] > X[1], lambda a: a + X, lambda a: a - X, X)


@fg.driver(max_eager=100)
def mapped():
    for _ in range(3):
        lax.map(lambda a: a + a, X)


@fg.driver(max_eager=100)
def fori_body():
    for _ in range(3):
        lax.fori_loop(0, 3, lambda i, c: c + c, X)


def fresh_static_function():
    run = fg.island(lambda f, x: f(x), static_argnums=0)
    for _ in range(3):
        run(lambda x: x - 1.0, X)


REBUILT = {
    one.__name__: one
    for one in (
        boundary_from_lambda, boundary_from_partial, boundary_per_instance, boundary_in_method, jit_in_driver,
        jit_of_grad, scan_body, while_body, cond_branches, mapped, fori_body, fresh_static_function,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", REBUILT)
def test_bites(name):
    with fg.mode("strict"), fg.allow("FG302", reason="not what is tested here"):
        found = refused("FG102", REBUILT[name])
    assert "compile 2" in str(found)


def test_bites_with_the_lines():
    found = refused("FG102", boundary_in_method, marker="BUILT")
    assert found.finding.defined.line in lines_of(__file__, "BUILT")
    refused("FG102", boundary_from_lambda, marker="LAMBDA")
    with fg.allow("FG302", reason="not what is tested here"):
        refused("FG102", scan_body, marker="SCAN")


def test_bites_in_warn_with_a_count():
    with fg.mode("warn"), pytest.warns(fg.ViolationWarning, match="FG102"):
        boundary_in_method()
    (found,) = [one for one in fg.report().violations if one.code == "FG102"]
    assert found.count == 2


def test_bites_outside_of_drivers_as_advice():
    for _ in range(3):
        jax.jit(lambda x: x * 7.0)(X)
    (found,) = [one for one in fg.report().violations if one.code == "FG102"]
    assert not found.is_error


def module_level(x):
    return x * 5.0


def test_quiet_where_the_function_is_the_same():
    for _ in range(3):
        fg.island(module_level)(X)
        jax.jit(module_level)(X)
        jax.jit(fg.bind(scale, 3.0))(X)


def test_quiet_for_distinct_shapes():
    for size in (2, 3, 4):
        fg.island(lambda x: x * 2.0)(jnp.ones(size))


def test_quiet_for_captured_values_that_differ():
    for value in (1.0, 2.0, 3.0):
        fg.island(lambda x, value=value: x * value)(X)
        fg.island(lambda x: x * value)(X)
        table = np.full(4, value, np.float32)
        fg.island(lambda x: x * table)(X)
        array = jnp.asarray(table)
        fg.island(lambda x: x * array)(X)


def test_quiet_for_instances_that_differ():
    for gain in (0.5, 0.25):
        Player(gain).act(X)


def test_quiet_after_cleared_caches():
    run = fg.island(module_level)
    for _ in range(2):
        run(X)
        jax.clear_caches()


def test_quiet_for_committed_inputs():
    run = jax.jit(module_level)
    with fg.driver("d", max_eager=9):
        for x in (X, jax.device_put(X, jax.devices()[0])):
            run(x)
            jnp.sin(x)


def test_quiet_in_another_ledger():
    for _ in range(2):
        fg.reset()
        fg.island(lambda x: x * 11.0)(X)


@fg.driver(max_eager=100)
def stable_loops():
    for _ in range(3):
        lax.scan(accumulate, X[0], X)


def accumulate(c, x):
    return c + x, c


def test_quiet_for_a_stable_body():
    stable_loops()


def test_quiet_when_allowed():
    for _ in range(2):
        fg.island(lambda x: x * 13.0, allow=["FG102"])(X)
    with fg.driver("d", allow=["rebuilt-callable"]):
        for _ in range(2):
            jax.jit(lambda x: x * 17.0)(X)


def test_quiet_when_off():
    with fg.mode("off"):
        boundary_in_method()
    assert not fg.report().violations


def test_quiet_for_several_equal_boundaries_that_were_made_beforehand():
    def layer():
        return fg.island(lambda x: x * 2.0)

    x = jnp.ones(3)
    for one in [layer() for _ in range(3)]:
        x = one(x)
    assert not [v for v in fg.report().violations if v.code == "FG102"]
