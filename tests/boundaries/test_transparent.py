"""A boundary is the runtime's own jit to everything that uses it."""

import copy
import functools
import gc
import inspect
import pickle
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.boundaries.proxy import spec_of

KINDS = [fg.island, fg.single_zone, functools.partial(fg.round_body, reductions=9)]
every_kind = pytest.mark.parametrize("decorate", KINDS, ids=["island", "single_zone", "round_body"])


def axpy(x, y, *, scale=2.0):
    """Scales and adds."""
    return scale * x + y


@fg.island
def module_island(x):
    return x + 1.0


class Plain:
    gain = 3.0

    @fg.island(static_argnums=0)
    def scaled(self, x):
        return self.gain * x

    @staticmethod
    @fg.island
    def inner_static(x):
        return x + 1.0

    @fg.island
    @staticmethod
    def outer_static(x):
        return x + 2.0

    @fg.island
    @classmethod
    def outer_class(cls, x):
        return cls.gain * x

    @classmethod
    @fg.island(static_argnums=0)
    def inner_class(cls, x):
        return cls.gain * x


@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    @fg.island
    def total(self, x):
        return self.a + self.b + x


def test_results_and_weak_types_are_those_of_jit():
    for args in [(jnp.ones(3), 2.0), (1, 2.0), (np.ones(3), jnp.int32(4)), (True, 1)]:
        ours, theirs = fg.island(axpy)(*args), jax.jit(axpy)(*args)
        assert ours.aval == theirs.aval
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


@every_kind
def test_the_wrapped_function_and_its_signature_are_the_users(decorate):
    f = decorate(axpy)
    assert f.__wrapped__ is axpy
    assert inspect.unwrap(f) is axpy
    assert inspect.signature(f) == inspect.signature(axpy)
    assert (f.__name__, f.__doc__, f.__module__) == ("axpy", axpy.__doc__, axpy.__module__)
    f(jnp.ones(2), 1.0)
    assert f.__wrapped__ is axpy
    assert (f.__name__, f.__qualname__, f.__doc__) == ("axpy", "axpy", axpy.__doc__)


def test_methods_bind_as_methods_of_a_jit_do():
    x = jnp.arange(3.0)
    thing = Plain()
    assert np.allclose(thing.scaled(x), 3.0 * x)
    assert np.allclose(Plain.inner_static(x), x + 1.0)
    assert np.allclose(thing.outer_static(x), x + 2.0)
    assert np.allclose(Plain.outer_class(x), 3.0 * x)
    assert np.allclose(thing.inner_class(x), 3.0 * x)
    assert np.allclose(Pair(x, x).total(x), 3.0 * x)
    assert np.allclose(Pair.total(Pair(x, x), x), 3.0 * x)


def test_equinox_modules_may_hold_boundaries():
    import equinox as eqx

    class Layer(eqx.Module):
        weight: jax.Array

        @fg.island
        def __call__(self, x):
            return self.weight * x

        @fg.island
        def twice(self, x):
            return 2.0 * self.weight * x

    layer = Layer(jnp.arange(3.0))
    assert np.allclose(layer(jnp.ones(3)), jnp.arange(3.0))
    assert np.allclose(layer.twice(jnp.ones(3)), 2 * jnp.arange(3.0))
    assert np.allclose(jax.vmap(layer.twice)(jnp.ones((2, 3))), 2 * jnp.arange(3.0))


def test_partials_and_callable_objects_are_decorated_like_functions():
    class Adder:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x + self.k

    assert float(fg.island(functools.partial(axpy, scale=3.0))(1.0, 1.0)) == 4.0
    assert float(fg.island(Adder(2.0))(1.0)) == 3.0
    assert float(fg.island(Adder(2.0).__call__)(1.0)) == 3.0
    assert np.allclose(fg.island(jnp.add)(jnp.ones(2), 1.0), 2.0)


def test_every_keyword_of_jit_passes_through():
    import jax.sharding

    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    keywords = [
        {"static_argnames": ("scale",)},
        {"donate_argnums": (0,)},
        {"donate_argnames": "x"},
        {"in_shardings": None},
        {"in_shardings": (device, device)},
        {"out_shardings": device},
        {"keep_unused": True},
        {"inline": True},
        {"compiler_options": {}},
    ]
    for given in keywords:
        ours = fg.island(axpy, **given)(jnp.ones(4), jnp.ones(4))
        theirs = jax.jit(axpy, **given)(jnp.ones(4), jnp.ones(4))
        assert np.allclose(ours, theirs), given
        assert ours.committed == theirs.committed, given


def test_a_donated_buffer_is_gone():
    f = fg.island(lambda x: x + 1.0, donate_argnums=0)
    x = jnp.arange(8.0)
    f(x)
    assert x.is_deleted()


def test_transformations_compose_in_both_orders():
    f = fg.island(lambda x: jnp.sin(x) * x)
    plain = f.__wrapped__
    x = jnp.arange(4.0)
    assert np.allclose(jax.vmap(f)(x), jax.vmap(plain)(x))
    assert np.allclose(jax.grad(lambda v: f(v).sum())(x), jax.grad(lambda v: plain(v).sum())(x))
    assert np.allclose(jax.vmap(jax.grad(f))(x), jax.vmap(jax.grad(plain))(x))
    assert np.allclose(fg.island(jax.vmap(jax.grad(plain)))(x), jax.vmap(jax.grad(plain))(x))
    assert np.allclose(jax.checkpoint(f)(x), plain(x))
    assert np.allclose(jax.jit(f)(x), plain(x))
    assert np.allclose(jax.jacfwd(f)(x), jax.jacfwd(plain)(x))
    out, _ = jax.lax.scan(lambda c, _: (f(c), None), x, None, length=3)
    assert np.allclose(out, plain(plain(plain(x))))
    assert jax.eval_shape(f, x) == jax.eval_shape(plain, x)
    assert jax.make_jaxpr(f)(x).out_avals == jax.make_jaxpr(plain)(x).out_avals
    assert np.allclose(jax.lax.cond(True, f, plain, x), plain(x))
    assert np.allclose(jax.lax.map(f, x), plain(x))


