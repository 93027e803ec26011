"""Strict value keys: what is a value, what is not, and where inside it the fault is."""

import collections
import dataclasses
import enum
import functools
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate.state.content import by_content
from fusegate.state.declare import state
from fusegate.state.keys import NotByValue, value_key
from fusegate.state.statics import static_collisions, unsafe_static


class Color(enum.Enum):
    RED = 1


class Axis(enum.IntFlag):
    X = 1
    Y = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Config:
    scale: Any = 1
    note: Any = dataclasses.field(default="", compare=False)


@dataclasses.dataclass
class Unfrozen:
    a: int = 1


@dataclasses.dataclass(unsafe_hash=True)
class UnsafeHash:
    a: int = 1


@dataclasses.dataclass(frozen=True, eq=False)
class NoEq:
    a: int = 1


class ByWidth:
    def __init__(self, width):
        self.width = width
        self._cache = None

    def __eq__(self, other):
        return isinstance(other, ByWidth) and self.width == other.width

    def __hash__(self):
        return hash(self.width)

    def method(self):
        return self.width


class Wrapper:
    """Compares by its parts, whatever those do."""

    def __init__(self, inner, *more):
        self.inner = inner
        self.more = more

    def __eq__(self, other):
        return isinstance(other, Wrapper) and (self.inner, self.more) == (other.inner, other.more)

    def __hash__(self):
        return hash(type(self.inner))


class Opaque:
    pass


SHARED = Opaque()
RENAMED = lambda x: x  # noqa: E731


class Unhashable:  # noqa: PLW1641 - that is the point
    def __eq__(self, other):
        return True


class HashById:
    def __eq__(self, other):
        return isinstance(other, HashById)

    __hash__ = object.__hash__


class EqArray:
    def __eq__(self, other):
        return np.array([True, False])

    def __hash__(self):
        return 1


class EqFails:
    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        return 1


@state
class Params:
    rate: int


VALUES = [
    *(
        None,
        ...,
        0,
        1,
        True,
        False,
        1.0,
        0.0,
        -0.0,
        float("nan"),
        float("inf"),
        1j,
        -0.0j,
        complex(0, -0.0),
    ),
    *(
        "",
        "a",
        b"a",
        (),
        (1,),
        (1.0,),
        (True,),
        ((1,),),
        frozenset({1}),
        frozenset({True}),
        range(3),
    ),
    *(
        slice(1),
        np.int32(1),
        np.int64(1),
        np.float32(1),
        np.float32(-0.0),
        np.float32(0),
        np.bool_(True),
    ),
    *(
        np.dtype("float32"),
        np.float32,
        jnp.float32,
        "float32",
        int,
        Color.RED,
        Axis.X | Axis.Y,
        Axis.X,
    ),
    *(
        Point(1, 2),
        Point(1, 2.0),
        (1, 2),
        Config(1),
        Config(1.0),
        Config((1, 2)),
        ByWidth(1),
        ByWidth(1.0),
    ),
    *(
        ByWidth(True),
        Wrapper(ByWidth(1)),
        Wrapper(ByWidth(1.0)),
        Wrapper(1),
        Wrapper(SHARED),
        Fraction(1),
    ),
    *(
        Path("a"),
        len,
        np.add,
        jnp.abs,
        jnp.add,
        jax.nn.relu,
        jax.nn.gelu,
        RENAMED,
        value_key,
        str.upper,
    ),
    *(
        Params(1),
        jax.devices()[0],
        jax,
        list[int],
        by_content(np.arange(3)),
        by_content(np.arange(3.0)),
    ),
]


@pytest.mark.parametrize("index", range(len(VALUES)))
def test_a_key_is_equal_to_itself_and_to_no_other(index):
    key = value_key(VALUES[index])
    assert key == value_key(VALUES[index])
    assert hash(key) == hash(value_key(VALUES[index]))
    equal = [other for other in range(len(VALUES)) if value_key(VALUES[other]) == key]
    assert equal == [index]


def test_equal_values_built_anew_have_one_key():
    def build():
        return (
            ByWidth(3),
            Config((1, "x")),
            Wrapper(ByWidth(2), (ByWidth(1),)),
            Point(1, Fraction(1, 3)),
        )

    assert value_key(build()) == value_key(build())
    assert value_key(float("nan")) == value_key(-float("nan"))
    assert value_key(np.float32("nan")) == value_key(np.float32("nan"))


def test_what_an_eq_leaves_out_stays_out():
    used = ByWidth(3)
    used._cache = [1, 2]
    assert value_key(used) == value_key(ByWidth(3))
    assert value_key(Config(1, "first")) == value_key(Config(1, "second"))


