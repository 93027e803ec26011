"""FG405 state-drift: a state that leaves a traced body with another type than it entered with."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from fusegate.errors import Location
from fusegate.judge.state import check_drift
from fusegate.observe.drift import drift_facts, states_in
from fusegate.state.declare import meta, replace, state

SPEC = SimpleNamespace(name="update", role="island", defined=Location(__file__, 1))
CALLED = Location(__file__, 7)


@state
class Optimizer:
    mean: Any
    count: Any
    step: Any = meta(default=0)


@state
class Outer:
    inner: Any
    extra: Any = None


def drifts(body, *args, one=False):
    """Traces a body as a boundary does, and judges the states that pass through it."""
    found = []

    def observed(*traced):
        entered = drift_facts((f"s{i}" if i else "state", item) for i, item in enumerate(traced))
        out = body(*traced)
        found.extend(check_drift(SPEC, entered, states_in(out), one, CALLED))
        return out

    jax.eval_shape(observed, *args)
    for finding in found:
        assert (finding.code, finding.boundary, finding.location) == ("FG405", "update", CALLED)
    return [(f.cause.kind, f.cause.path, f.cause.before, f.cause.after) for f in found]


def fresh(n=4):
    return Optimizer(jnp.zeros(n), jnp.int32(0))


def test_bites_where_a_dtype_changes():
    found = drifts(lambda s: replace(s, count=s.count + 1.0), fresh())
    assert found == [("dtype", "state.count", "i32[]", "weak f32[]")]


def test_bites_where_a_weak_type_changes():
    weak = Optimizer(jnp.zeros(4), 0)
    found = drifts(lambda s: replace(s, count=s.count + jnp.int32(1)), weak)
    assert found == [("weak_type", "state.count", "weak i32[]", "i32[]")]
    found = drifts(lambda s: replace(s, count=1), fresh())
    assert found == [("weak_type", "state.count", "i32[]", "weak i32[]")]


def test_bites_where_the_structure_changes():
    assert drifts(lambda s: replace(s, count=None), fresh()) == [
        ("structure", "state.count", "a leaf", "absent")
    ]
    grown = drifts(
        lambda s: replace(s, mean=(*s.mean, s.count)), Optimizer((jnp.zeros(2),), jnp.int32(0))
    )
    assert grown == [("structure", "state.mean[1]", "absent", "a leaf")]
    listed = drifts(
        lambda s: replace(s, mean=list(s.mean)), Optimizer((jnp.zeros(2),), jnp.int32(0))
    )
    assert listed == [("structure", "state", "builtins.tuple", "builtins.list")]


def test_bites_on_shapes_and_metadata_only_where_one_trace_is_declared():
    halve = lambda s: replace(s, mean=s.mean[:2])  # noqa: E731
    assert drifts(halve, fresh()) == []
    assert drifts(halve, fresh(), one=True) == [("shape", "state.mean", "f32[4]", "f32[2]")]
    advance = lambda s: replace(s, step=s.step + 1)  # noqa: E731
    assert drifts(advance, fresh()) == []
    assert drifts(advance, fresh(), one=True) == [("meta_value", "state.step", "0", "1")]


def test_bites_inside_results_and_nested_states():
    found = drifts(lambda s: (s.count, {"s": replace(s, count=s.count * 1.0)}), fresh())
    assert found == [("dtype", "state.count", "i32[]", "weak f32[]")]
    inner = lambda s: replace(s, inner=replace(s.inner, count=1.0 * s.inner.count))  # noqa: E731
    assert drifts(inner, Outer(fresh())) == [("dtype", "state.inner.count", "i32[]", "weak f32[]")]


def test_bites_on_the_one_of_two_that_drifted():
    found = drifts(lambda a, b: (a, replace(b, count=b.count * 1.0)), fresh(), fresh())
    assert found == [("dtype", "s1.count", "i32[]", "weak f32[]")]


def test_quiet_for_a_state_that_can_enter_again():
    for one in (False, True):
        assert (
            drifts(lambda s: replace(s, mean=s.mean + 1, count=s.count + 1), fresh(), one=one) == []
        )
        assert drifts(lambda s: s.mean, fresh(), one=one) == []
        assert drifts(lambda x: Optimizer(x, x), jnp.zeros(4), one=one) == []


def test_quiet_for_swapped_states_and_batches_of_states():
    wide = Optimizer(jnp.zeros(4), jnp.float32(0))
    assert drifts(lambda a, b: (b, a), fresh(), wide, one=True) == []
    stacked = lambda s: jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), s)  # noqa: E731
    assert drifts(stacked, fresh(), one=True) == []
    assert drifts(lambda s: jax.tree.map(lambda leaf: leaf[0], s), stacked(fresh()), one=True) == []


def test_quiet_where_other_numbers_of_states_enter_and_leave():
    assert drifts(lambda s: (s, replace(s, count=s.count * 1.0)), fresh()) == []
    assert drifts(lambda a, b: replace(a, count=a.count + b.count * 1.0), fresh(), fresh()) == []


def test_quiet_where_there_is_no_state():
    assert drifts(lambda x: x * 1.0, jnp.arange(3)) == []


def test_the_message_names_the_field_and_what_to_do():
    entered = drift_facts([("state", fresh())])
    left = states_in(replace(fresh(), count=jnp.float32(0), mean=jnp.zeros(4, jnp.int32)))
    (finding,) = check_drift(SPEC, entered, left, False, CALLED)
    assert "state `state` (Optimizer) leaves with another dtype at `state.mean`, and 1 more" in str(
        finding
    )
    assert "cast it back" in str(finding)


def test_facts_keep_no_array():
    (facts,) = states_in(fresh())
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(facts.leaves))
    assert facts.leaves[0].text == "f32[4]"