def test_aot_shares_its_programs_with_the_call():
    f = fg.island(lambda x: x * 2.0)
    x = jnp.arange(5.0)
    lowered = f.lower(jax.ShapeDtypeStruct((5,), x.dtype))
    compiled = lowered.compile()
    assert np.allclose(compiled(x), f(x))
    assert f.trace(x).jaxpr.out_avals[0].shape == (5,)
    assert f.eval_shape(x).shape == (5,)
    got = fg.stats(f)
    assert (got.traces, got.compiles) == (1, 1)


def test_symbolic_shapes_export(runtime):
    from jax import export

    f = fg.island(lambda x: x * 2.0)
    (size,) = export.symbolic_shape("n")
    exported = export.export(f)(jax.ShapeDtypeStruct((size,), jnp.float32))
    assert str(exported.out_avals[0].shape) == "(n,)"


def test_clear_cache_and_cache_size_are_the_jits():
    f = fg.island(lambda x: x * 2.0)
    f(jnp.ones(3))
    assert f._cache_size() == 1
    f.clear_cache()
    assert f._cache_size() == 0
    f(jnp.ones(3))
    assert fg.stats(f).causes[-1].kind == "cache_cleared"


def test_pickle_and_copies_keep_the_object():
    assert pickle.loads(pickle.dumps(module_island)) is module_island
    assert copy.copy(module_island) is module_island
    assert copy.deepcopy({"f": module_island})["f"] is module_island
    with pytest.raises(Exception, match="local"):
        pickle.dumps(fg.island(lambda x: x))


def test_identity_hash_survives_the_first_call():
    f = fg.island(lambda x: x)
    table = {f: "here"}
    before = hash(f)
    f(jnp.ones(1))
    assert hash(f) == before
    assert table[f] == "here"
    assert f != f.__wrapped__
    assert f == f


def test_a_boundary_may_be_a_static_argument():
    inner = fg.island(lambda x: x + 1.0)
    runs = []

    def outer(g, x):
        runs.append(1)
        return g(x)

    jitted = jax.jit(outer, static_argnums=0)
    jitted(inner, jnp.ones(2))
    jitted(inner, jnp.ones(2))
    assert len(runs) == 1


def test_attributes_set_before_the_first_call_stay():
    f = fg.island(lambda x: x)
    f.tag = "mine"
    f(jnp.ones(1))
    assert f.tag == "mine"


def test_a_decorated_lambda_is_freed_with_its_boundary():
    def build():
        f = fg.island(lambda x: x * 3.0)
        f(jnp.ones(2))
        return weakref.ref(f.__wrapped__)

    gone = build()
    gc.collect()
    assert gone() is None


def test_decorating_the_same_function_again_shares_its_programs():
    def body(x):
        return x + 1.0

    for _ in range(3):
        f = fg.island(body, max_traces=1)
        f(jnp.ones(2))
    assert fg.stats(f).traces == 1
    g = fg.island(body, max_traces=1)
    g(jnp.ones(3))
    assert fg.stats(g).traces == 1, "another declaration is another boundary"

    @functools.wraps(body)
    def other(x):
        return body(x) * 2.0

    assert float(fg.island(other, max_traces=1)(1.0)) == 4.0, "wraps() copies marks, not programs"


def test_jit_is_looked_up_when_the_boundary_is_first_called(monkeypatch):
    calls = []
    real = jax.jit

    def patched(fn, **keywords):
        calls.append(fn.__name__)
        return real(fn, **keywords)

    def late(x):
        return x * 5.0

    f = fg.island(late)
    monkeypatch.setattr(jax, "jit", patched)
    f(jnp.ones(1))
    assert calls == ["late"]


def test_eight_threads_trace_once():
    runs = []

    @fg.island
    def f(x):
        runs.append(1)
        return x * 7.0

    x = jnp.ones(3)
    barrier = threading.Barrier(8)
    out = []

    def work():
        barrier.wait()
        out.append(f(x))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(out) == 8
    assert len(runs) == fg.stats(f).traces == 1


def test_disable_jit_runs_the_body_as_it_is_written():
    seen = []

    @fg.island(max_traces=1)
    def f(x):
        seen.append(type(x))
        return x + 1.0

    with jax.disable_jit():
        f(jnp.ones(1))
        f(jnp.ones(2))
        f(jnp.ones(3))
    assert all(issubclass(kind, jax.Array) for kind in seen)
    assert fg.stats(f).traces == 0
    assert fg.stats(f).eager_runs == 3


def test_the_leak_checker_is_no_retrace():
    @fg.island(max_traces=1)
    def f(x):
        return x + 1.0

    with jax.checking_leaks():
        for _ in range(3):
            f(jnp.ones(2))


def test_spec_of_refuses_what_is_no_boundary():
    assert spec_of(module_island).name == "module_island"
    assert spec_of(Pair(1.0, 2.0).total).name == "Pair.total"
    with pytest.raises(TypeError, match="no boundary"):
        spec_of(jax.jit(axpy))
