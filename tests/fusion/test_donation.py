"""What becomes of a donated buffer is read off the program, and agrees with what the runtime does."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate.errors import Location
from fusegate.judge import donation as judge
from fusegate.observe import donation
from fusegate.observe.jaxpr import program_facts
from fusegate.runtime import jaxprs


class Island:
    name, role, defined = "step", "island", None


HERE = Location("driver.py", 4)

PROGRAMS = {
    "reused": (lambda x: x + 1, (8,), (0,)),
    "summed": (lambda x: x.sum(), (8,), (0,)),
    "shorter": (lambda x: x[:4] * 2, (8,), (0,)),
    "reshaped": (lambda x: x.reshape(2, 4) * 2, (8,), (0,)),
    "converted": (lambda x: (x * 2).astype(jnp.int32), (8,), (0,)),
    "two for one": (lambda x, y: x + y, (8, 8), (0, 1)),
    "two for two": (lambda x, y: (x + y, x - y), (8, 8), (0, 1)),
    "forwarded": (lambda x, y: (x, y + 1), (8, 8), (0, 1)),
    "not donated": (lambda x: x.sum(), (8,), ()),
}


def ones(*sizes):
    return [jnp.ones(size) + 1 for size in sizes]


def flags(count, donated):
    return [number in donated for number in range(count)]


@pytest.mark.parametrize(("fn", "sizes", "donated"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_facts_agree_with_the_runtime(fn, sizes, donated):
    args = ones(*sizes)
    facts = donation.donation_facts(jax.make_jaxpr(fn)(*args), flags(len(sizes), donated))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        jax.jit(fn, donate_argnums=donated)(*args)
    assert [one.usable for one in facts.inputs] == [args[i].is_deleted() for i in donated]
    assert len(judge.check_donation(Island, facts, HERE)) == (
        not all(o.usable for o in facts.inputs)
    )


def test_a_donated_argument_that_is_never_read_is_dropped_without_a_word():
    def fn(state, x):
        return x + 1

    facts = donation.donation_facts(
        jax.make_jaxpr(fn)(*ones(8, 8)), [True, False], ["state.old", "x"]
    )
    (found,) = judge.check_donation(Island, facts, HERE)
    assert found.location == HERE
    assert "`state.old` f32[8], which is never read" in found.seen
    args = ones(8, 8)
    jax.jit(fn, donate_argnums=0)(*args)
    assert not args[0].is_deleted()


def test_shapes_decide_where_the_runtime_cannot_be_asked(monkeypatch):
    monkeypatch.setattr(jaxprs, "usable_donations", lambda *_: None)
    facts = donation.donation_facts(jax.make_jaxpr(lambda x, y: x + y)(*ones(8, 8)), [True, True])
    assert [one.usable for one in facts.inputs] == [True, False]
    assert [one.path for one in facts.inputs] == ["argument 0", "argument 1"]


def test_flags_are_one_per_input():
    with pytest.raises(ValueError, match="1 donation flags for 2 inputs"):
        donation.donation_facts(jax.make_jaxpr(lambda x, y: x + y)(*ones(8, 8)), [True])


def test_a_donated_numpy_array_is_told():
    leaves = [np.ones(4), jnp.ones(4), np.float32(1), 2.0]
    assert donation.donated_on_host(leaves, [True] * 4) == [0, 2]
    assert donation.donated_on_host(leaves, [False, True, False, True]) == []
    (found,) = judge.check_host_donation(Island, ["table"], HERE)
    assert "`table`" in found.seen
    assert judge.check_host_donation(Island, [], HERE) == []


def test_a_nested_donation_is_told_at_its_call(here):
    @functools.partial(jax.jit, donate_argnums=0)
    def update(state):
        return state + 1

    def step(state):
        return update(state) * 2  # CALL

    facts = program_facts(jax.make_jaxpr(step)(jnp.ones(8)))
    (found,) = judge.check_nested_donation(Island, facts)
    assert found.is_error
    assert found.location.line == here.line(__file__, "CALL")
    quiet = program_facts(jax.make_jaxpr(jax.jit(lambda x: x + 1))(jnp.ones(8)))
    assert judge.check_nested_donation(Island, quiet) == []
