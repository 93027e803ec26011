"""FG201: more traces than declared, each with the cause that made the last one necessary."""

import dataclasses
import functools
import os
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused


class ByIdentity:
    """Compares by identity, as every class without `__eq__` does."""

    def __init__(self, width):
        self.width = width


class WrittenOut(ByIdentity):
    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


@dataclasses.dataclass(frozen=True)
class ByValue:
    width: Any
    inner: Any = None


@dataclasses.dataclass(frozen=True)
class Transcript:
    lanes: Any
    permutation: Any


jax.tree_util.register_dataclass(Transcript, data_fields=["lanes"], meta_fields=["permutation"])


class Pair(NamedTuple):
    a: Any
    b: Any


def once(fn, **keywords):
    return fg.island(fn, max_traces=1, **keywords)


x4 = np.ones(4, np.float32)


def leaf(value):
    return jax.tree_util.tree_leaves(value)[0]


PAIRS = {
    # name: (kind, path, first arguments, second arguments)
    "shape": ("shape", "state", (x4,), (np.ones(5, np.float32),)),
    "shape_deep": (
        "shape",
        "state['t'][1].b",
        ({"t": [x4, Pair(x4, x4)]},),
        ({"t": [x4, Pair(x4, x4[:2])]},),
    ),
    "rank": ("shape", "state", (x4,), (np.ones((4, 1), np.float32),)),
    "dtype": ("dtype", "state", (x4,), (np.ones(4, np.int32),)),
    "weak_type": ("weak_type", "state", (np.float32(1.0),), (jax.lax.full((), 1.0),)),
    "python_scalar": ("python_scalar", "state", (np.float32(1.0),), (1.0,)),
    "python_scalars": ("python_scalar", "state", (1,), (1.0,)),
    "structure_kind": ("structure", "state", ([x4],), ((x4,),)),
    "structure_size": ("structure", "state", ([x4],), ([x4, x4],)),
    "structure_key": ("structure", "state", ({"a": x4},), ({"b": x4},)),
    "structure_none": ("structure", "state['a']", ({"a": x4, "b": x4},), ({"a": None, "b": x4},)),
    "meta_value": ("meta_value", "state.permutation", (Transcript(x4, 3),), (Transcript(x4, 4),)),
    "meta_deep": (
        "meta_value",
        "state.permutation.inner[1]",
        (Transcript(x4, ByValue(1, (1, "a"))),),
        (Transcript(x4, ByValue(1, (1, "b"))),),
    ),
    "meta_nan": (
        "meta_value",
        "state.permutation",
        (Transcript(x4, float("nan")),),
        (Transcript(x4, float("nan")),),
    ),
    "meta_identity": (
        "meta_identity",
        "state.permutation",
        (Transcript(x4, ByIdentity(8)),),
        (Transcript(x4, ByIdentity(8)),),
    ),
    "meta_identity_one_level_down": (
        "meta_identity",
        "state.permutation.inner",
        (Transcript(x4, ByValue(8, ByIdentity(8))),),
        (Transcript(x4, ByValue(8, ByIdentity(8))),),
    ),
    "meta_identity_written_out": (
        "meta_identity",
        "state.permutation",
        (Transcript(x4, WrittenOut(8)),),
        (Transcript(x4, WrittenOut(8)),),
    ),
    "meta_lambda": (
        "meta_identity",
        "state.permutation",
        (Transcript(x4, lambda v: v),),
        (Transcript(x4, lambda v: v),),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_cause_and_its_path_are_named(name):
    kind, path, first, second = PAIRS[name]
    f = once(lambda state: jax.tree_util.tree_map(lambda v: v + 1, leaf(state)))
    f(*first)
    found = refused("FG201", lambda: f(*second), kind=kind, path=path, marker="CALL")  # CALL
    assert isinstance(found, fg.TraceViolation)
    assert found.fix
    assert fg.stats(f).causes[-1].kind == kind


@pytest.mark.parametrize(
    ("kind", "path", "first", "second"),
    [
        ("static_value", "k", 1, 2),
        ("static_value", "k", 1, 1.0),
        ("static_value", "k.width", ByValue(1), ByValue(2)),
        ("meta_identity", "k", ByIdentity(1), ByIdentity(1)),
        ("callable", "k", lambda v: v, lambda v: v),
        ("callable", "k", functools.partial(max, 1), functools.partial(max, 1)),
        ("callable", "k.width", ByValue(lambda v: v), ByValue(lambda v: v)),
    ],
)
@pytest.mark.parametrize(
    "static", [{"static_argnames": "k"}, {"static_argnums": 1}, {"static_argnums": (-1,)}]
)
def test_static_arguments(kind, path, first, second, static):
    f = once(lambda x, k: x + 1.0, **static)
    f(x4, first)
    refused("FG201", lambda: f(x4, second), kind=kind, path=path)


def test_call_form_and_an_omitted_default():
    f = once(lambda x, k=2.0: x * k)
    f(x4)
    refused("FG201", lambda: f(x4, k=2.0), kind="call_form", path="k", marker="FORM")  # FORM
    g = once(lambda x, y: x * y)
    g(x4, x4)
    refused("FG201", lambda: g(x4, y=x4), kind="call_form", path="y")


def test_variable_arguments_are_named_by_position_and_key():
    f = once(lambda *xs, **kws: sum(xs) + sum(kws.values()))
    f(x4, x4, x4, k=x4)
    refused("FG201", lambda: f(x4, x4, np.float32(1.0), k=x4), kind="shape", path="xs[2]")
    refused("FG201", lambda: f(x4, x4, x4, k=np.float32(1.0)), kind="shape", path="kws['k']")


def test_a_configuration_context():
    f = once(lambda x: x @ x)
    f(np.ones((4, 4), np.float32))
    with jax.default_matmul_precision("float32"):
        refused(
            "FG201",
            lambda: f(np.ones((4, 4), np.float32)),
            kind="config",
            path="jax_default_matmul_precision",
        )


def test_an_axis_name_of_vmap_is_a_context():
    f = once(lambda x: x + 1.0)
    f(np.float32(1.0))
    with pytest.raises(fg.Violation) as caught:
        jax.vmap(f, axis_name="i")(x4)
    assert caught.value.cause.kind == "config"


def test_a_leaf_that_turns_static_under_the_filter():
    f = once(lambda x, k: x + k, filter=True)
    f(x4, x4)
    refused("FG201", lambda: f(x4, 1.0), kind="leaf_type", path="k")


def test_static_leaves_under_the_filter():
    import equinox as eqx

    class Layer(eqx.Module):
        weight: Any
        activation: Any
        depth: int = eqx.field(static=True)

    f = once(lambda layer, x: layer.activation(layer.weight * x), filter=True)
    f(Layer(jnp.ones(4), jnp.sin, 1), x4)
    f(Layer(jnp.ones(4), jnp.sin, 1), x4)
    refused(
        "FG201",
        lambda: f(Layer(jnp.ones(4), jnp.cos, 1), x4),
        kind="callable",
        path="layer.activation",
    )
    refused(
        "FG201",
        lambda: f(Layer(jnp.ones(4), jnp.sin, 2), x4),
        kind="meta_value",
        path="layer.depth",
    )


def test_a_method_names_its_own_arguments():
    class Prover:
        @fg.island(max_traces=1, static_argnums=0)
        def prove(self, table):
            return table + 1.0

    prover = Prover()
    prover.prove(x4)
    refused("FG201", lambda: prover.prove(x4[:2]), kind="shape", path="table")
    refused("FG201", lambda: Prover().prove(x4), kind="meta_identity", path="self")


def test_a_violation_is_raised_again_and_leaves_no_program_behind():
    f = once(lambda x: x + 1.0)
    f(x4)
    for _ in range(3):
        refused("FG201", lambda: f(x4[:3]), kind="shape")
    f(x4)
    assert fg.stats(f).compiles == 1


def test_the_nearest_earlier_signature_is_the_one_compared():
    f = fg.island(lambda x, y: (x, y), max_traces=2)
    f(np.ones(4, np.float32), np.ones(4, np.float32))
    f(np.ones(8, np.int32), np.ones(8, np.int32))
    found = refused(
        "FG201", lambda: f(np.ones(8, np.int32), np.ones(9, np.int32)), kind="shape", path="y"
    )
    assert (found.cause.before, found.cause.after) == ("i32[8]", "i32[9]")


def test_a_budget_as_a_function_of_the_largest_leading_size():
    f = fg.round_body(reductions=0, max_traces=lambda n: n.bit_length())(lambda t: t[: len(t) // 2])
    table = jnp.ones(16)
    while len(table) > 1:
        table = f(table)
    assert fg.stats(f).traces == 4
    g = fg.island(lambda t: t + 1.0, max_traces=lambda n: 2)
    g(jnp.ones(8))
    g(jnp.ones(4))
    refused("FG201", lambda: g(jnp.ones(2)), kind="shape", path="t")


def test_the_same_signature_traced_twice_is_refused_without_any_budget():
    """An equality that answers the runtime otherwise than a later look: nothing that is compared differs."""

    class Fickle:
        __hash__ = object.__hash__

        def __eq__(self, other):
            asked_by = sys._getframe(1).f_code.co_filename
            return f"{os.sep}fusegate{os.sep}" in asked_by

    f = fg.island(lambda x, k: x + 1.0, static_argnums=1)
    f(x4, Fickle())
    found = refused("FG201", lambda: f(x4, Fickle()), kind="none")
    assert "traced before" in str(found)
    assert "compared equal" in found.fix


def test_in_warn_the_program_runs_on_and_the_warning_stands_at_the_users_line():
    f = once(lambda x: x + 1.0, mode="warn")
    f(x4)
    with pytest.warns(fg.ViolationWarning) as caught:
        for size in (3, 2):
            out = f(x4[:size])  # LOOP
    assert out.shape == (2,)
    assert [w.message.code for w in caught] == ["FG201"], "told once"
    assert caught[0].filename == __file__
    assert caught[0].lineno in lines_of(__file__, "LOOP")
    (found,) = [v for v in fg.report().violations if v.code == "FG201"]
    assert found.count == 2
    assert fg.stats(f).violations == 2


def test_off_counts_nothing():
    f = once(lambda x: x + 1.0, mode="off")
    f(x4)
    f(x4[:2])
    assert fg.stats(f).traces == 0
    assert not fg.report().violations


def test_quiet_while_nothing_that_matters_changes():
    f = once(lambda x, k=None: x + 1.0)
    f(jnp.ones(4))
    f(np.ones(4, np.float32))
    f(jax.device_get(jnp.ones(4)))
    f(jnp.zeros(4))
    g = once(lambda s: s.lanes + 1.0)
    for _ in range(3):
        g(Transcript(jnp.ones(4), ByValue(8, (1, "a"))))
    assert (fg.stats(f).traces, fg.stats(g).traces) == (1, 1)
    assert not fg.report().violations


def test_quiet_for_traces_asked_for_on_their_own():
    f = once(lambda x: x + 1.0)
    f(jnp.ones(4))
    f.lower(jnp.ones(5))
    f.trace(jnp.ones(6))
    f.eval_shape(jnp.ones(7))
    jax.eval_shape(f, jnp.ones(8))
    jax.make_jaxpr(f)(jnp.ones(9))
    jax.make_jaxpr(lambda x: f(x) + 1.0)(jnp.ones(10))
    assert fg.stats(f).aside_traces == 6
    f(jnp.ones(4))
    assert not fg.report().violations


def test_quiet_after_the_caches_were_cleared():
    f = once(lambda x: x + 1.0)
    f(jnp.ones(4))
    jax.clear_caches()
    f(jnp.ones(4))
    assert fg.stats(f).causes[-1].kind == "cache_cleared"
    assert not fg.report().violations


def test_quiet_for_derived_programs_and_failed_traces():
    f = once(lambda x: x * x)
    x = jnp.float32(2.0)
    f(x)
    jax.grad(f)(x)
    jax.vmap(f)(jnp.ones(3))
    jax.jit(lambda v: f(v) + 1.0)(x)
    jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)
    assert fg.stats(f).traces == 1

    def body(x):
        if x.shape[0] == 3:
            raise KeyError("mine")
        return x

    g = once(body)
    for _ in range(2):
        with pytest.raises(KeyError):
            g(jnp.ones(3))
    g(jnp.ones(4))
    assert fg.stats(g).failed_traces == 2


def test_quiet_for_a_result_that_the_runtime_itself_refuses():
    f = once(lambda x: "no array")
    for _ in range(3):
        with pytest.raises(TypeError):
            f(jnp.ones(2))


def test_allowed_by_declaration_or_by_scope():
    f = fg.island(lambda x: x + 1.0, max_traces=1, allow=["retrace"])
    f(jnp.ones(2))
    f(jnp.ones(3))
    g = once(lambda x: x + 1.0)
    g(jnp.ones(2))
    with fg.allow("FG201", reason="a new size once a day"):
        g(jnp.ones(3))
    assert not fg.report().violations
