"""FG304: one boundary launched many times in a row on independent items."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from tests.rules._support import lines_of

MATRIX = jnp.arange(64.0).reshape(16, 4)
INDICES = [jnp.int32(i % 16) for i in range(40)]


@fg.island
def open_one(matrix, index):
    return matrix[index] * 2.0


@fg.island
def other(x):
    return x + 1.0


@fg.island
def update(x, row):
    return x * 0.5 + row


def advice():
    return [one for one in fg.report().violations if one.code == "FG304"]


@fg.driver
def open_all(indices):
    return [open_one(MATRIX, index) for index in indices]  # HERE


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_bites_once_and_never_raises(state):
    if state == "cold":
        jax.clear_caches()
    assert len(open_all(INDICES)) == 40
    (found,) = advice()
    assert not found.is_error
    assert found.location.line in lines_of(__file__, "HERE")
    assert "`open_one`" in str(found)
    assert "16 times in a row" in str(found)


def test_bites_where_results_are_dropped():
    @fg.driver
    def run():
        for index in INDICES:
            open_one(MATRIX, index)

    run()
    assert len(advice()) == 1


def test_bites_with_eager_ops_between():
    indices = jnp.arange(40)

    @fg.driver(max_eager=1000)
    def run():
        return [open_one(MATRIX, indices[i]) for i in range(40)]

    run()
    assert len(advice()) == 1


def test_bites_where_another_boundary_runs_before():
    @fg.driver
    def run(x):
        for _ in range(20):
            x = other(x)
        return [open_one(MATRIX, index) for index in INDICES]

    run(MATRIX)
    assert len(advice()) == 1


def test_quiet_for_a_chain():
    @fg.driver
    def run(x):
        for _ in range(40):
            x = other(x)
        return x

    run(MATRIX)
    assert not advice()


def test_quiet_for_a_chain_through_eager_ops():
    @fg.driver(max_eager=1000, allow=["FG302"])
    def run(x):
        for _ in range(40):
            x = jnp.sin(other(x)) + 1.0
        return x

    run(MATRIX)
    assert not advice()


def test_quiet_for_a_chain_through_the_host():
    @fg.driver(max_eager=1000, max_reads=1000)
    def run(x):
        for _ in range(40):
            x = jnp.float32(float(other(x)))
        return x

    run(jnp.float32(0.0))
    assert not advice()


def test_quiet_for_boundaries_in_turn():
    @fg.driver
    def run(x):
        for index in INDICES:
            x = update(x, open_one(MATRIX, index))
        return x

    run(MATRIX[0])
    assert not advice()


def test_quiet_below_the_threshold():
    open_all(INDICES[:15])
    assert not advice()


def test_quiet_for_the_same_call_again():
    with fg.driver("timing"):
        for _ in range(40):
            open_one(MATRIX, INDICES[0])
    assert not advice()


def test_quiet_for_distinct_shapes():
    tables = [jnp.ones(n) for n in range(1, 21)]
    with fg.driver("sizes"):
        for table in tables:
            other(table)
    assert not advice()


def test_quiet_outside_of_drivers_and_where_allowed():
    for index in INDICES:
        open_one(MATRIX, index)
    with fg.driver("d", allow=["FG304"]):
        for index in INDICES:
            open_one(MATRIX, index)
    with fg.driver("d"), fg.host_op("queries"):
        for index in INDICES:
            open_one(MATRIX, index)
    assert not advice()
