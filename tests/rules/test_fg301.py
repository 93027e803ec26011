"""FG301: device-to-host reads inside a driver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import refused

X = jnp.arange(4.0)


@fg.island
def step(weights):
    loss, grads = jax.value_and_grad(lambda w: (w * w).sum())(weights)
    return weights - 0.1 * grads, loss


@fg.driver
def train(weights):
    losses = []
    for _ in range(3):
        weights, loss = step(weights)
        losses.append(float(loss))  # HERE
    return losses


def test_bites_at_the_reading_line():
    found = refused("FG301", lambda: train(X), marker="HERE")
    assert "f32[]" in str(found)
    assert "max_reads=0" in str(found)


def test_bites_beyond_the_budget():
    @fg.driver(max_reads=2)
    def run():
        for _ in range(2):
            np.asarray(X)
        np.asarray(X)  # THIRD

    refused("FG301", run, marker="THIRD")


def test_bites_in_warn_and_runs_on():
    with fg.mode("warn"), pytest.warns(fg.ViolationWarning, match="FG301"):
        losses = train(X)
    assert losses == pytest.approx([14.0, 8.96, 5.7344])
    (found,) = [one for one in fg.report().violations if one.code == "FG301"]
    assert found.count == 3
    assert fg.report().drivers["train"].reads == 3


def test_bites_for_the_arguments_of_a_driver():
    @fg.driver
    def run(x):
        return bool(x[0] > x[1])

    with fg.allow("FG302", "FG303", reason="not what is tested here"):
        refused("FG301", lambda: run(X))


def test_bites_where_the_transfer_guard_forbids_the_read():
    with fg.driver("d", max_reads=9):
        np.asarray(X)
        with pytest.raises(fg.TransferViolation, match="Disallowed device-to-host") as caught:
            with jax.transfer_guard("disallow"):
                np.asarray(X)
    assert isinstance(caught.value, RuntimeError)


def test_quiet_in_a_host_op():
    @fg.driver
    def run(x):
        x, loss = step(x)
        with fg.host_op("log line"):
            return float(loss)

    assert run(X) == pytest.approx(14.0)
    seen = fg.report().drivers["test_quiet_in_a_host_op.run"]
    assert (seen.reads, seen.op_reads, dict(seen.host_ops)) == (0, 1, {"log line": 1})


def test_quiet_within_the_budget():
    @fg.driver(max_reads=3)
    def run(x):
        return [float(step(x)[1]) for _ in range(3)]

    run(X)


def test_quiet_outside_of_drivers():
    float(step(X)[1])
    with fg.driver("d"):
        step(X)
    np.asarray(X)


def test_quiet_when_nothing_is_read():
    with fg.driver("d"):
        weights, loss = step(X)
        assert loss.shape == ()
        assert len(weights) == 4
        jax.block_until_ready((weights, loss))
        jax.device_put(loss)


def test_quiet_for_reads_of_a_trace():
    table = jnp.arange(3.0)

    def body(x):
        return x * int(np.asarray(table)[1])

    with fg.driver("d"):
        fg.island(body)(X)
        jax.jit(lambda x: x[: table.shape[0]] + table)(X)
        jax.make_jaxpr(body)(X)


def test_quiet_for_callbacks():
    @fg.island(allow=["FG206", "FG210"])
    def run(x):
        return jax.pure_callback(
            lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((4,), jnp.float32), x
        )

    with fg.driver("d"):
        for _ in range(2):
            run(X).block_until_ready()


def test_quiet_when_allowed():
    with fg.driver("d", allow=["FG301"]):
        float(step(X)[1])
    with fg.driver("d"), fg.allow("FG301", reason="a debugging session"):
        float(step(X)[1])


def test_quiet_when_off():
    with fg.driver("d", mode="off"):
        float(step(X)[1])
    assert not fg.report().violations
