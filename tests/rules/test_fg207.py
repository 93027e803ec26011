"""FG207: a Python loop that became thousands of equations."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import fusegate as fg
from tests.rules._support import lines_of

pytestmark = pytest.mark.usefixtures("strict")


X = jnp.arange(8.0)


def loop(x, times):
    for _ in range(times):
        x = x + 0.01 * (1.0 - x)  # HERE LOOP
    return x


def advice():
    return [item for item in fg.report().violations if item.code == "FG207"]


@pytest.mark.parametrize("role", [fg.island, fg.single_zone])
def test_bites_on_a_time_loop(role):
    role(lambda x: loop(x, 400))(X)
    (found,) = advice()
    assert not found.is_error
    assert found.location.line in lines_of(__file__, "HERE LOOP")
    assert found.evidence == {"equations": 1200, "times": 400}
    assert "lax.scan" in found.remedy


def test_bites_on_a_loop_inside_a_nested_program():
    fg.island(lambda x: lax.cond(x[0] > 0, lambda v: loop(v, 400), lambda v: v, x))(X)
    assert len(advice()) == 1


def test_bites_at_the_threshold_of_the_project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.fusegate]\nunrolled_equations = 200\n")
    monkeypatch.chdir(tmp_path)
    fg.island(lambda x: loop(x, 100))(X)
    assert len(advice()) == 1


def test_quiet_below_the_threshold_in_a_scan_and_over_changing_shapes():
    def halving(x):
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            x = x[:half] + 0.5 * (x[half:] - x[:half])
        return x

    fg.island(lambda x: loop(x, 100))(X)
    fg.island(lambda x: lax.scan(lambda c, _: (loop(c, 1), None), x, None, length=5000)[0])(X)
    fg.single_zone(halving)(jnp.arange(2.0**14))
    assert advice() == []


def test_quiet_on_a_dozen_layers():
    def layers(x):
        for _ in range(24):
            x = jax.nn.gelu(jax.nn.softmax(x) * 2 + jax.nn.silu(x)) + jax.nn.softplus(x)
        return x

    fg.island(layers)(X)
    assert advice() == []


def test_quiet_where_a_straight_line_is_asked_for():
    fg.round_body(reductions=0)(lambda x: loop(x, 400))(X)
    fg.island(lambda x: lax.composite(lambda v: loop(v, 400), name="my.kernel")(x))(X)
    assert advice() == []
