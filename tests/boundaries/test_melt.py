"""A round body is one boundary when called eagerly, and none of its own inside another's trace."""

import threading

import jax
import jax.numpy as jnp
import numpy as np

import fusegate as fg
from fusegate.boundaries import melt


def nested_jits(closed):
    return [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name in {"jit", "pjit"}]


def inner_jaxpr(f, *args):
    return f.trace(*args).jaxpr


@fg.round_body(reductions=0)
def halve(table):
    half = table.shape[0] // 2
    return table[:half] + table[half:]


def test_no_nested_call_is_left_in_a_zone_or_an_island():
    def run(table):
        return halve(halve(table))

    for decorate in (fg.single_zone, fg.island):
        assert nested_jits(inner_jaxpr(decorate(run), jnp.arange(8.0))) == []


def test_a_round_body_melts_into_another_round_body_under_vmap_scan_and_grad():
    @fg.round_body(reductions=1)
    def outer(rows):
        return jax.vmap(halve)(rows).sum()

    assert nested_jits(inner_jaxpr(outer, jnp.ones((2, 4)))) == []

    @fg.single_zone
    def scanned(table):
        return jax.lax.scan(
            lambda c, _: (jnp.concatenate([halve(c)] * 2), None), table, None, length=2
        )

    closed = inner_jaxpr(scanned, jnp.ones(4))
    (loop,) = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan"]
    assert nested_jits(loop.params["jaxpr"]) == []

    @fg.single_zone
    def differentiated(table):
        return jax.grad(lambda t: halve(t).sum())(table)

    assert np.allclose(differentiated(jnp.ones(4)), 1.0)


def test_melted_runs_count_neither_traces_nor_budget():
    @fg.round_body(reductions=0, max_traces=1)
    def step(table):
        half = table.shape[0] // 2
        return table[:half] * table[half:]

    @fg.single_zone(max_traces=1)
    def zone(table):
        while table.shape[0] > 1:
            table = step(table)
        return table

    zone(jnp.ones(16))
    assert fg.stats(step).traces == 0
    assert fg.stats(step).melted == 4
    step(jnp.ones(4))
    assert (fg.stats(step).traces, fg.stats(step).compiles) == (1, 1)


def test_a_warm_round_body_holds_the_compiled_function_and_melts_again_when_needed():
    step = fg.round_body(lambda x: x + 1.0, reductions=0)
    x = jnp.ones(2)
    step(x)
    fg.single_zone(lambda v: step(v))(x)
    assert not melt.is_melting()
    before = fg.stats(step).traces
    step(x)
    assert fg.stats(step).traces == before == 1


def test_a_round_body_called_on_another_thread_during_a_trace_runs_its_own_program():
    step = fg.round_body(lambda x: x + 1.0, reductions=0)
    x = jnp.ones(2)
    out = []

    def zone(v):
        thread = threading.Thread(target=lambda: out.append(step(x)))
        thread.start()
        thread.join()
        return step(v)

    assert np.allclose(fg.single_zone(zone)(x), 2.0)
    assert np.allclose(out[0], 2.0)
    assert fg.stats(step).traces == 1
    assert fg.stats(step).melted == 1


def test_a_failed_zone_trace_leaves_no_exchange_behind():
    step = fg.round_body(lambda x: x + 1.0, reductions=0)

    def zone(v):
        step(v)
        raise KeyError("mine")

    for _ in range(2):
        try:
            fg.single_zone(zone)(jnp.ones(2))
        except KeyError:
            pass
    assert not melt.is_melting()


def test_an_island_called_in_a_zone_stays_a_call_of_its_own():
    island = fg.island(lambda x: x + 1.0)
    closed = inner_jaxpr(fg.single_zone(lambda v: island(v)), jnp.ones(2))
    assert len(nested_jits(closed)) == 1
