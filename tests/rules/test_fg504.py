"""FG504: launches grow with a size that should leave them flat."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate.testing import assert_flat
from tests.rules._support import lines_of

X = jax.ShapeDtypeStruct((60,), "float32")


def unrolled(rounds):
    def prove(x):
        for _ in range(rounds):
            x = jnp.sort(x)[::-1]  # THE LOOP
        return x

    return prove, X


def flat(terms):
    def logic(x):
        return sum((jnp.sin(x) * k for k in range(terms)), x)

    return logic, X


def test_bites_on_an_unrolled_loop_and_names_the_kernel_that_multiplied():
    with pytest.raises(AssertionError) as caught:
        assert_flat(unrolled, [2, 4, 8])  # THE ASSERTION
    found = caught.value
    assert isinstance(found, fg.PinViolation)
    assert found.code == "FG504"
    assert {found.location.line} == lines_of(__file__, "THE ASSERTION")
    assert found.evidence["sizes"] == ["2", "4", "8"]
    low, middle, high = found.evidence["values"]
    assert low < middle < high
    text = str(found)
    assert f"launches grow from {low} to {high}" in text
    assert f"   8  {str(high).rjust(8)}" in text
    (line,) = lines_of(__file__, "THE LOOP")
    assert f"grew: 8 sort at {fg.Location(__file__, line)}" in text
    assert "lax.scan" in text


def test_bites_on_another_figure():
    def outer(x):
        return jnp.sort(jnp.outer(x, x)).sum(axis=1)

    with pytest.raises(fg.PinViolation, match="temp_bytes grow from"):
        assert_flat(
            outer,
            [64, 128],
            args=lambda n: (jax.ShapeDtypeStruct((n,), "float32"),),
            of="temp_bytes",
        )


def test_bites_on_a_boundary_with_a_static_size():
    @fg.island(static_argnames="times")
    def repeated(x, times):
        for _ in range(times):
            x = jnp.sort(x)[::-1]
        return x

    with pytest.raises(fg.PinViolation):
        assert_flat(repeated, [1, 3], args=lambda n: (X, n))


def test_quiet_while_the_logic_of_one_kernel_grows():
    assert_flat(flat, [2, 4, 8, 16])


def test_quiet_on_a_loop_that_stays_a_loop():
    def scanned(rounds):
        def prove(x):
            return jax.lax.scan(lambda c, _: (jnp.sort(c)[::-1], None), x, None, length=rounds)[0]

        return prove, X

    assert_flat(scanned, [2, 4, 8])
    with pytest.raises(fg.PinViolation):
        assert_flat(scanned, [2, 4, 8], of="dynamic_launches")


def test_quiet_where_launches_fall():
    def fewer(n):
        return unrolled(9 - n)

    assert_flat(fewer, [2, 4, 8])
