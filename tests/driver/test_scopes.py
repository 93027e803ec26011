"""Whose launches are whose: threads, tasks, generators, nesting, exceptions; and what is left afterwards."""

import asyncio
import contextvars
import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate
from fusegate.observe import launches
from fusegate.runtime import bufferslot, hookslot, resolve


@fusegate.island
def step(x):
    return x * 2


X = jnp.ones(4) + 1


def traces_of_observation():
    """Everything that a scope changes in the runtime, to compare."""
    kind = type(X)
    runtime = resolve.required()
    slots = hookslot._slots()
    return (
        vars(kind)["_value"],
        vars(kind)["__dlpack__"],
        vars(kind).get("__buffer__"),
        bufferslot.pointer(kind),
        slots.get_local(),
        slots.get_global(),
        getattr(runtime.private("api"), "_post_hook_state", None),
    )


def seen(name):
    return fusegate.report().drivers[name]


def test_nothing_is_left_behind():
    step(X)
    before = traces_of_observation()
    with fusegate.driver("outer", max_reads=9, max_eager=9):
        assert traces_of_observation() != before
        with fusegate.driver("inner"), fusegate.host_op("look"):
            np.asarray(X)
    assert traces_of_observation() == before
    assert memoryview(X).shape == (4,)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, fusegate.Violation])
def test_nothing_is_left_behind_by_an_exception(error):
    before = traces_of_observation()
    with pytest.raises(error), fusegate.driver("failing"):
        step(X)
        if error is fusegate.Violation:
            float(X[0])
        raise error
    assert traces_of_observation() == before
    assert seen("failing").launches >= 1


def test_the_launcher_is_restored_where_no_boundary_uses_it():
    executor = resolve.required().private("interpreters.pxla", "ExecuteReplicated")
    before = executor.__call__
    with fusegate.driver("d"):
        step(X)
    assert executor.__call__ is before


def test_an_inner_driver_counts_for_itself():
    @fusegate.driver(max_eager=2, name="inner")
    def inner(x):
        return jnp.sin(x)

    with fusegate.driver("outer"):
        x = step(X)
        x = inner(x)
        step(x)
    assert (seen("outer").launches, seen("outer").eager) == (2, 0)
    assert (seen("inner").launches, seen("inner").eager) == (1, 1)


def test_a_driver_that_is_off_is_not_the_outer_one():
    with fusegate.driver("outer"), fusegate.driver("off", mode="off"):
        jnp.sin(X)
        float(X.sum())
    assert seen("outer").launches == 0
    assert "off" not in fusegate.report().drivers


def test_threads_count_exactly():
    calls = 100_000
    step(X)

    def work(number):
        with fusegate.driver(f"thread {number}", mode="strict"):
            for _ in range(calls):
                step(X)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [seen(f"thread {n}").launches for n in range(8)] == [calls] * 8


def test_threads_that_share_a_driver_count_exactly():
    calls = 5_000
    step(X)

    @fusegate.driver(mode="strict", name="shared")
    def work():
        for _ in range(calls):
            step(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen("shared").launches == 4 * calls


def test_another_thread_is_not_in_the_driver():
    found = []
    with fusegate.driver("here"):
        thread = threading.Thread(target=lambda: found.append(float(jnp.sin(X)[0])))
        thread.start()
        thread.join()
        step(X)
    assert len(found) == 1
    assert seen("here").launches == 1


def test_a_context_that_travels_takes_the_driver_along():
    step(X)
    with fusegate.driver("here"):
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(step, X))
        thread.start()
        thread.join()
        asyncio.run(asyncio.to_thread(lambda: (step(X), None)[1]))
    assert seen("here").launches == 2


def test_interleaved_tasks_each_see_their_own():
    step(X)

    async def scoped(name, launches, entered, leave):
        with fusegate.driver(name, max_eager=9):
            entered.set()
            await leave.wait()
            for _ in range(launches):
                jnp.sin(X)

    async def main():
        a_in, b_in, a_out, b_out = (asyncio.Event() for _ in range(4))
        a = asyncio.create_task(scoped("a", 0, a_in, a_out))
        await a_in.wait()
        b = asyncio.create_task(scoped("b", 3, b_in, b_out))
        await b_in.wait()
        a_out.set()
        await a
        jnp.cos(X)
        b_out.set()
        await b

    before = traces_of_observation()
    asyncio.run(main())
    assert (seen("a").eager, seen("b").eager) == (0, 3)
    assert traces_of_observation() == before


def test_a_coroutine_function_is_observed_over_its_awaits():
    @fusegate.driver(name="async", max_eager=2)
    async def work():
        x = step(X)
        await asyncio.sleep(0)
        return jnp.sin(step(x))

    asyncio.run(work())
    assert (seen("async").launches, seen("async").eager) == (3, 1)


