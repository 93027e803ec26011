"""FG101: the decorated callable is a jit or a boundary already."""

import functools

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused


def double(x):
    return x + x


@fg.island
def boundary(x):
    return x + x


class Holder:
    @jax.jit
    def method(self, x):
        return x


@pytest.mark.parametrize(
    "inner",
    [
        jax.jit(double),
        functools.partial(jax.jit(double)),
        functools.partial(functools.partial(jax.jit(double))),
        boundary,
        functools.partial(boundary),
        Holder().method,
        staticmethod(jax.jit(double)),
        fg.round_body(double),
    ],
    ids=[
        "jit",
        "partial",
        "partial2",
        "boundary",
        "partial_boundary",
        "method",
        "static",
        "round_body",
    ],
)
def test_a_second_boundary_is_refused_where_it_is_declared(inner):
    found = refused("FG101", lambda: fg.single_zone(inner), marker="HERE")  # HERE
    assert isinstance(found, fg.DeclarationViolation)
    assert found.slug == "already-jitted"
    assert "already" in str(found)


def test_equinox_filter_jit_counts_as_a_jit():
    import equinox as eqx

    refused("FG101", lambda: fg.island(eqx.filter_jit(double)), marker="EQX")  # EQX


def test_in_warn_the_boundary_is_made_and_works():
    with pytest.warns(fg.ViolationWarning) as caught:
        f = fg.island(jax.jit(double), mode="warn")  # WARNED
    assert [w.message.code for w in caught] == ["FG101"]
    assert caught[0].filename == __file__
    assert caught[0].lineno in lines_of(__file__, "WARNED")
    assert float(f(jnp.float32(2.0))) == 4.0


@pytest.mark.parametrize(
    "inner",
    [
        double,
        functools.partial(double),
        jax.vmap(jax.jit(double)),
        jax.checkpoint(double),
        lambda x: jax.jit(double)(x),
        functools.wraps(jax.jit(double))(lambda x: double(x)),
    ],
    ids=["function", "partial", "vmap_of_jit", "checkpoint", "calls_a_jit", "wraps_a_jit"],
)
def test_quiet_where_the_callable_is_no_jit_itself(inner):
    assert float(fg.island(inner)(jnp.ones(1))[0]) == 2.0
    assert not [v for v in fg.report().violations if v.code == "FG101"]
