"""FG401 identity-meta: a metadata value that compares by identity, itself or in a part of it."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from fusegate import ledger
from fusegate.config import mode
from fusegate.errors import StateViolation, ViolationWarning
from fusegate.judge.allow import allow
from fusegate.state.bind import bind, stable
from fusegate.state.declare import meta, replace, state


@state
class Claim:
    table: Any
    combine: Any = meta()


class Permutation:
    def __init__(self, width):
        self.width = width


@dataclasses.dataclass(frozen=True)
class Tree:
    hasher: Any
    arity: int = 2


class Hashed:
    """Compares by its parts."""

    def __init__(self, tree):
        self.tree = tree

    def __eq__(self, other):
        return isinstance(other, Hashed) and self.tree == other.tree

    def __hash__(self):
        return 1


def multiply(a, b):
    return a * b


@pytest.mark.parametrize(
    ("value", "path", "named"),
    [
        (lambda a, b: a * b, "combine", "lambda (test_fg401.py:"),
        (functools.partial(multiply, 2), "combine", "partial of function multiply"),
        (Permutation(8), "combine", "test_fg401.Permutation"),
        (Permutation(8).__init__, "combine", "bound method Permutation.__init__"),
        ((1, Permutation(8)), "combine[1]", "test_fg401.Permutation"),
        (Tree(Permutation(8)), "combine.hasher", "test_fg401.Permutation"),
        (Hashed(Tree(Permutation(8))), "combine.tree.hasher", "test_fg401.Permutation"),
        (Hashed((1, Permutation(8))), "combine.tree[1]", "test_fg401.Permutation"),
    ],
)
def test_bites_where_a_value_or_a_part_of_it_compares_by_identity(value, path, named, here):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Claim(table=jnp.ones(4), combine=value)  # BUILT
    error = caught.value
    assert (error.code, error.cause.kind, error.cause.path) == ("FG401", "meta_identity", path)
    assert error.location.file == __file__
    assert error.location.line == here.line(__file__, "BUILT")
    assert error.boundary == "Claim"
    assert f"`Claim.{path}` is" in str(error)
    assert named in str(error)


def test_bites_where_replace_brings_one_in(here):
    claim = Claim(jnp.ones(4), multiply)
    with mode("strict"), pytest.raises(StateViolation) as caught:
        replace(claim, combine=lambda a, b: a)  # REPLACED
    assert caught.value.location.line == here.line(__file__, "REPLACED")


def test_bites_in_a_default_factory_at_the_outer_construction(here):
    def build():
        return Claim(None, Permutation(8))  # FACTORY

    @state
    class Outer:
        inner: Any = dataclasses.field(default_factory=build)

    with mode("strict"), pytest.raises(StateViolation) as caught:
        Outer()
    assert caught.value.location.line == here.line(__file__, "FACTORY")


def test_quiet_for_values():
    with mode("strict"):
        for value in (
            multiply,
            jnp.add,
            jax.nn.relu,
            Tree(Hashed(Tree(4))),
            Permutation,
            (1, "a"),
            len,
        ):
            Claim(jnp.ones(4), value)
        Claim(jnp.ones(4), bind(multiply, 2))
        Claim(jnp.ones(4), stable(lambda k: lambda a, b: a * b + k)(2))
    assert not ledger.current().snapshot().findings


def test_quiet_where_it_is_allowed_and_in_off():
    with mode("strict"), allow("FG401", reason="one instance per process"):
        Claim(jnp.ones(4), Permutation(8))
    with mode("off"):
        Claim(jnp.ones(4), Permutation(8))
    assert not ledger.current().snapshot().findings


def test_in_warn_the_state_is_built_and_told_once(here):
    held = Permutation(8)
    runs = []
    body = jax.jit(lambda c: (runs.append(1), c.table)[1])

    def build():
        return Claim(jnp.ones(4), held)  # WARNED

    with mode("warn"), pytest.warns(ViolationWarning, match="FG401") as told:
        claims = [build() for _ in range(3)]
    for claim in claims:
        assert (body(claim) == 1).all()
    assert len(told) == 1
    assert told[0].filename == __file__
    assert told[0].lineno == here.line(__file__, "WARNED")
    assert claim.combine is held
    assert len(runs) == 1