def test_a_generator_is_observed_only_while_it_runs():
    @fusegate.driver(name="generator", max_eager=9)
    def rounds(x):
        for _ in range(3):
            x = step(x)
            received = yield x
        return received

    before = traces_of_observation()
    results = rounds(X)
    next(results)
    jnp.sin(X)
    results.send(5)
    float(jnp.cos(X)[0])
    results.send(6)
    with pytest.raises(StopIteration) as stop:
        results.send(7)
    assert stop.value.value == 7
    assert (seen("generator").launches, seen("generator").eager) == (3, 0)
    assert traces_of_observation() == before


def test_a_with_block_in_a_generator_does_not_leak_to_the_consumer():
    def rounds(x):
        with fusegate.driver("inside"):
            for _ in range(2):
                x = step(x)
                yield x

    for x in rounds(X):
        float(jnp.sin(x)[0])
    assert (seen("inside").launches, seen("inside").eager) == (2, 0)


def test_generators_that_end_in_another_order():
    def rounds(name):
        with fusegate.driver(name, max_eager=9):
            while True:
                jnp.sin(X)
                yield

    before = traces_of_observation()
    first, second = rounds("first"), rounds("second")
    next(first), next(second), next(first)
    first.close()
    next(second), next(second)
    jnp.cos(X)
    second.close()
    assert (seen("first").eager, seen("second").eager) == (2, 3)
    assert traces_of_observation() == before


def test_a_generator_closed_on_another_thread():
    def rounds():
        with fusegate.driver("moved", max_eager=9):
            yield jnp.sin(X)

    before = traces_of_observation()
    results = rounds()
    next(results)
    thread = threading.Thread(target=results.close)
    thread.start()
    thread.join()
    with fusegate.driver("after", max_eager=9):
        jnp.sin(X)
    assert seen("after").eager == 1
    assert traces_of_observation() == before


def test_async_generators():
    @fusegate.driver(name="agen", max_eager=9)
    async def rounds(x):
        for _ in range(3):
            x = step(x)
            yield x

    async def main():
        async for x in rounds(X):
            jnp.sin(x)

    asyncio.run(main())
    assert (seen("agen").launches, seen("agen").eager) == (3, 0)


def test_debug_nans_goes_on_inside_a_driver():
    bad = jnp.zeros(3)
    divide = jax.jit(lambda a: a / a)
    divide(bad)
    before = traces_of_observation()
    with jax.debug_nans(True):
        divided = jax.jit(lambda a: a / a)
        divided(jnp.ones(3))
        with fusegate.driver("outside"):
            with pytest.raises(FloatingPointError):
                divided(bad)
            step(X)
    with fusegate.driver("inside"):
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            divided(bad)
        step(X)
        step(X)
    assert seen("inside").launches >= 2
    assert divide(bad).shape == (3,)
    assert traces_of_observation()[:4] == before[:4]


def test_a_settled_boundary_is_counted_whatever_its_arguments_are_built_of():
    @fusegate.island
    def total(tree, *, by=None):
        return sum(jax.tree_util.tree_leaves(tree)) * (1 if by is None else by)

    calls = [
        lambda: total(X),
        lambda: total({"a": X, "b": [X, X]}),
        lambda: total((X, X), by=X),
        lambda: total([]),
    ]
    for call in calls:
        call()
    with fusegate.driver("counted"):
        for call in calls * 100:
            call()
        for call in calls:
            for _ in range(100):
                call()
    assert seen("counted").launches == 800
    assert (seen("counted").uploads, seen("counted").reads) == (0, 0)


def test_what_is_counted_runs_no_code_of_the_users():
    told = []

    class Aux:
        def __eq__(self, other):
            told.append("eq")
            return isinstance(other, Aux)

        def __hash__(self):
            return 1

    class Node:
        def __init__(self, x, aux):
            self.x, self.aux = x, aux

        def __repr__(self):
            told.append("repr")
            return "Node"

    jax.tree_util.register_pytree_node(
        Node, lambda n: ((n.x,), n.aux), lambda aux, xs: Node(xs[0], aux)
    )

    @fusegate.island
    def total(tree):
        return sum(jax.tree_util.tree_leaves(tree))

    first, second = Node(X, Aux()), {"a": Node(X, Aux())}

    def calls():
        told.clear()
        for _ in range(200):
            total(first)
            total(second)
        return len(told)

    calls()
    outside = calls()
    with fusegate.driver("watched"):
        calls()
        inside = calls()
    assert inside == outside
    assert (seen("watched").launches, seen("watched").reads) == (800, 0)


def test_a_settled_boundary_is_not_kept_alive():
    def made():
        @fusegate.island(static_argnums=1)
        def scaled(x, power):
            return x**power

        return scaled

    boundary = made()
    with fusegate.driver("short"):
        for _ in range(200):
            boundary(X, 2)
        known = [*launches.current().settled]
    assert len(known) == 1
    left = weakref.ref(known[0])
    del known, boundary
    fusegate.reset()
    jax.clear_caches()
    gc.collect()
    assert left() is None
