"""`assert_launches` and `assert_flat`: what they take, and what they refuse."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate.testing import assert_flat, assert_launches

X = jax.ShapeDtypeStruct((64,), "float32")


def ordered(x):
    return jnp.sort(x) * 2


def test_launches_within_the_limit_give_the_evidence():
    found = assert_launches(ordered, X, at_most=2)
    assert found.launches == 2


def test_launches_above_the_limit_fail_with_kernels_and_lines(here):
    with pytest.raises(AssertionError, match="FG501") as caught:
        assert_launches(jax.jit(ordered), X, at_most=1)
    text = str(caught.value)
    assert "at_most=1" in text
    assert "1 sort at" in text
    assert not isinstance(caught.value, fg.Violation)


def test_a_boundary_runs_nothing_and_compiles_once():
    boundary = fg.island(ordered)
    assert_launches(boundary, X, at_most=2)
    assert_launches(boundary, X, at_most=2)
    assert fg.stats(boundary).compiles == 1


def test_what_cannot_be_observed_fails(monkeypatch):
    from fusegate.runtime import compiled

    monkeypatch.setattr(compiled, "module_of", lambda executable: None)
    with pytest.raises(
        AssertionError, match="launches of `ordered` cannot be observed: this backend"
    ):
        assert_launches(ordered, X, at_most=1)
    with pytest.raises(AssertionError, match="cannot be observed"):
        assert_flat(lambda n: (ordered, X), [1, 2])


def test_misuse_of_flat_is_told_apart_from_failure():
    with pytest.raises(ValueError, match="no figure of a program; known are launches, "):
        assert_flat(ordered, [1, 2], of="speed")
    with pytest.raises(ValueError, match="known are"):
        assert_flat(ordered, [1, 2], of="compile_s")
    with pytest.raises(ValueError, match="two sizes"):
        assert_flat(lambda n: (ordered, X), [1])
    with pytest.raises(TypeError, match=r"f\(size\) gives \(function, \*arguments\)"):
        assert_flat(lambda n: ordered, [1, 2])
    with pytest.raises(TypeError, match=r"args\(size\) gives a tuple"):
        assert_flat(ordered, [1, 2], args=lambda n: X)
