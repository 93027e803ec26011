"""One level of a pytree at a time, with metadata under the names that hold it."""

import collections
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fusegate.runtime.trees import node_of


@dataclasses.dataclass(frozen=True)
class Registered:
    lanes: Any
    permutation: Any


jax.tree_util.register_dataclass(Registered, data_fields=["lanes"], meta_fields=["permutation"])


class Custom:
    def __init__(self, a, b):
        self.a, self.b = a, b


jax.tree_util.register_pytree_node(
    Custom, lambda c: ((c.a,), (c.b, c.b)), lambda aux, kids: Custom(kids[0], aux[0])
)


class Unnamed:
    """Its metadata is computed, so no attribute holds it."""


jax.tree_util.register_pytree_node(
    Unnamed, lambda u: ((), ("computed",)), lambda aux, kids: Unnamed()
)


def shown(value):
    node = node_of(value)
    return node.type, node.suffixes, node.metas


def test_containers_have_no_metadata():
    assert shown((1, 2)) == (tuple, ("[0]", "[1]"), ())
    assert shown({"b": 1, "a": None}) == (dict, ("['a']", "['b']"), ())
    assert shown([]) == (list, (), ())
    assert shown(None)[1:] == ((), ())
    Point = collections.namedtuple("Point", "x y")
    assert shown(Point(1, 2)) == (Point, (".x", ".y"), ())


def test_leaves():
    for leaf in (1, "s", jnp.ones(1), object()):
        assert node_of(leaf) is None


def test_metadata_is_named_after_the_attribute_that_holds_it():
    marker = object()
    assert shown(Registered(1, marker)) == (Registered, (".lanes",), ((".permutation", marker),))
    assert shown(Custom(1, marker)) == (Custom, (".a",), ((".b", marker), ("<static 0>", marker)))
    assert shown(Custom(1, ("x", [3])))[2][0] == (".b", ("x", [3]))
    assert shown(Unnamed())[2] == (("<static 0>", "computed"),)


def test_equinox_modules_and_states():
    import equinox as eqx

    import fusegate as fg

    class Layer(eqx.Module):
        weight: Any
        depth: int = eqx.field(static=True)

    assert shown(Layer(1.0, 3)) == (Layer, (".weight",), ((".depth", 3),))

    @fg.state
    class Claim:
        table: Any
        degree: int = fg.meta()

    assert shown(Claim(jnp.ones(1), 2)) == (Claim, (".table",), ((".degree", 2),))
