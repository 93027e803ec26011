"""`bind` and `@stable`: equal code and values give one callable, and nobody is served a stale program."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.config import mode
from fusegate.errors import StateViolation, ViolationWarning
from fusegate.state.bind import bind, stable
from fusegate.state.keys import value_key

RUNS = []
X = jnp.arange(3.0)


def scaled(k, x):
    RUNS.append(k)
    return x * k


def carried(k, carry, _):
    RUNS.append(k)
    return carry * k, None


@pytest.fixture(autouse=True)
def no_runs():
    RUNS.clear()


USES = {
    "jit": lambda k: jax.jit(bind(scaled, k))(X),
    "scan": lambda k: jax.lax.scan(bind(carried, k), X, None, length=3)[0],
    "while": lambda k: jax.lax.while_loop(bind(below, 9.0), bind(scaled, k), X),
    "cond": lambda k: jax.lax.cond(jnp.bool_(True), bind(scaled, k), bind(scaled, k), X),
    "jit of vmap": lambda k: jax.jit(stable(jax.vmap)(bind(scaled, k)))(X),
    "jit of grad": lambda k: jax.jit(stable(jax.grad)(bind(summed, k)))(X),
    "jit of composite": lambda k: jax.jit(
        stable(jax.lax.composite)(bind(scaled, k), "test.scaled")
    )(X),
}


def jitted():
    return jax.jit(lambda x: x)


def below(limit, x):
    return (x < limit).all() & (x[1] > 0)


def summed(k, x):
    return scaled(k, x).sum()


@pytest.mark.parametrize("use", USES)
def test_fresh_bindings_trace_and_compile_nothing_anew(use):
    compiled = []

    def listen(event, _seconds, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    first = USES[use](2.0)
    traces, programs = len(RUNS), len(compiled)
    assert traces
    assert programs
    for _ in range(3):
        again = USES[use](float("2"))
    assert (len(RUNS), len(compiled)) == (traces, programs)
    assert (again == first).all()
    USES[use](3.0)
    assert len(RUNS) > traces


def test_values_are_told_apart_strictly():
    one = [bind(scaled, value) for value in (1, 1.0, True, 0.0, -0.0, np.float32(1), (1,), (True,))]
    assert len({id(item) for item in one}) == len(one)
    assert bind(scaled, float("nan")) is bind(scaled, float("nan"))
    assert bind(scaled, k=1) is not bind(scaled, 1)
    assert bind(carried, 1, carry=2) is bind(carried, 1, carry=2)


def test_closures_bind_by_their_code_and_cells():
    def made(k):
        return lambda x: x * k

    assert bind(made(2.0)) is bind(made(2.0))
    assert bind(made(2.0)) is not bind(made(2))
    assert bind(lambda x: x + 1) is not bind(lambda x: x + 2)


def test_a_bound_callable_is_a_value_itself():
    assert value_key(bind(scaled, 2.0)) == value_key(bind(scaled, 2.0))
    assert bind(bind(scaled), 2.0) is bind(bind(scaled), 2.0)


def test_it_goes_by_the_name_of_its_function():
    bound = bind(scaled, 2.0)
    assert bound.__name__ == "scaled"
    assert "scaled" in jax.jit(bound).lower(X).as_text()
    assert pickle.loads(pickle.dumps(bound))(X)[1] == 2.0


def counter():
    count = 1.0

    def scale(x):
        return x * count

    def bump():
        nonlocal count
        count += 1.0

    return scale, bump


def test_a_cell_that_changes_makes_another_callable():
    scale, bump = counter()
    before = bind(scale)
    assert jax.jit(before)(X)[1] == 1.0
    bump()
    assert jax.jit(bind(scale))(X)[1] == 2.0
    assert jax.jit(before)(X + 0)[1] == 1.0
    assert before(X)[1] == 1.0


def test_stable_freezes_nested_closures():
    box = []

    @stable
    def build(k):
        def inner(x):
            return x * k

        def outer(x):
            return inner(x) + k

        def change(new):
            nonlocal k
            k = new

        box.append(change)
        return outer

    first = build(2.0)
    box[-1](5.0)
    assert first(1.0) == 4.0
    assert build(2.0) is first
    assert build(5.0)(1.0) == 10.0


def test_recursion_and_mutual_recursion():
    @stable
    def build(k):
        def even(n):
            return True if n == 0 else odd(n - k)

        def odd(n):
            return False if n == 0 else even(n - k)

        return even

    assert build(1) is build(1)
    assert build(1) is not build(2)
    assert build(1)(4) is True
    assert build(1)(3) is False


def test_defaults_count():
    @stable
    def build():
        return [lambda x, i=i: x + i for i in range(2)][1], lambda x, *, j=3: x + j

    assert build()[0] is build()[0]
    assert build()[0](1) == 2
    assert build()[1](1) == 4


def test_a_factory_keeps_its_signature_and_binds_as_a_method():
    class Prover:
        @stable
        def step(self, k: float):
            """Builds a step."""
            return lambda x: x * k

    assert Prover().step(2.0) is Prover().step(2.0)
    assert Prover.step.__doc__ == "Builds a step."


class Opaque:
    pass


def test_optimizers_made_anew_are_one_value():
    optax = pytest.importorskip("optax")
    assert stable(optax.sgd)(0.1) == stable(optax.sgd)(0.1)
    assert stable(optax.adam)(1e-3) == stable(optax.adam)(1e-3)
    assert stable(optax.adam)(1e-3) != stable(optax.adam)(2e-3)
    runs = []

    @functools.partial(jax.jit, static_argnums=0)
    def start(optimizer, params):
        runs.append(1)
        return optimizer.init(params)

    for _ in range(3):
        start(stable(optax.adam)(1e-3), X)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("make", "code", "path"),
    [
        (lambda: bind(scaled, jnp.ones(2)), "FG403", "args[0]"),
        (lambda: bind(scaled, k=np.ones(2)), "FG403", "k"),
        (lambda: bind(scaled, [1]), "FG402", "args[0]"),
        (lambda: bind(scaled, (1, Opaque())), "FG401", "args[0][1]"),
        (lambda: stable(lambda table: lambda x: x * table)(jnp.ones(2)), "FG403", "table"),
        (lambda: stable(lambda table: lambda x: x * table[0])([1]), "FG402", "table"),
        (stable(jitted), "FG401", ""),
    ],
)
def test_what_has_no_value_is_refused_with_its_path(make, code, path, here):
    with mode("strict"), pytest.raises(StateViolation) as caught:
        make()
    assert (caught.value.code, caught.value.cause.path) == (code, path)
    assert caught.value.location.file == __file__
    if code == "FG403":
        assert "as an argument of the call" in caught.value.fix


def test_in_warn_the_refused_callable_still_works():
    with mode("warn"), pytest.warns(ViolationWarning, match="FG403"):
        bound = bind(scaled, jnp.float32(2))
    assert bound(X)[1] == 2.0
    with mode("off"):
        assert bind(scaled, jnp.float32(3))(X)[1] == 3.0


def test_an_unassigned_cell_is_refused():
    def build():
        made = bind(lambda x: x * later)
        later = 3.0
        return made, later

    with (
        mode("strict"),
        pytest.raises(StateViolation, match="reads `later`, which is not assigned yet"),
    ):
        build()


def test_misuse_is_a_type_error():
    with pytest.raises(TypeError, match="takes a callable, not int"):
        bind(3)
    with pytest.raises(TypeError, match="decorates a callable, not int"):
        stable(3)


def test_an_island_of_a_bound_function_built_per_call_traces_once():
    def scaled(k, x):
        return k * x

    for _ in range(3):
        f = fg.island(fg.bind(scaled, 2.0), max_traces=1)
        assert float(f(jnp.float32(3.0))) == 6.0
    assert fg.stats(f).traces == 1
