"""FG403 array-meta: an array or a tracer as metadata."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate import ledger
from fusegate.config import mode
from fusegate.errors import StateViolation
from fusegate.state.content import by_content
from fusegate.state.declare import meta, state


@state
class Layout:
    values: Any
    offsets: Any = meta()


@dataclasses.dataclass(frozen=True)
class Config:
    table: Any


@pytest.mark.parametrize(
    ("value", "path", "named"),
    [
        (np.arange(3), "offsets", "a numpy array i"),
        (jnp.arange(3), "offsets", "a device array i32[3]"),
        (jnp.float32(1), "offsets", "a device array f32[]"),
        ((1, jnp.ones((2, 3))), "offsets[1]", "a device array f32[2,3]"),
        (Config(np.ones(2, np.float32)), "offsets.table", "a numpy array f32[2]"),
    ],
)
def test_bites_where_a_value_is_an_array(value, path, named, here):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Layout(jnp.ones(4), value)  # BUILT
    error = caught.value
    assert (error.code, error.cause.path) == ("FG403", path)
    assert error.location.line == here.line(__file__, "BUILT")
    assert named in str(error)


def test_bites_where_a_tracer_becomes_metadata(here):
    def body(x):
        return Layout(x, x.sum()).values  # TRACED

    with mode("strict"), pytest.raises(StateViolation) as caught:
        jax.jit(body)(jnp.ones(4))
    assert (caught.value.code, caught.value.cause.path) == ("FG403", "offsets")
    assert caught.value.location.line == here.line(__file__, "TRACED")
    assert "a tracer f32[]" in str(caught.value)


def test_quiet_for_host_scalars_and_by_content():
    runs = []
    body = jax.jit(lambda s: (runs.append(1), s.values + jnp.asarray(s.offsets))[1])
    with mode("strict"):
        for _ in range(3):
            out = body(Layout(jnp.ones(3), by_content(np.arange(3, dtype=np.float32))))
        Layout(jnp.ones(3), np.float32(1))
    assert (out == jnp.array([1.0, 2.0, 3.0])).all()
    assert len(runs) == 1
    assert not ledger.current().snapshot().findings
