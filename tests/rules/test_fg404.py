"""FG404 non-array-data: a data leaf that no jit takes, and bare Python numbers as advice."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate import ledger
from fusegate.config import mode
from fusegate.errors import StateViolation, ViolationWarning
from fusegate.state.declare import meta, state


@state
class Column:
    values: Any
    name: Any = None


class Opaque:
    pass


def found():
    return [(f.code, f.cause.kind, f.cause.path) for f in ledger.current().snapshot().findings]


@pytest.mark.parametrize(
    ("value", "path", "named"),
    [
        ("quotient", "name", "a str"),
        (b"quotient", "name", "a bytes"),
        (Opaque(), "name", "test_fg404.Opaque"),
        (lambda x: x, "name", "lambda"),
        ([jnp.ones(2), {"k": "q"}], "name[1]['k']", "a str"),
        (np.array(["a"]), "name", "a numpy array of dtype <U1"),
    ],
)
def test_bites_where_a_leaf_is_no_array(value, path, named, here):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Column(jnp.ones(4), value)  # BUILT
    error = caught.value
    assert (error.code, error.cause.kind, error.cause.path) == ("FG404", "leaf_type", path)
    assert error.location.line == here.line(__file__, "BUILT")
    assert f"`Column.{path}` holds" in str(error)
    assert named in str(error)
    assert "quotient" not in str(error)


def test_bites_inside_a_trace_too():
    with mode("strict"), pytest.raises(StateViolation):
        jax.jit(lambda x: Column(x, "q").values)(jnp.ones(2))


def test_in_warn_the_state_is_built():
    with mode("warn"), pytest.warns(ViolationWarning, match="FG404"):
        assert Column(jnp.ones(4), "quotient").name == "quotient"


@pytest.mark.parametrize("number", [0.5, 3, True, 1j])
def test_a_bare_number_beside_an_array_is_advice(number):
    with mode("strict"):
        Column(jnp.ones(4), number)
    assert found() == [("FG404", "python_scalar", "name")]
    assert not ledger.current().snapshot().findings[0].is_error


SHAPE = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.mark.parametrize(
    "data",
    [
        (0, None),
        (None, 0),
        ("decay", "no_decay"),
        (SHAPE, SHAPE),
        (jnp.ones(2), None),
        (jnp.ones(2), SHAPE),
        (jnp.ones(2), jax.sharding.PartitionSpec("x")),
        (jnp.ones(2), object()),
        (np.ones(2), np.float32(1)),
        (jnp.ones(2), eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))),
        (jnp.ones(2), [{"a": (jnp.ones(1), np.arange(2))}, ()]),
        (jnp.ones(2), Column(jnp.ones(2))),
        (jax.random.key(0), jnp.ones(2, jnp.bfloat16)),
        (Opaque(), Opaque()),
    ],
)
def test_quiet_for_arrays_and_for_specifications(data):
    with mode("strict"):
        Column(*data)
    assert found() == []


def test_quiet_for_metadata_and_when_the_runtime_builds_it():
    @state
    class Named:
        values: Any
        name: str = meta(default="q")

    with mode("strict"):
        item = Named(jnp.ones(4), "quotient")
        jax.tree.map(lambda leaf: "label", Column(jnp.ones(2), jnp.ones(2)))
        jax.vmap(lambda c: c.values, in_axes=(Named(0, "quotient"),))(item)
        jax.jit(lambda c: c)(Column(jnp.ones(2), jnp.ones(2)))
    assert found() == []


def test_quiet_in_off():
    with mode("off"):
        Column(jnp.ones(4), "quotient")
        Column(jnp.ones(4), 0.5)
    assert found() == []
