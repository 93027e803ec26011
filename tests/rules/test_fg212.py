"""FG212: one zone, one round body, many widths."""

import jax.numpy as jnp
import pytest

import fusegate as fg

pytestmark = pytest.mark.usefixtures("strict")


@fg.round_body(reductions=0)
def fold(table, r):
    half = table.shape[0] // 2
    return table[:half] + r * (table[half:] - table[:half])


@fg.single_zone
def prove(table, r):
    while table.shape[0] > 1:
        table = fold(table, r)
    return table


def advice():
    return [item for item in fg.report().violations if item.code == "FG212"]


def test_bites_on_twelve_widths():
    prove(jnp.arange(4096.0), jnp.float32(0.5))
    (found,) = advice()
    assert not found.is_error
    assert found.boundary == "prove"
    assert found.evidence == {"shapes": 12, "round_body": "fold"}


def test_quiet_on_eight_widths_and_on_many_calls_at_one():
    prove(jnp.arange(256.0), jnp.float32(0.5))

    @fg.single_zone
    def same(table, r):
        for _ in range(20):
            table = jnp.concatenate([fold(table, r)] * 2)
        return table

    same(jnp.arange(8.0), jnp.float32(0.5))
    assert advice() == []
