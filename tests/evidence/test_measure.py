"""`measure`: cold and warm apart, two functions in pairs, and results compared without a value being read."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate.evidence import measure as measuring
from fusegate.evidence.measure import measure
from fusegate.runtime import results
from tests.conftest import frx_only

X = jnp.arange(64.0)


pytestmark = pytest.mark.usefixtures("strict")


def compare(one, other, rtol=1e-5, atol=1e-6):
    return results.compare(one, other, rtol=rtol, atol=atol)


def test_cold_steps_and_warm_calls_are_apart():
    boundary = fg.island(lambda x: jnp.sort(x * 2))
    found = measure(boundary, X, rounds=5)
    assert min(found.trace_s, found.lower_s, found.compile_s, found.first_s) > 0
    assert found.warm.low <= found.warm.median <= found.warm.high
    assert found.warm.rounds == 5
    assert found.dispatch.median <= found.warm.median
    assert found.wait.median >= 0
    assert found.compile_s > found.warm.median
    assert (found.ratio, found.parity, found.against) == (None, None, None)
    assert (fg.stats(boundary).traces, fg.stats(boundary).compiles) == (1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.ratio = 1


def test_a_warm_function_has_no_cold_figures():
    boundary = fg.island(lambda x: x * 2, name="warm")
    boundary(X)
    found = measure(boundary, X, rounds=1)
    assert (found.trace_s, found.lower_s, found.compile_s) == (None, None, None)
    assert "?" in found.to_text()


def test_a_function_that_is_no_jit_is_called_as_it_is():
    calls = []

    def driver(x):
        calls.append(1)
        return x + 1

    found = measure(driver, X, rounds=3)
    assert len(calls) == 4
    assert found.compile_s is None
    assert found.name.endswith("driver")


def test_pairs_alternate_and_give_a_ratio(monkeypatch):
    order = []

    def of(name):
        def call(x):
            order.append(name)
            return x

        return call

    found = measure(of("f"), X, against=of("g"), rounds=4)
    assert order == ["f", "g", "g", "f", "f", "g", "g", "f", "f", "g"]
    assert found.ratio > 0
    assert found.against.warm.rounds == 4
    assert "times" in found.to_text()


def test_a_fused_float_program_agrees_within_the_tolerance():
    def logic(x):
        return (jnp.sin(x) * 3 + 1) / 7

    found = measure(jax.jit(logic), X, against=logic, rounds=1)
    assert found.parity.agrees
    assert "equal" in str(found.parity) or "tolerance" in str(found.parity)


def test_another_result_is_told_without_its_values():
    found = measure(jax.jit(lambda x: x + 1), X, against=lambda x: x + 2, rounds=1)
    assert not found.parity.agrees
    assert str(found.parity) == "differ: leaf 0, f32[64]: the values are not the same"


@pytest.mark.parametrize(
    ("one", "other", "agrees", "exact"),
    [
        (1.0, 1.0 + 1e-7, True, False),
        (1.0, 1.1, False, False),
        (float("nan"), float("nan"), True, True),
        (float("inf"), float("inf"), True, True),
        (float("inf"), -float("inf"), False, False),
    ],
)
def test_floats(one, other, agrees, exact):
    found = compare(jnp.full(3, one), jnp.full(3, other), rtol=1e-3)
    if one != 1.0 or other == 1.1:
        assert (found.agrees, found.exact) == (agrees, exact)
    else:
        assert found.agrees


def test_integers_have_to_be_equal():
    big = jnp.array([10**9, 7])
    assert compare(big, big).exact
    assert not compare(big, big + 1, rtol=1.0, atol=10.0).agrees
    assert not compare(jnp.array([True]), jnp.array([False]), atol=10.0).agrees


def test_structure_shape_and_dtype_come_before_values():
    assert "structures" in compare((X,), [X]).reason
    assert compare(X, X[:3]).reason == "leaf 0: f32[64] and f32[3]"
    assert compare(X, X.astype(jnp.int32)).reason == "leaf 0: f32[64] and i32[64]"


@frx_only
def test_field_elements_have_to_be_equal():
    from zk_dtypes import koalabear_mont

    x = jnp.arange(4).astype(koalabear_mont)
    found = measure(jax.jit(lambda y: y * y + y), x, against=lambda y: y * y + y, rounds=2)
    assert (found.parity.agrees, found.parity.exact) == (True, True)
    other = compare(x, x + x, rtol=10.0, atol=10.0)
    assert not other.agrees
    assert "koalabear" in other.reason


def test_seconds_are_shown_in_a_unit_that_suits_them():
    shown = [measuring._seconds(value) for value in (12.0, 0.25, 3.5e-6)]
    assert shown == ["12 s", "250 ms", "3.5 us"]


def test_misuse():
    with pytest.raises(TypeError, match="callable"):
        measure(3)
    with pytest.raises(ValueError, match="rounds=0"):
        measure(lambda: 1, rounds=0)
