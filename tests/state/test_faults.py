"""In warn nothing raises, whatever the methods of a user's class do; threads agree on one key."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from fusegate.config import mode
from fusegate.errors import ObserverFault, StateViolation, ViolationWarning
from fusegate.observe import health
from fusegate.runtime.registry import HIDDEN
from fusegate.state.declare import meta, state


@state
class Held:
    w: Any
    m: Any = meta()


class HashFails:
    def __eq__(self, other):
        return True

    def __hash__(self):
        raise RuntimeError("no hash today")


class EqFails:
    def __eq__(self, other):
        raise RuntimeError("no eq today")

    def __hash__(self):
        return 1


class Sly:
    """Fails only for the copy that a comparison is tried out on."""

    def __init__(self):
        self.parts = frozenset({1})

    def __eq__(self, other):
        return isinstance(other, Sly)

    def __hash__(self):
        if not hasattr(self, "armed"):
            self.armed = True
            return 1
        raise RuntimeError("no second hash")


@pytest.mark.parametrize(("build", "code"), [(HashFails, "FG402"), (EqFails, "FG401")])
def test_a_failing_method_is_a_finding(build, code):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Held(jnp.ones(2), build())
    assert caught.value.code == code
    with mode("warn"), pytest.warns(ViolationWarning, match=code):
        held = Held(jnp.ones(2), build())
    assert jax.jit(lambda s: s.w)(held).shape == (2,)


def test_an_unforeseen_fault_is_one_in_strict_and_none_in_warn(caplog):
    with mode("strict"), pytest.raises(ObserverFault):
        Held(jnp.ones(2), Sly())
    try:
        with mode("warn"):
            held = Held(jnp.ones(2), Sly())
        assert jax.jit(lambda s: s.w)(held).shape == (2,)
        assert "no longer observes state keys" in caplog.text
    finally:
        health.switch_on("state keys")


def test_threads_agree_on_one_key():
    def build(_):
        return [getattr(Held(None, (n, "x", float(n))), HIDDEN) for n in range(50)]

    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(build, range(16))
    for other in others:
        assert all(one is another for one, another in zip(first, other, strict=True))


def test_a_key_lives_no_longer_than_its_states():
    from fusegate.state import canonical

    before = len(canonical._metas)
    for n in range(100):
        Held(None, ("short-lived", n))
    assert (
        len(canonical._metas) <= before + 1
    )  # without a garbage collection: nothing here is a cycle


def test_a_pickle_of_identity_metadata_loads_in_warn():
    with mode("off"):
        held = pickle.loads(pickle.dumps(Held(None, HashFails())))
    assert isinstance(held.m, HashFails)
