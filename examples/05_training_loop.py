"""A training loop that logs its loss on every step, and its repair.

    python examples/05_training_loop.py

One step of a small network with Equinox and optax is an island; the loop around it is a driver. The loop
fetches the loss as a float after every step, so the host waits for the device each time, and splits its
random key between two steps, which is a launch of its own. Strict mode stops at the first of each. The
repaired loop keeps the losses on the device, reads them every hundred steps in a host op, and carries its
key through the island: it launches one program per step and learns the same weights.

Runs on JAX, CPU.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import fusegate

STEPS, BATCH, EVERY = 300, 64, 100
OPTIMIZER = optax.adam(1e-2)


def draw(key):
    """A batch: points of the plane, and whether they lie inside of the unit circle."""
    points = jax.random.uniform(key, (BATCH, 2), minval=-1.5, maxval=1.5)
    return points, (jnp.sum(points**2, axis=1) < 1.0).astype(jnp.float32)


def update(model, moments, key):
    """One step on a fresh batch."""

    def loss_of(model):
        points, inside = draw(key)
        logits = jax.vmap(model)(points)[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, inside).mean()

    loss, grads = eqx.filter_value_and_grad(loss_of)(model)
    updates, moments = OPTIMIZER.update(grads, moments, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), moments, loss


@fusegate.island(filter=True, max_traces=1)
def step(model, moments, key):
    """One step; the caller makes the key."""
    return update(model, moments, key)


@fusegate.island(filter=True, max_traces=1)
def step_with_key(model, moments, key):
    """One step that carries its key along."""
    key, batch = jax.random.split(key)
    return *update(model, moments, batch), key


@fusegate.driver(max_eager=3 * STEPS)
def train_logging_each_step(model, moments, key):
    """Waits for the device after every step."""
    losses = []
    for _ in range(STEPS):
        key, batch = jax.random.split(key)
        model, moments, loss = step(model, moments, batch)
        losses.append(float(loss))
    return model, losses


@fusegate.driver
def train_splitting_outside(model, moments, key):
    """Launches the split of the key beside each step."""
    losses = []
    for _ in range(STEPS):
        key, batch = jax.random.split(key)
        model, moments, loss = step(model, moments, batch)
        losses.append(loss)
    return model, losses


@fusegate.driver
def train(model, moments, key):
    """One launch per step; the host looks at the losses now and then, and says so."""
    losses = []
    for number in range(1, STEPS + 1):
        model, moments, loss, key = step_with_key(model, moments, key)
        losses.append(loss)
        if number % EVERY == 0:
            with fusegate.host_op("log line"):
                recent = [float(loss) for loss in losses[-EVERY:]]
            print(f"step {number:4}: mean loss {sum(recent) / EVERY:.3f}")
    return model, losses


def stopped_at(run, *args):
    """The violation that stops a run in strict mode."""
    try:
        run(*args)
    except fusegate.Violation as violation:
        print(violation, end="\n\n")
        return violation
    raise AssertionError(f"{run.__name__} was not stopped")


def main():
    """Runs the faulty loops up to where they are stopped, in warn to their end, and the repaired one."""
    model = eqx.nn.MLP(2, 1, width_size=32, depth=2, key=jax.random.key(0))
    moments = OPTIMIZER.init(eqx.filter(model, eqx.is_array))
    key = jax.random.key(1)
    with fusegate.mode("strict"):
        assert stopped_at(train_logging_each_step, model, moments, key).code == "FG301"
        assert stopped_at(train_splitting_outside, model, moments, key).code == "FG303"
        fusegate.reset()
        trained, losses = train(model, moments, key)
    seen = fusegate.report().drivers["train"]
    assert (seen.launches, seen.eager, seen.reads) == (STEPS, 0, 0), seen
    print(f"{seen.launches} launches in {STEPS} steps, {seen.op_reads} reads, all in host ops")

    with fusegate.mode("off"):  # the same computation, whoever splits the key
        _, expected = train_logging_each_step(model, moments, key)
    apart = max(abs(float(a) - b) for a, b in zip(losses, expected, strict=True))
    assert apart < 1e-3, apart
    points, inside = draw(jax.random.key(2))
    right = jnp.mean((jax.vmap(trained)(points)[:, 0] > 0) == inside)
    assert float(right) > 0.9, right
    print(f"the same losses as before the repair; {float(right):.0%} of a fresh batch right")


if __name__ == "__main__":
    main()
