"""FG210: warm calls that keep missing the runtime's fast path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused


def test_a_shape_struct_among_the_arguments():
    f = fg.island(lambda batch: batch[0] * 2.0)
    batch = [jnp.ones(4), jax.ShapeDtypeStruct((4,), jnp.float32)]

    def run():
        for _ in range(50):
            f(batch)  # CALL

    found = refused("FG210", run, marker="CALL")
    assert "batch[1]" in found.fix
    assert fg.stats(f).slow_dispatches == 8
    assert fg.stats(f).traces == 1


def test_outside_any_driver_and_in_warn_it_is_told_once_and_counted():
    f = fg.island(lambda x, spec: x * 2.0, mode="warn")
    spec = jax.ShapeDtypeStruct((4,), jnp.float32)
    with pytest.warns(fg.ViolationWarning) as caught:
        for _ in range(40):
            f(jnp.ones(4), spec)  # WARNED
    assert [w.message.code for w in caught] == ["FG210"]
    assert caught[0].lineno in lines_of(__file__, "WARNED")
    assert fg.stats(f).slow_dispatches == 39


def test_an_ordered_effect_keeps_every_call_slow():
    def body(x):
        jax.debug.print("{}", x.sum(), ordered=True)
        return x + 1.0

    f = fg.island(body, allow=["FG206"])
    x = jnp.ones(3)

    def run():
        for _ in range(20):
            f(x)

    found = refused("FG210", run)
    assert "callback" in found.fix


def test_quiet_for_first_calls_of_every_kind():
    f = fg.island(lambda a, b: a + b)
    for a in (jnp.ones(3), np.ones(3, np.float32), jax.device_put(jnp.ones(3), jax.devices()[0])):
        for b in (jnp.ones(3), np.ones(3, np.float32)):
            for _ in range(20):
                with fg.allow("FG202", reason="the point here is the dispatch"):
                    f(a, b)
    assert fg.stats(f).slow_dispatches < 8
    assert not fg.report().violations


def test_quiet_under_eager_transformations():
    f = fg.island(lambda x: x * x)
    x = jnp.float32(2.0)
    for _ in range(12):
        jax.grad(f)(x)
        jax.vmap(f)(jnp.ones(3))
    assert fg.stats(f).slow_dispatches == 0
