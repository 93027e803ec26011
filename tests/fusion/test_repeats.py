"""A Python loop in a trace: which lines repeat, and which only look like it."""

import jax
import jax.numpy as jnp
from jax import lax

from fusegate.observe import repeats

X = jnp.arange(8.0)


def test_a_loop_is_one_pattern_with_its_line(facts_of, here):
    def fn(x):
        for _ in range(200):
            x = x + 0.5 * (1.0 - x)  # LOOP
        return x

    (repeat,) = facts_of(fn, X).repeats
    assert (repeat.equations, repeat.times) == (600, 200)
    assert repeat.pattern == ("sub f32[8]", "mul f32[8]", "add f32[8]")
    assert repeat.location.line == here.line(__file__, "LOOP")


def test_a_loop_over_a_jitted_step_repeats_its_call(facts_of):
    step = jax.jit(lambda x: x * 2)

    def fn(x):
        for _ in range(100):
            x = step(x)
        return x

    (repeat,) = facts_of(fn, X).repeats
    assert repeat.times == 100
    assert repeat.pattern[0].startswith(("jit", "pjit"))


def test_sizes_that_change_and_lines_that_differ_are_no_pattern(facts_of):
    def halving(x):
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            x = x[:half] * 2 + x[half:] * 3 - x[:half] * 4 + x[half:] * 5
        return x

    assert facts_of(halving, jnp.arange(2.0**12)).repeats == ()

    def layers(x):
        for _ in range(repeats.MIN_TIMES - 1):
            x = jax.nn.softmax(x) + jax.nn.gelu(x) * jax.nn.silu(x)
        return x

    assert facts_of(layers, X).repeats == ()


def test_a_round_body_counts_once_per_call(facts_of, melted):
    def unrolled(x):
        for _ in range(200):
            x = x * 2 + 1
        return x

    assert facts_of(melted(unrolled, "perm#1.0"), X).repeats == ()

    def zone(x):
        for call in range(200):
            x = melted(lambda x: x * 2 + 1, f"fold#1.{call}")(x)
        return x

    (repeat,) = facts_of(zone, X).repeats
    assert repeat.times == 200


def test_a_composite_is_a_straight_line_by_request(facts_of):
    def unrolled(x):
        for _ in range(200):
            x = x * 2 + 1
        return x

    for name in ("zorch.fused_region", "my.routed"):
        assert facts_of(lambda x, name=name: lax.composite(unrolled, name=name)(x), X).repeats == ()
    assert facts_of(
        lambda x: lax.scan(lambda c, _: (unrolled(c), None), x, None, length=2)[0], X
    ).repeats


def test_a_round_body_counts_once_where_its_equations_come_back_in_a_derivative(facts_of, melted):
    calls = repeats.MIN_TIMES - 4

    def body(x):
        return jnp.sin(x) * jnp.cos(x) + jnp.sin(x) * 2

    def loss(x):
        for call in range(calls):
            x = melted(body, f"fold#1.{call}")(x)
        return x.sum()

    assert facts_of(jax.grad(jax.checkpoint(loss)), X).repeats == ()
