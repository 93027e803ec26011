"""FG202: the same program compiled again without a trace, or more programs than declared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import fusegate as fg
from tests.rules._support import lines_of, refused


def committed(x):
    return jax.device_put(x, jax.devices()[0])


def test_an_argument_that_becomes_committed():
    f = fg.island(lambda params, grads: params - grads)
    f(jnp.ones(4), jnp.ones(4))
    found = refused(
        "FG202",
        lambda: f(committed(jnp.ones(4)), jnp.ones(4)),  # CALL
        kind="committed",
        path="params",
        marker="CALL",
    )
    assert (found.cause.before, found.cause.after) == ("uncommitted", "committed")
    assert fg.stats(f).traces == 1
    assert fg.stats(f).compiles == 2
    assert [cause.kind for cause in fg.stats(f).causes] == ["committed"]


def test_a_leaf_deep_in_an_argument():
    f = fg.island(lambda state: jax.tree_util.tree_map(lambda v: v + 1, state))
    f({"w": [jnp.ones(4), jnp.ones(2)]})
    refused(
        "FG202",
        lambda: f({"w": [jnp.ones(4), committed(jnp.ones(2))]}),
        kind="committed",
        path="state['w'][1]",
    )


def test_committed_first_and_uncommitted_later():
    f = fg.island(lambda x: x + 1.0)
    f(committed(jnp.ones(4)))
    found = refused("FG202", lambda: f(jnp.ones(4)), kind="committed", path="x")
    assert found.cause.after == "uncommitted"


def test_it_is_refused_again_on_the_next_call():
    f = fg.island(lambda x: x + 1.0)
    f(jnp.ones(4))
    for _ in range(2):
        refused("FG202", lambda: f(committed(jnp.ones(4))), kind="committed")


def test_a_budget_of_compiles():
    f = fg.island(lambda x: x + 1.0, max_compiles=2)
    f(jnp.ones(4))
    f(committed(jnp.ones(4)))
    refused("FG202", lambda: f(jnp.ones(5)), kind="shape", path="x", marker="BUDGET")  # BUDGET


def test_under_the_filter_the_users_argument_is_named():
    f = fg.island(lambda model, x: model["w"] * x, filter=True)
    f({"w": jnp.ones(3)}, jnp.ones(3))
    refused(
        "FG202",
        lambda: f({"w": committed(jnp.ones(3))}, jnp.ones(3)),
        kind="committed",
        path="model['w']",
    )


def test_in_warn_the_result_comes_back():
    f = fg.island(lambda x: x + 1.0, mode="warn")
    f(jnp.ones(4))
    with pytest.warns(fg.ViolationWarning) as caught:
        out = f(committed(jnp.ones(4)))  # WARNED
    assert np.allclose(out, 2.0)
    assert [w.message.code for w in caught] == ["FG202"]
    assert caught[0].filename == __file__
    assert caught[0].lineno in lines_of(__file__, "WARNED")


def test_quiet_for_numpy_arguments_ahead_of_time_programs_and_new_shapes():
    f = fg.island(lambda x: x + 1.0)
    f(jnp.ones(4))
    f(np.ones(4, np.float32))
    f.lower(jnp.ones(4)).compile()
    f(jnp.ones(4))
    f(jnp.ones(5))
    f(committed(jnp.ones(6)))
    f(committed(jnp.ones(6)))
    assert not fg.report().violations


def test_quiet_for_derived_programs():
    f = fg.island(lambda x: (x * x).sum())
    x = jnp.ones(3)
    f(x)
    jax.grad(f)(x)
    jax.vmap(f)(jnp.ones((2, 3)))
    jax.jit(lambda v: f(v) * 2.0)(x)
    assert fg.stats(f).compiles == 1
    assert fg.stats(f).derived_compiles >= 1
    assert not fg.report().violations


def test_quiet_after_the_caches_were_cleared():
    f = fg.island(lambda x: x + 1.0)
    f(jnp.ones(4))
    jax.clear_caches()
    f(committed(jnp.ones(4)))
    assert not fg.report().violations


def test_quiet_for_a_budget_whose_programs_were_cleared():
    f = fg.island(lambda x: x + 1.0, max_compiles=1)
    f(jnp.ones(4))
    jax.clear_caches()
    f(jnp.ones(4))
    assert not fg.report().violations
    refused("FG202", lambda: f(jnp.ones(5)), kind="shape")


def test_quiet_when_everything_is_placed_alike():
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    place = NamedSharding(mesh, PartitionSpec("x"))
    f = fg.island(lambda x: x + 1.0)
    for _ in range(3):
        f(jax.device_put(jnp.ones(4), place))
    assert fg.stats(f).compiles == 1
    assert not fg.report().violations
