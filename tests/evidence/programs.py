"""A dozen programs whose launches are counted: every kind of instruction that starts or repeats something."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


def elementwise(x):
    return jnp.tanh(x) * 2 + jnp.sin(x)


def reduction(x):
    return (x * x).sum(axis=0)


def dot(x):
    return jnp.tanh(x @ x.T) + 1


def known_trips(x):
    return jax.lax.fori_loop(0, 7, lambda _, c: jnp.sin(c) @ jnp.eye(c.shape[-1]), x)


def scan_over_rows(x):
    def step(carry, row):
        carry = jnp.sort(carry * row)
        return carry, carry.sum()

    return jax.lax.scan(step, x[0], x)


def unknown_trips(x):
    return jax.lax.while_loop(lambda c: (c < 1e6).all(), lambda c: (c @ c.T) @ c + 1, x)


def branches(x):
    return jax.lax.cond(x.sum() > 0, lambda c: jnp.sort(c @ c.T), lambda c: (c @ c.T) + 1, x)


def switch(x):
    several = [jnp.sort, lambda c: jnp.cumsum(c, axis=0), lambda c: -c]
    return jax.lax.switch(jnp.int32(x.sum()) % 3, several, x)


def sort(x):
    return jnp.sort(x, axis=0), jnp.argsort(x, axis=1)


def custom_call(x):
    return jax.lax.top_k(x, 2)


def composite(x):
    @functools.partial(jax.lax.composite, name="test.square")
    def square(y):
        return y * y + 1

    return square(x).sum()


def nested_loops(x):
    def outer(_, c):
        return jax.lax.fori_loop(0, 3, lambda _, d: jnp.sort(d) + 1, c @ c.T)

    return jax.lax.fori_loop(0, 5, outer, x)


def nested_call(x):
    return jax.jit(jnp.sort)(x) + jax.jit(lambda y: y @ y.T)(x)


def gather_scatter(x):
    order = jnp.argsort(x[:, 0])
    return x.at[order].add(x[order] * 2)


PROGRAMS = {
    fn.__name__: fn
    for fn in (
        elementwise, reduction, dot, known_trips, scan_over_rows, unknown_trips, branches, switch, sort,
        custom_call, composite, nested_loops, nested_call, gather_scatter,
    )
}  # fmt: skip
