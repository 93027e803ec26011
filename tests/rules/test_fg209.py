"""FG209: a donation that frees nothing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import refused

# The runtime says the same at lowering, in a warning of its own that names no argument and no line.
pytestmark = [
    pytest.mark.usefixtures("strict"),
    pytest.mark.filterwarnings("ignore:Some donated buffers were not usable"),
]


def ones(size=256):
    return jnp.ones(size) + 1


def test_bites_where_the_only_result_is_a_scalar():
    total = fg.island(lambda table: (table * table).sum(), donate_argnums=(0,))
    table = ones()
    found = refused("FG209", lambda: total(table), marker="HERE SUM")  # HERE SUM
    assert "f32[256]" in str(found)
    assert not table.is_deleted()
    refused("FG209", lambda: total(ones()), marker="HERE AGAIN")  # HERE AGAIN


def test_bites_on_a_leaf_of_a_state_by_its_path():
    step = fg.island(lambda state: state["weights"] * 2, donate_argnames="state")
    state = {"weights": ones(), "moments": ones(64)}
    found = refused("FG209", lambda: step(state))
    assert "moments" in str(found)
    assert "never read" in str(found)


def test_bites_on_two_buffers_for_one_result():
    add = fg.island(lambda a, b: a + b, donate_argnums=(0, 1))
    refused("FG209", lambda: add(ones(), ones()))


def test_bites_on_a_donated_numpy_array():
    step = fg.island(lambda table: table + 1, donate_argnums=0)

    def call():
        return step(np.ones(256, np.float32))  # HERE NUMPY

    assert "numpy" in str(refused("FG209", call, marker="HERE NUMPY"))


def test_bites_on_a_donation_that_a_nested_jit_asks_for():
    @functools.partial(jax.jit, donate_argnums=0)
    def update(state):
        return state + 1

    @fg.island
    def step(state):
        return update(state) * 2  # HERE NESTED

    refused("FG209", lambda: step(ones()), marker="HERE NESTED")


def test_quiet_where_every_buffer_is_reused():
    step = fg.island(
        lambda state, g: ({"w": state["w"] - g, "m": state["m"] * 2}, g.sum()), donate_argnums=0
    )
    state = {"w": ones(), "m": ones(64)}
    out, _ = step(state, ones())
    assert state["w"].is_deleted()
    step(out, ones())


def test_quiet_without_a_donation_and_on_a_buffer_passed_through():
    fg.island(lambda x: x.sum())(ones())
    fg.island(lambda x, y: (x, y + 1), donate_argnums=(0, 1))(ones(), ones())


def test_bites_where_the_result_has_elements_of_another_size():
    narrow = fg.island(lambda x: x.astype(jnp.bfloat16), donate_argnums=0)
    refused("FG209", lambda: narrow(jnp.ones(64)))