def test_by_content_is_read_only_and_equal_by_content():
    source = np.arange(3)
    held = by_content(source)
    key = value_key(held)
    source[0] = 9
    assert held[0] == 0
    assert value_key(by_content(np.arange(3))) == key
    assert value_key(by_content(np.arange(3).reshape(1, 3))) != key
    assert value_key(by_content(np.arange(3, dtype=np.int8))) != key
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        held.setflags(write=True)
    with pytest.raises(TypeError, match="takes a numpy array, not a list"):
        by_content([1])
    with pytest.raises(TypeError, match="array of numbers"):
        by_content(np.array([None]))
    with pytest.raises(NotByValue):
        value_key(held.copy())
    with pytest.raises(NotByValue):
        value_key(held[:1])


def local_function():
    return 1


@pytest.mark.parametrize(
    ("value", "kind", "path", "what"),
    [
        (lambda x: x, "identity", "", "lambda (test_keys.py:"),
        (functools.partial(len, ()), "identity", "", "partial of builtin"),
        (ByWidth(1).method, "identity", "", "bound method ByWidth.method"),
        ([].append, "identity", "", "bound method list.append"),
        (jax.jit(lambda x: x), "identity", "", "PjitFunction"),
        (Opaque(), "identity", "", "Opaque"),
        (SHARED, "identity", "", "Opaque"),
        (NoEq(), "identity", "", "NoEq"),
        (threading.Lock(), "identity", "", "lock"),
        ((1, (Opaque(),)), "identity", "[1][0]", "Opaque"),
        (Point(1, Opaque()), "identity", ".y", "Opaque"),
        (Config(Config(Opaque())), "identity", ".scale.scale", "Opaque"),
        (Wrapper(Opaque()), "identity", ".inner", "Opaque"),
        (Wrapper(Wrapper(ByWidth(1), Opaque())), "identity", ".inner.more[0]", "Opaque"),
        (Wrapper(lambda x: x), "identity", ".inner", "lambda"),
        (Wrapper(functools.partial(len, 1)), "identity", ".inner", "partial of"),
        ((1, Config(Wrapper(Opaque()))), "identity", "[1].scale.inner", "Opaque"),
        (HashById(), "identity", "", "HashById"),
        (EqArray(), "identity", "", "EqArray"),
        (EqFails(), "identity", "", "EqFails"),
        ([1], "mutable", "", "a list"),
        ((1, {"a": 1}), "mutable", "[1]", "a dict"),
        ({1}, "mutable", "", "a set"),
        (bytearray(b"a"), "mutable", "", "a bytearray"),
        (collections.deque(), "mutable", "", "collections.deque"),
        (Unfrozen(), "mutable", "", "Unfrozen"),
        (UnsafeHash(), "mutable", "", "UnsafeHash"),
        (Config([1]), "mutable", ".scale", "a list"),
        (Unhashable(), "mutable", "", "Unhashable"),
        (np.arange(3), "array", "", "a numpy array i"),
        (jnp.arange(3), "array", "", "a device array i32[3]"),
        (Config((1, jnp.arange(3))), "array", ".scale[1]", "a device array i32[3]"),
        (eqx.nn.Linear(2, 2, key=jax.random.key(0)), "array", "", "Linear"),
    ],
)
def test_what_has_no_value_is_refused_with_its_path(value, kind, path, what):
    with pytest.raises(NotByValue) as caught:
        value_key(value)
    error = caught.value
    assert (error.kind, error.path) == (kind, path)
    assert what in error.what
    assert error.fix in str(error)


def test_a_tracer_is_refused():
    found = []

    def body(x):
        with pytest.raises(NotByValue) as caught:
            value_key((x,))
        found.append((caught.value.kind, caught.value.what))
        return x

    jax.jit(body)(jnp.ones(3))
    assert found == [("array", "a tracer f32[3]")]


def test_a_lambda_built_by_a_class_body_or_a_module_is_a_value():
    class Holder:
        act = lambda x: x  # noqa: E731

    assert value_key(RENAMED) == value_key(RENAMED)
    assert value_key(local_function)
    with pytest.raises(NotByValue):  # a class of this call: another one next time
        value_key(Holder.act)


def test_unsafe_static_names_refusals_and_look_alikes():
    assert unsafe_static((2, "a", ByWidth(2)), "k") == []
    assert unsafe_static(1.0, "k") == []
    (fact,) = unsafe_static(Wrapper(Opaque()), "tree")
    assert (fact.kind, fact.path) == ("identity", "tree.inner")
    facts = unsafe_static((1, 2.0, True, 0.5), "k")
    assert [(fact.kind, fact.path) for fact in facts] == [("loose", "k[1]"), ("loose", "k[2]")]
    assert [fact.path for fact in unsafe_static(-0.0, "k")] == ["k"]
    assert [fact.path for fact in unsafe_static(Config(2.0), "cfg")] == ["cfg.scale"]


def test_static_collisions_need_equal_values():
    assert static_collisions((1,), (2.0,), "k") == []
    assert static_collisions((1,), (1,), "k") == []
    assert [f.path for f in static_collisions(ByWidth(1), ByWidth(True), "p")] == ["p.width"]
    assert [f.path for f in static_collisions(frozenset({1}), frozenset({True}), "s")] == ["s{}"]
