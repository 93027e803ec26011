"""A ViT-style head on JAX and Equinox: eager, under `eqx.filter_jit`, and as an island.

    fusegate run examples/02_vit_inference.py

The head classifies one crop per call. Called eagerly it launches every operation by itself; under
`eqx.filter_jit` and as `@fusegate.island(filter=True)` each call is one program. The three times are per
crop, warm and waited for with `block_until_ready`; the three results agree within a tolerance.

Runs on CPU.
"""

import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp

import fusegate

IMAGE, PATCH, WIDTH, HEADS, DEPTH, CLASSES = 32, 8, 64, 4, 2, 10
CROPS, ROUNDS, TOLERANCE = 4, 9, 1e-4


class Block(eqx.Module):
    """One transformer block: attention and a two-layer network, each normalised and with a residual."""

    attention: eqx.nn.MultiheadAttention
    network: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=first)
        self.network = eqx.nn.MLP(WIDTH, WIDTH, 2 * WIDTH, 1, jax.nn.gelu, key=second)
        self.norms = (eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH))

    def __call__(self, tokens):
        normed = jax.vmap(self.norms[0])(tokens)
        tokens = tokens + self.attention(normed, normed, normed)
        return tokens + jax.vmap(self.network)(jax.vmap(self.norms[1])(tokens))


class Head(eqx.Module):
    """Patches -> tokens -> blocks -> class scores. Its leaves are arrays and activation functions."""

    embed: eqx.nn.Linear
    position: jax.Array
    blocks: list[Block]
    classify: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, DEPTH + 3)
        self.embed = eqx.nn.Linear(3 * PATCH * PATCH, WIDTH, key=keys[0])
        self.position = 0.02 * jax.random.normal(keys[1], ((IMAGE // PATCH) ** 2, WIDTH))
        self.blocks = [Block(k) for k in keys[3:]]
        self.classify = eqx.nn.Linear(WIDTH, CLASSES, key=keys[2])

    def __call__(self, crop):
        side = IMAGE // PATCH
        patches = crop.reshape(3, side, PATCH, side, PATCH).transpose(1, 3, 0, 2, 4)
        tokens = jax.vmap(self.embed)(patches.reshape(side * side, -1)) + self.position
        for block in self.blocks:
            tokens = block(tokens)
        return self.classify(tokens.mean(axis=0))


def eager(head, crop):
    """No boundary: one launch per operation."""
    return head(crop)


@eqx.filter_jit
def jitted(head, crop):
    """Equinox's own boundary."""
    return head(crop)


@fusegate.island(filter=True, max_traces=1)
def island(head, crop):
    """The same partition of arguments, with a promise: one trace, whatever the crop."""
    return head(crop)


def per_crop(call, head, crops):
    """Milliseconds per crop for one pass over the crops."""
    start = time.perf_counter()
    for crop in crops:
        call(head, crop).block_until_ready()
    return (time.perf_counter() - start) * 1e3 / len(crops)


def main():
    """Compares the three ways on the same crops."""
    head = Head(jax.random.key(0))
    crops = list(jax.random.normal(jax.random.key(1), (CROPS, 3, IMAGE, IMAGE)))
    calls = {"eager": eager, "eqx.filter_jit": jitted, "island(filter=True)": island}

    scores = {name: jnp.stack([call(head, c) for c in crops]) for name, call in calls.items()}
    apart = max(float(jnp.abs(s - scores["eager"]).max()) for s in scores.values())
    assert apart <= TOLERANCE, f"results differ by {apart:.1e}"

    times = {name: [] for name in calls}
    for _ in range(ROUNDS):  # interleaved, so that a slow moment of the machine meets all three
        for name, call in calls.items():
            times[name].append(per_crop(call, head, crops))
    for name, samples in times.items():
        print(f"{name:20} {statistics.median(samples):8.3f} ms per crop, warm")
    print(f"largest difference   {apart:8.1e} (tolerance {TOLERANCE:.0e})")

    counted = fusegate.stats(island)
    assert (counted.traces, counted.compiles) == (1, 1), counted


if __name__ == "__main__":
    main()
