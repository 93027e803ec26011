"""FG213: a trace or a compile after freeze()."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused


def test_a_new_shape_after_the_warm_up():
    f = fg.island(lambda request: request * 2.0)
    f(jnp.ones(16))
    with fg.frozen():
        f(jnp.zeros(16))
        late = lambda: f(jnp.ones(17))  # noqa: E731  # CALL
        refused("FG213", late, kind="shape", path="request", marker="CALL")
    f(jnp.ones(17))


def test_a_recompile_without_a_trace():
    f = fg.island(lambda x: x * 2.0)
    f(jnp.ones(4))
    fg.freeze()
    refused(
        "FG213",
        lambda: f(jax.device_put(jnp.ones(4), jax.devices()[0])),
        kind="committed",
        path="x",
    )
    fg.reset()
    f(jax.device_put(jnp.ones(4), jax.devices()[0]))


def test_a_boundary_that_was_never_warm():
    f = fg.island(lambda x: x * 2.0)
    fg.freeze()
    found = refused("FG213", lambda: f(jnp.ones(4)), marker="COLD")  # COLD
    assert "before freezing" in found.fix


def test_a_budget_does_not_excuse_it():
    f = fg.island(lambda x: x * 2.0, max_traces=9)
    f(jnp.ones(4))
    with fg.frozen():
        refused("FG213", lambda: f(jnp.ones(5)), kind="shape")


def test_a_cleared_cache_is_named():
    f = fg.island(lambda x: x * 2.0)
    f(jnp.ones(4))
    with fg.frozen():
        jax.clear_caches()
        refused("FG213", lambda: f(jnp.ones(4)), kind="cache_cleared")


def test_in_warn_the_service_goes_on():
    f = fg.island(lambda x: x * 2.0, mode="warn")
    f(jnp.ones(4))
    with fg.frozen(), pytest.warns(fg.ViolationWarning, match="FG213") as caught:
        assert f(jnp.ones(5)).shape == (5,)  # WARNED
    assert caught[0].lineno in lines_of(__file__, "WARNED")


def test_quiet_for_warm_calls_other_jits_and_traces_on_their_own():
    f = fg.island(lambda x: x * 2.0)
    x = jnp.ones(4)
    f(x)
    with fg.frozen():
        f(x)
        jax.jit(lambda v: v + 1.0)(x)
        f.lower(jnp.ones(9))
        jax.make_jaxpr(f)(jnp.ones(8))
    assert not fg.report().violations
