"""FG302: numpy arrays and Python numbers that a launch inside a driver uploads."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.observe.dependence import WATCHED
from tests.rules._support import refused

X = jnp.arange(4.0)
KEY = jax.random.key(0)
TABLE = np.full(4, 0.5, np.float32)


@fg.state
class Params:
    table: object


@fg.island
def predict(params, x):
    return jax.tree_util.tree_leaves(params)[0] * x


@fg.island(static_argnames="power", static_argnums=1)
def scaled(x, power, shift=None):
    return x**power if shift is None else x**power + shift


@fg.island(filter=True)
def filtered(model, x):
    return model["table"] * x * model["gain"]


ARGUMENTS = {
    # name: (kind, path, call); `host` makes of its argument the host value, or an array in its place
    "array": ("leaf_type", "params", lambda host: predict(host(TABLE), X)),
    "nested": ("leaf_type", "params['a'][1]", lambda host: predict({"a": [X, host(TABLE)]}, X)),
    "state": ("leaf_type", "params.table", lambda host: predict(Params(host(TABLE)), X)),
    "number": ("python_scalar", "params", lambda host: predict(host(0.5), X)),
    "flag": ("python_scalar", "params", lambda host: predict(host(True), X)),
    "numpy scalar": ("leaf_type", "params", lambda host: predict(host(np.float32(2)), X)),
    "list of numbers": ("python_scalar", "params[0]", lambda host: predict([host(1.0)], X)),
    "by name": ("leaf_type", "x", lambda host: predict(X, x=host(TABLE))),
    "beside a static": ("python_scalar", "shift", lambda host: scaled(X, 2, host(0.5))),
    "filtered": (
        "leaf_type",
        "model['table']",
        lambda host: filtered({"table": host(TABLE), "gain": 2.0}, X),
    ),
    "beside a key": (
        "leaf_type",
        "params[1]",
        lambda host: predict([X, host(TABLE), KEY], X),
    ),
}


@pytest.mark.parametrize("state", ["cold", "warm", "settled"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_bites_with_the_argument(name, state):
    kind, path, call = ARGUMENTS[name]
    call(lambda value: value)
    call(jnp.asarray)
    if state == "cold":
        jax.clear_caches()
    times = 3 * WATCHED if state == "settled" else 0

    @fg.driver
    def run():
        for _ in range(times):
            call(jnp.asarray)
        call(lambda value: value)

    refused("FG302", run, kind=kind, path=path)


@fg.driver
def sample(params, x):
    for _ in range(3):
        x = predict(params, x)  # HERE
    return x


def test_bites_at_the_call():
    found = refused("FG302", lambda: sample(TABLE, X), path="params", marker="HERE")
    assert "f32[4]" in str(found)


def test_bites_in_a_method():
    class Model:
        @functools.partial(fg.island, static_argnums=0)
        def apply(self, x, table):
            return x * table

    with fg.driver("d"):
        refused("FG302", lambda: Model().apply(X, TABLE), path="table")


EAGER = {
    "x + table": lambda: X + TABLE,
    "table * x": lambda: TABLE * X,
}


@pytest.mark.parametrize("name", EAGER)
def test_bites_for_an_eager_op_within_its_budget(name):
    op = EAGER[name]
    op()
    with fg.driver("d", max_eager=9):
        refused("FG302", op)


@pytest.mark.parametrize(
    "op",
    [lambda: X * 2.0, lambda: jnp.where(X > X, X, 0), lambda: X + 1],
    ids=["multiply", "where", "add"],
)
def test_quiet_for_a_number_in_an_eager_op_within_its_budget_cold_and_warm(op):
    with fg.driver("d", max_eager=9):
        op()
        op()
    assert not fg.report().violations


def test_bites_for_a_numpy_array_given_to_another_jit():
    other = jax.jit(lambda x: x * 2)
    with fg.driver("d"):
        refused("FG302", lambda: other(TABLE))


def test_bites_in_warn_and_counts():
    with fg.mode("warn"), pytest.warns(fg.ViolationWarning, match="FG302"):
        sample(TABLE, X)
    assert fg.report().drivers["sample"].uploads == 3


def test_quiet_for_device_arrays():
    assert sample(jax.device_put(TABLE), X).shape == (4,)
    assert sample(jnp.asarray(TABLE), X).shape == (4,)


def test_quiet_for_uploads_that_are_spelled_out():
    with fg.driver("d"):
        table = jax.device_put(TABLE)
        table = predict(table, jnp.asarray(TABLE))
        predict(table, jnp.array(TABLE))


def test_quiet_for_static_arguments():
    with fg.driver("d"):
        scaled(X, 2)
        scaled(X, power=3)
        filtered({"table": X, "gain": 2.0}, X)


def test_quiet_for_statics_of_another_jit():
    other = jax.jit(lambda x, n: x * n, static_argnums=1)
    with fg.driver("d"):
        other(X, 3)
        other(X, 3)


def test_quiet_in_a_host_op():
    with fg.driver("d"), fg.host_op("witness"):
        predict(jnp.float32(7), X)
        predict(TABLE, X)
    seen = fg.report().drivers["d"]
    assert (seen.uploads, seen.op_uploads, seen.op_eager) == (0, 1, 1)


def test_quiet_for_random_keys():
    @fg.island
    def draw(key):
        return jax.random.normal(key, (3,))

    key = jax.random.key(0)
    with fg.driver("d"):
        draw(key)
        draw(key)


def test_quiet_outside_of_drivers_and_where_allowed():
    predict(TABLE, X)
    with fg.driver("d", allow=["FG302"]):
        predict(TABLE, X)
    with fg.driver("d"), fg.allow("implicit-upload", reason="a table of one row"):
        predict(TABLE, X)
    with fg.driver("d", mode="off"):
        predict(TABLE, X)
    assert not fg.report().violations
