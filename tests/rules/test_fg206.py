"""FG206: a program that calls the host while it runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import fusegate as fg
from tests.rules._support import refused

pytestmark = pytest.mark.usefixtures("strict")


X = jnp.arange(8.0)
SHAPE = jax.ShapeDtypeStruct((8,), np.float32)


def printed(x):
    jax.debug.print("{}", x[0])  # HERE PRINT
    return x


def called_back(x):
    jax.debug.callback(lambda v: None, x, ordered=True)  # HERE DEBUG
    return x


def pure(x):
    return jax.pure_callback(np.asarray, SHAPE, x)  # HERE PURE


def effectful(x):
    return io_callback(np.asarray, SHAPE, x, ordered=True)  # HERE IO


CALLS = {"PRINT": printed, "DEBUG": called_back, "PURE": pure, "IO": effectful}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("role", ["island", "single_zone", "round_body"])
def test_bites_in_every_boundary(role, kind):
    options = {"reductions": 0} if role == "round_body" else {}
    step = getattr(fg, role)(lambda x: CALLS[kind](x) * 2, **options)
    refused("FG206", lambda: step(X), marker=f"HERE {kind}")
    refused("FG206", lambda: step(X), marker=f"HERE {kind}")


def test_bites_inside_loops_and_opaque_composites():
    looped = fg.island(lambda x: lax.scan(lambda c, _: (printed(c), None), x, None, length=2)[0])
    refused("FG206", lambda: looped(X), marker="HERE PRINT")
    routed = fg.island(lambda x: lax.composite(printed, name="my.kernel")(x))
    refused("FG206", lambda: routed(X), marker="HERE PRINT")


def test_bites_in_warn_as_a_warning_and_the_program_runs():
    with fg.mode("warn"), pytest.warns(fg.ViolationWarning, match="FG206"):
        out = fg.island(lambda x: pure(x) * 2)(X)
    assert out.shape == (8,)


def test_quiet_on_trace_time_prints_and_on_the_drivers_own(capsys):
    @fg.island
    def step(x):
        print("tracing")  # noqa: T201
        return x * 2

    jax.debug.print("{}", step(X)[0])
    assert "tracing" in capsys.readouterr().out
