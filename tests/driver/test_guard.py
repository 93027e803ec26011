"""The transfer guard on the CPU backend, where it cannot see a read: its levels, emulated in a driver.

Arrays of int4 must be copied to be read, so for them the runtime's own guard does speak on CPU: they are the
oracle that the emulation is compared with.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate

OPS = {
    "asarray": np.asarray,
    "device_get": jax.device_get,
    "str": str,
    "tolist": lambda array: array.tolist(),
}
LEVELS = ("allow", "log", "disallow", "disallow_explicit")


def fires(op, array):
    told = ""
    try:
        op(array)
    except Exception as error:
        told = str(error)
    assert not told or "isallowed device-to-host" in told
    return bool(told)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", OPS)
def test_the_emulation_agrees_with_the_guard(op, level):
    ordinary = jnp.arange(4.0) + 1
    small = jnp.ones(4, jnp.int4)
    small = jax.block_until_ready(small + small)
    with jax.transfer_guard_device_to_host(level):
        native = fires(OPS[op], small)
        with fusegate.driver("emulated", max_reads=99):
            emulated = fires(OPS[op], ordinary)
    assert emulated == native


def test_the_error_is_the_guards_and_a_violation():
    x = jnp.arange(4.0)
    with fusegate.driver("d", max_reads=9), jax.transfer_guard("disallow"):
        with pytest.raises(fusegate.TransferViolation) as caught:
            np.asarray(x)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.code == "FG301"


def test_in_warn_the_guard_is_told_and_never_raises():
    x = jnp.arange(4.0)
    with (
        fusegate.driver("d", mode="warn", max_reads=9),
        jax.transfer_guard_device_to_host("disallow"),
    ):
        with pytest.warns(fusegate.ViolationWarning, match="transfer guard in force"):
            assert np.asarray(x).shape == (4,)


def test_a_host_op_inside_the_guard_is_meant():
    x = jnp.arange(4.0)
    with (
        jax.transfer_guard_device_to_host("disallow"),
        fusegate.driver("d"),
        fusegate.host_op("look"),
    ):
        np.asarray(x)


def test_a_guard_inside_a_host_op_is_meant_too():
    x = jnp.arange(4.0)
    with (
        fusegate.driver("d"),
        fusegate.host_op("look"),
        jax.transfer_guard_device_to_host("disallow"),
    ):
        with pytest.raises(fusegate.TransferViolation):
            np.asarray(x)


def test_without_a_driver_the_guard_stays_as_it_is():
    with jax.transfer_guard_device_to_host("disallow"):
        assert np.asarray(jnp.arange(4.0)).shape == (4,)
