"""What a jit would mis-key among static arguments and metadata is reported, as advice, with its path."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg


class ByIdentity:
    pass


@dataclasses.dataclass(frozen=True)
class Config:
    rate: Any
    inner: Any = None


@dataclasses.dataclass(frozen=True)
class Tagged:
    x: Any
    tag: Any


jax.tree_util.register_dataclass(Tagged, data_fields=["x"], meta_fields=["tag"])


def advice(run):
    run()
    return [(v.code, v.cause.path) for v in fg.report().violations if not v.is_error]


@pytest.mark.parametrize(
    ("build", "path"), [(lambda: Config(1, ByIdentity()), "k.inner"), (ByIdentity, "k")]
)
def test_a_second_object_that_compares_by_identity(build, path):
    f = fg.island(lambda x, k: x + 1.0, static_argnums=1)
    assert advice(lambda: f(jnp.ones(2), build())) == []
    assert advice(lambda: f(jnp.ones(2), build())) == [("FG401", path)]


def test_quiet_for_one_object_that_is_held_for_good():
    held = ByIdentity()
    f = fg.island(lambda x, k: x + 1.0, static_argnums=1)
    for size in (2, 3):
        assert advice(lambda: f(jnp.ones(size), held)) == []


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [((1, 2), (1, 2.0), "k[1]"), ((True,), (1,), "k[0]"), (0.0, -0.0, "k")],
)
def test_values_that_the_runtime_takes_for_one_once_both_were_seen(before, after, path):
    f = fg.island(lambda x, k: x + 1.0, static_argnums=1)
    f(jnp.ones(2), before)
    assert advice(lambda: f(jnp.ones(3), after)) == [("FG401", path)]


def test_metadata_that_the_runtime_takes_for_one():
    f = fg.island(lambda s: s.x + 1.0)
    f(Tagged(jnp.ones(2), 2.0))
    assert advice(lambda: f(Tagged(jnp.ones(3), 2))) == [("FG401", "s.tag")]


def test_quiet_for_the_metadata_of_a_state():
    @fg.state
    class Exact:
        x: Any
        tag: Any = fg.meta()

    f = fg.island(lambda s: s.x + 1.0)
    f(Exact(jnp.ones(2), 2.0))
    assert advice(lambda: f(Exact(jnp.ones(3), 2))) == []


def test_metadata_of_a_foreign_class():
    f = fg.island(lambda s: s.x + 1.0)
    assert advice(lambda: f(Tagged(jnp.ones(2), [1]))) == [("FG402", "s.tag")]


@pytest.mark.parametrize(
    "value",
    [3, "word", None, (1, "a"), Config(3, ("a", 2)), 2.0, 0.0, (True, 1.0), jnp.sin, Config],
)
def test_quiet_for_values(value):
    f = fg.island(lambda x, k: x + 1.0, static_argnums=1)
    assert advice(lambda: f(jnp.ones(2), value)) == []


def test_quiet_under_the_filter_and_for_layers():
    import equinox as eqx

    f = fg.island(lambda m, x, k: m(x), filter=True)
    layer = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))
    assert advice(lambda: f(layer, jnp.ones(2), (1, 2.0, True))) == []
