"""What the walk sees, and whose line it names."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

X = jnp.arange(8.0)
INDEX = jnp.array([3, 1, 2])


def total(sites):
    return sum(site.count for site in sites)


def pick(x):
    return x[INDEX].sum()  # PICK


@jax.custom_jvp
def with_jvp(x):
    return pick(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0].sum()))


@jax.custom_vjp
def with_vjp(x):
    return pick(x)


with_vjp.defvjp(lambda x: (pick(x), x), lambda x, g: (g * x,))


def sharded(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    spec = jax.sharding.PartitionSpec()
    mapped = getattr(jax, "shard_map", None)
    if mapped is None:
        pytest.skip("no public shard_map")
    return mapped(pick, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def scanned(x):
    return lax.scan(lambda carry, _: (carry + pick(x), None), 0.0, None, length=3)[0]


def looped(x):
    return lax.while_loop(lambda carry: carry < 3, lambda carry: carry + pick(x), 0.0)


def branched(x):
    return lax.cond(x[0] > 0, pick, lambda x: x[0], x)


def mapped(x):
    return jax.vmap(pick)(jnp.stack([x, x]))


CONTAINERS = {
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "checkpoint": jax.checkpoint(pick),
    "jit": jax.jit(pick),
    "shard_map": sharded,
    "scan": scanned,
    "while": looped,
    "cond": branched,
    "vmap": mapped,
}


@pytest.mark.parametrize("fn", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_is_looked_into_and_names_the_inner_line(fn, facts_of, here):
    own = facts_of(fn, X).own
    (gather,) = [site for site in own.breakers if site.primitive == "gather"]
    assert gather.location.line == here.line(__file__, "PICK")
    assert gather.location.file == __file__
    assert own.reduction_count == 1
    assert own.unknown == ()


def test_loops_have_their_trip_counts(facts_of):
    own = facts_of(lambda x: (scanned(x), looped(x)), X).own
    assert [(loop.primitive, loop.length) for loop in own.loops] == [("scan", 3), ("while", None)]


def test_a_cond_counts_the_reductions_of_its_widest_branch(facts_of):
    def fn(x):
        return lax.cond(x[0] > 0, lambda x: x.sum() + x.max(), lambda x: x.min(), x)

    own = facts_of(fn, X).own
    assert sorted(site.primitive for site in own.reductions) == ["reduce_max", "reduce_sum"]
    assert [site.primitive for site in own.breakers] == ["cond"]


def test_a_cached_library_function_is_told_at_each_call(facts_of, here):
    def fn(x):
        first = jnp.linalg.norm(x)  # NORM ONE
        return first + jnp.linalg.norm(x)  # NORM TWO

    jax.make_jaxpr(lambda x: jnp.linalg.norm(x))(X)
    lines = [site.location.line for site in facts_of(fn, X).own.reductions]
    assert lines == [here.line(__file__, "NORM ONE"), here.line(__file__, "NORM TWO")]


def test_a_shared_program_counts_once_per_use(facts_of):
    @jax.jit
    def inner(x):
        return x * x.sum()

    def fn(x):
        for _ in range(5):
            x = inner(x)
        return x

    facts = facts_of(fn, X)
    assert facts.own.reduction_count == 5
    assert facts.own.primitives["mul"] == 5
    assert total(facts.own.calls) == 5


def owners(facts):
    return {(call.name, call.owner) for call in facts.calls}


def test_nested_jits_have_an_owner_and_a_call_line(facts_of, here):
    @jax.jit
    def plain(x):
        return jnp.where(x > 1, x, 0.0)

    @functools.partial(jax.jit, inline=True)
    def spliced(x):
        return x + 1

    class Scale:
        def __call__(self, x):
            return x * 2

    partial = jax.jit(functools.partial(lambda k, x: x * k, 2.0))
    filtered = eqx.filter_jit(lambda x: x + 3)
    scale = jax.jit(Scale())

    def fn(x):
        y = plain(spliced(x))  # CALL
        return partial(y) + filtered(y) + scale(y)

    facts = facts_of(fn, X)
    users = [call for call in facts.own.calls if call.owner == "user"]
    assert len(users) == 4
    assert users[0].name == "plain"
    assert users[0].location.line == here.line(__file__, "CALL")
    assert users[0].defined.file == __file__
    assert ("_where", "library") in owners(facts)


def test_equinox_layers_are_no_users_jits(facts_of):
    model = eqx.nn.MLP(4, 4, 8, 2, key=jax.random.key(0))
    facts = facts_of(model, jnp.ones(4))
    assert {owner for _, owner in owners(facts)} <= {"library"}
    assert "dot_general" in {site.primitive for site in facts.own.breakers}


def test_an_opaque_composite_is_counted_and_not_judged(facts_of):
    def fn(x):
        return lax.composite(lambda x: jnp.where(x > 1, x, 0.0)[INDEX].sum(), name="my.routed")(x)

    facts = facts_of(fn, X)
    assert facts.composites == {"my.routed": 1}
    assert facts.own.primitives == {"composite": 1}
    assert (facts.own.reductions, facts.own.breakers, facts.own.calls) == ((), (), ())
    assert facts.opaque.reduction_count == 1
    assert {call.name for call in facts.opaque.calls} == {"_where"}
    assert facts.equations == 1 + facts.opaque.equations


def test_a_marker_composite_is_judged_with_its_surroundings(facts_of):
    def fn(x):
        return lax.composite(lambda x: jnp.where(x > 1, x, 0.0).sum(), name="my.fused")(x)

    facts = facts_of(fn, X, fused_regions=["my.fused"])
    assert facts.own.reduction_count == 1
    (call,) = facts.own.calls
    assert (call.name, call.fused) == ("_where", "my.fused")
    assert facts.own.primitives == {"composite": 1}


def test_a_callback_is_seen_inside_an_opaque_composite(facts_of):
    def shout(x):
        jax.debug.print("{}", x[0])
        return x

    facts = facts_of(lambda x: lax.composite(shout, name="my.routed")(x), X)
    assert total(facts.callbacks) == 1


def test_a_slice_at_a_known_place_is_no_dynamic_slice(facts_of):
    own = facts_of(lambda x: x[-1] + x[0] + x.reshape(2, 4)[..., -1].sum(), X).own
    assert own.breakers == ()
    assert [s.primitive for s in facts_of(lambda x, i: x[i], X, jnp.int32(1)).own.breakers] == [
        "dynamic_slice"
    ]


@pytest.mark.parametrize("on_device", [False, True])
def test_closed_over_arrays_are_measured_and_located(on_device, facts_of, here):
    table = np.ones(1 << 16, np.float32)
    held = jnp.asarray(table) if on_device else table

    def fn(x):
        y = x * 2
        return y + jnp.asarray(held)[:8]  # USED

    (constant,) = facts_of(fn, X).constants
    assert constant.nbytes == 1 << 18
    assert constant.shape == "f32[65536]"
    assert constant.on_device is on_device
    assert constant.location.line == here.line(__file__, "USED")


def test_melted_regions_split_the_equations(facts_of, melted, here):
    def body(x):
        return x * x.sum()

    def zone(x):
        x = melted(body, "fold#1.0")(x[INDEX])
        x = lax.scan(lambda c, _: (melted(body, "fold#1.1")(c), None), x, None, length=2)[0]
        x = jax.vmap(melted(lambda v: v * 2, "fold#1.2"))(x)
        return x.sum() + x.max()

    facts = facts_of(zone, X)
    names = {marker.partition(":")[2]: region for marker, region in facts.melted.items()}
    assert {name: region.reduction_count for name, region in names.items()} == {
        "fold#1.0": 1, "fold#1.1": 1, "fold#1.2": 0,
    }  # fmt: skip
    assert all(region.breakers == () for region in names.values())
    assert facts.own.reduction_count == 2
    assert {site.primitive for site in facts.own.breakers} == {"gather", "scan"}


def test_what_runs_inside_a_melted_call_belongs_to_it(facts_of, melted):
    @jax.jit
    def helper(x):
        return x * x.sum()

    def outer(x):
        return melted(lambda y: y.max(), "inner#2.1")(helper(x)) + lax.cumsum(x)[0]

    facts = facts_of(melted(outer, "outer#1.0"), X)
    names = {marker.partition(":")[2]: region for marker, region in facts.melted.items()}
    assert names["outer#1.0"].reduction_count == 1
    assert [site.primitive for site in names["outer#1.0"].breakers] == ["cumsum"]
    assert [call.name for call in names["outer#1.0"].calls] == ["helper"]
    assert names["inner#2.1"].reduction_count == 1


def test_a_derivative_of_a_melted_call_is_not_the_body_that_was_written(facts_of, melted):
    body = melted(lambda x: (x * x).sum(), "fold#1.0")

    def zone(x):
        return jax.grad(
            lambda x: lax.scan(lambda c, _: (c * body(c), None), x, None, length=2)[0].sum()
        )(x)

    assert facts_of(zone, X).melted == {}
    # A derivative that the round body takes itself is what it was written to do.
    own = melted(lambda x: jax.grad(lambda y: (y * y).sum())(x), "step#1.0")
    (region,) = facts_of(own, X).melted.values()
    assert region.equations > 0
