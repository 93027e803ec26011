"""FG208: an array that is closed over instead of passed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import lines_of

pytestmark = pytest.mark.usefixtures("strict")


TABLE = np.arange((1 << 20) + 1, dtype=np.float32)


def advice():
    return [item for item in fg.report().violations if item.code == "FG208"]


@pytest.mark.parametrize("on_device", [False, True])
def test_bites_on_a_table_of_four_mebibytes(on_device):
    table = jnp.asarray(TABLE) if on_device else TABLE

    @fg.island
    def lookup(index):
        return jnp.asarray(table)[index] * 2.0  # HERE TABLE

    lookup(jnp.int32(5))
    (found,) = advice()
    assert not found.is_error
    assert found.location.line in lines_of(__file__, "HERE TABLE")
    assert "f32[1048577]" in found.seen
    assert ("device array" if on_device else "numpy array") in found.seen


def test_bites_on_many_arrays_that_are_large_together():
    parts = [np.full(1 << 18, i, np.float32) for i in range(5)]

    @fg.island
    def total(x):
        return sum((x * jnp.asarray(part) for part in parts), x).sum()

    total(jnp.float32(1))
    (found,) = advice()
    assert found.evidence["bytes"] >= 5 << 20


def test_quiet_where_the_table_is_an_argument_or_small():
    @fg.island
    def lookup(table, index):
        return table[index] * 2.0

    small = np.arange(1 << 20, dtype=np.float32)
    lookup(jnp.asarray(TABLE), jnp.int32(5))
    fg.island(lambda i: jnp.asarray(small)[i] * 2.0)(jnp.int32(5))
    assert advice() == []


def test_quiet_on_arrays_that_the_program_makes_itself():
    fg.island(lambda x: (jnp.arange(1 << 21, dtype=jnp.float32) + jnp.ones(1 << 21) * x).sum())(
        jnp.float32(1)
    )
    fg.island(lambda key: jax.random.normal(key, (1 << 21,)).sum())(jax.random.key(0))
    assert advice() == []
