"""The wrong answers that plain metadata gives, row by row: right under `@state`, or refused by name."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate.config import mode
from fusegate.errors import StateViolation, Violation, ViolationWarning
from fusegate.state.bind import bind
from fusegate.state.declare import meta, state
from fusegate.state.keys import NotByValue, value_key
from fusegate.state.statics import static_collisions


@state
class Held:
    w: Any
    m: Any = meta(default=None)


def traced(fn):
    """A jit of `fn`, and the list that gets one entry per trace."""
    runs = []

    def body(held):
        runs.append(held.m)
        return fn(held)

    return jax.jit(body), runs


def test_an_int_after_an_equal_float_keeps_its_dtype():
    scale, runs = traced(lambda s: s.w * s.m)
    w = jnp.arange(3)
    assert scale(Held(w, 2.0)).dtype == jnp.float32
    assert scale(Held(w, 2)).dtype == jnp.int32
    assert runs == [2.0, 2]


def test_a_negative_zero_keeps_its_sign():
    divide, runs = traced(lambda s: s.w / s.m)
    w = jnp.float32(1)
    assert divide(Held(w, 0.0)) == jnp.inf
    assert divide(Held(w, -0.0)) == -jnp.inf
    assert len(runs) == 2


def test_true_after_one_takes_its_own_branch():
    choose, runs = traced(lambda s: s.w if s.m is True else -s.w)
    w = jnp.float32(1)
    assert choose(Held(w, 1)) == -1
    assert choose(Held(w, True)) == 1
    assert len(runs) == 2


@pytest.mark.parametrize("scalar", [np.int32(1), np.float32(1), np.float64(1), np.bool_(True)])
def test_a_numpy_scalar_is_no_python_number(scalar):
    scale, runs = traced(lambda s: s.w * s.m)
    scale(Held(jnp.ones(2), 1))
    scale(Held(jnp.ones(2), scalar))
    scale(Held(jnp.ones(2), type(scalar)(scalar)))
    assert len(runs) == 2


def test_a_list_is_refused_by_name():
    with mode("strict"), pytest.raises(StateViolation, match=r"Held\.m") as caught:
        Held(jnp.ones(2), [1, 2])
    assert caught.value.code == "FG402"


def test_a_list_in_warn_is_kept_and_later_states_see_their_own():
    count, _ = traced(lambda s: s.w * len(s.m))
    mine, yours = [1, 2], [1, 2]
    with mode("warn"), pytest.warns(ViolationWarning, match="FG402"):
        first, second = Held(jnp.float32(1), mine), Held(jnp.float32(1), yours)
    assert first.m is mine
    assert count(first) == 2
    mine.append(3)
    assert count(second) == 2
    with mode("off"):
        assert count(Held(jnp.float32(1), mine)) == 3


def test_equal_lists_in_warn_share_a_program():
    count, runs = traced(lambda s: s.w * len(s.m))
    with mode("off"):
        for _ in range(3):
            count(Held(jnp.float32(1), [1, {"k": 2}]))
    assert len(runs) == 1


def test_dtype_spellings_are_told_apart():
    cast, runs = traced(lambda s: s.w.astype(s.m))
    for spelling in (np.dtype("float32"), np.float32, "float32", jnp.float32):
        assert cast(Held(jnp.arange(2), spelling)).dtype == jnp.float32
    assert len(runs) == 4


@pytest.mark.parametrize(
    "pair", [((1,), (1.0,)), ((1,), (True,)), ((0.0,), (-0.0,)), ((2.0,), (2,))]
)
def test_nested_numbers_are_told_apart(pair):
    first, second = pair
    assert first == second
    assert value_key(first) != value_key(second)
    assert [fact.path for fact in static_collisions(first, second, "k")] == ["k[0]"]
    multiply, runs = traced(lambda s: s.w * s.m[0])
    w = jnp.arange(3)
    for value in pair:
        assert multiply(Held(w, value)).dtype == (w * value[0]).dtype
    assert len(runs) == 2


def test_static_arguments_bound_by_value_are_told_apart():
    def times(t, w):
        return w * t[0]

    w = jnp.arange(3)
    assert jax.jit(bind(times, (2.0,)))(w).dtype == jnp.float32
    assert jax.jit(bind(times, (2,)))(w).dtype == jnp.int32


class Identity:
    pass


class HashOnly:
    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return hash(self.v)


@pytest.mark.parametrize("value", [Identity(), HashOnly(1), lambda q: q, (Identity(),)])
def test_what_compares_by_identity_is_refused(value):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Held(jnp.ones(2), value)
    assert (caught.value.code, caught.value.cause.kind) == ("FG401", "meta_identity")
    assert caught.value.cause.path.startswith("m")


def test_nan_is_itself():
    scale, runs = traced(lambda s: s.w * s.m)
    for _ in range(3):
        scale(Held(jnp.ones(2), float("nan")))
    assert len(runs) == 1


@pytest.mark.parametrize("array", [np.ones(2), jnp.ones(2), jnp.float32(3.0)])
def test_an_array_is_refused(array):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Held(jnp.ones(2), array)
    assert caught.value.code == "FG403"


class Layer(eqx.Module):
    w: Any
    k: Any = eqx.field(static=True)


def test_an_equinox_static_field_collides_and_is_told():
    before, after = Layer(jnp.arange(3), 2.0), Layer(jnp.arange(3), 2)
    assert [fact.path for fact in static_collisions((1, 2.0), (1, 2), "layer.k")] == ["layer.k[1]"]
    with pytest.raises(NotByValue) as caught:
        value_key(before)
    assert caught.value.kind == "array"
    assert jax.jit(lambda m: m.w * m.k)(before).dtype == jnp.float32
    assert isinstance(after, Layer)


def test_a_violation_is_a_violation():
    assert issubclass(StateViolation, Violation)
