"""How a driver is declared: forms, keywords, misuse; sampling in warn; faults of the observers."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate
from fusegate import config, ledger
from fusegate.boundaries import scope
from fusegate.observe import health

X = jnp.ones(4) + 1
SCALAR = X.sum()


@fusegate.island
def step(x):
    return x * 2


def seen(name):
    return fusegate.report().drivers[name]


def test_bare_and_with_keywords():
    @fusegate.driver
    def bare(x, *, times=1):
        """Doc."""
        return step(x)

    @fusegate.driver(max_eager=1, name="named")
    def named(x):
        return jnp.sin(step(x))

    @fusegate.driver("positional")
    def positional(x):
        return step(x)

    assert bare(X).shape == named(X).shape == positional(X).shape == (4,)
    assert bare.__doc__ == "Doc."
    assert str(inspect.signature(bare)) == "(x, *, times=1)"
    assert list(fusegate.report().drivers) == [
        "test_bare_and_with_keywords.bare",
        "named",
        "positional",
    ]


def test_methods():
    class Prover:
        @fusegate.driver
        def prove(self, x):
            return step(x)

        @fusegate.driver
        @staticmethod
        def static(x):
            return step(x)

        @classmethod
        @fusegate.driver
        def of_class(cls, x):
            return step(x)

    Prover().prove(X), Prover.static(X), Prover().static(X), Prover.of_class(X)
    figures = {
        name.rpartition(".")[2]: one.launches for name, one in fusegate.report().drivers.items()
    }
    assert figures == {"prove": 1, "static": 2, "of_class": 1}


def test_a_with_block_without_a_name_takes_the_functions():
    with fusegate.driver():
        step(X)
    (name,) = fusegate.report().drivers
    assert name == "test_a_with_block_without_a_name_takes_the_functions"


def test_results_and_exceptions_pass_through():
    @fusegate.driver
    def run(x):
        if x is None:
            raise LookupError("mine")
        return step(x)

    assert np.array_equal(run(X), [4, 4, 4, 4])
    with pytest.raises(LookupError, match="mine"):
        run(None)


@pytest.mark.parametrize("keyword", ["max_eager", "max_reads"])
@pytest.mark.parametrize("mode", ["strict", "warn", "off"])
def test_budgets_are_checked_at_once(keyword, mode):
    with fusegate.mode(mode):
        with pytest.raises(ValueError, match=f"{keyword}=-1: it must be at least 0"):
            fusegate.driver(**{keyword: -1})
        for wrong in (1.0, True, "3", None):
            with pytest.raises(TypeError, match=f"{keyword} is an integer, not"):
                fusegate.driver(**{keyword: wrong})


def test_misuse():
    with pytest.raises(TypeError, match="decorates a callable, not int"):
        fusegate.driver(max_eager=1)(3)
    with pytest.raises(TypeError, match="not int"):
        fusegate.driver(3)
    with pytest.raises(TypeError, match="one name"):
        fusegate.driver("a", name="b")
    with pytest.raises(TypeError, match="the name of a driver"):
        fusegate.driver(name=3)
    with pytest.raises(TypeError, match="collection of codes"):
        fusegate.driver(allow="FG301")
    with pytest.raises(ValueError, match="unknown rule"):
        fusegate.driver(allow=["FG999"])
    with pytest.raises(ValueError, match="unknown mode"):
        fusegate.driver(mode="loud")
    with pytest.raises(TypeError, match="max_launch"):
        fusegate.driver(max_launch=3)
    with pytest.raises(ValueError, match="needs a reason"), fusegate.host_op(" "):
        pass
    with pytest.raises(TypeError, match="is a string, not int"), fusegate.host_op(3):
        pass


def test_warn_observes_the_first_calls_and_then_one_in_many():
    limits = config.thresholds()
    calls = limits.driver_observed_calls + 2 * limits.driver_sample_every

    @fusegate.driver(mode="warn", name="sampled")
    def run(x):
        return step(x)

    for _ in range(calls):
        run(X)
    found = seen("sampled")
    expected = limits.driver_observed_calls + 2
    assert (found.calls, found.observed, found.launches) == (calls, expected, expected)
    assert f"{expected} of {calls} calls" in fusegate.report().not_observed["driver sampled"]
    assert "not observed" in fusegate.report().to_text()


def test_what_is_sampled_out_is_not_told_to_the_outer_driver():
    @fusegate.driver(mode="warn", name="sampled", max_eager=1)
    def run(x):
        return jnp.sin(x)

    with fusegate.driver("outer"):
        for _ in range(20):
            run(X)
    assert seen("outer").launches == 0


def test_strict_observes_every_call():
    @fusegate.driver(name="every")
    def run(x):
        return step(x)

    for _ in range(100):
        run(X)
    assert (seen("every").calls, seen("every").observed, seen("every").launches) == (100, 100, 100)


def test_off_leaves_no_trace_at_all():
    @fusegate.driver(mode="off")
    def run(x):
        return float(jnp.sin(x)[0])

    run(X)
    assert not fusegate.report().drivers


def test_figures_are_there_while_the_driver_runs():
    with fusegate.driver("live", max_eager=9):
        step(X), jnp.sin(X)
        assert (seen("live").launches, seen("live").eager) == (2, 1)
        step(X)
    assert seen("live").launches == 3


@pytest.mark.parametrize("limit", [50, 120])  # before the boundary is settled, and after
def test_a_long_call_in_warn_is_not_looked_at_for_ever(monkeypatch, limit):
    monkeypatch.setattr(scope, "WARN_LIMIT", limit)
    try:
        with fusegate.driver("long", mode="warn"):
            for _ in range(180):
                step(X)
            jnp.sin(X)
        assert seen("long").launches == limit
        assert "launches of driver long" in fusegate.report().not_observed
    finally:
        ledger.clear_not_observed("launches of driver long")
    with fusegate.driver("strict", mode="strict"):
        for _ in range(180):
            step(X)
    assert seen("strict").launches == 180


def test_the_ledger_stays_bounded():
    with fusegate.driver("many", mode="warn", max_reads=1 << 30, max_eager=1 << 30):
        for number in range(600):
            with fusegate.host_op(f"reason {number}"):
                step(X)
    assert len(seen("many").host_ops) <= ledger.MAX_CAUSES
    assert seen("many").launches == 600


@pytest.mark.parametrize(
    ("observer", "target"), [(scope.LAUNCHES, "note_op"), (scope.READS, "read")]
)
def test_a_fault_in_warn_never_reaches_the_program(monkeypatch, observer, target):
    def broken(*args, **kwargs):
        raise RuntimeError("inside fusegate")

    monkeypatch.setattr(scope.DriverScope, target, broken)
    try:
        with fusegate.driver("faulty", mode="warn", max_eager=99, max_reads=99):
            assert float(jnp.sin(X)[0]) == pytest.approx(0.9092974)
        assert "RuntimeError" in fusegate.report().not_observed[observer]
    finally:
        health.switch_on(observer)
    with (
        pytest.raises(fusegate.ObserverFault),
        fusegate.driver("faulty", mode="strict", max_eager=9, max_reads=9),
    ):
        float(jnp.sin(X)[0])


def test_a_runtime_without_the_names_is_told_as_not_observed(monkeypatch):
    from fusegate.runtime import hookslot, transfer

    monkeypatch.setattr(hookslot, "install", lambda hook: False)
    monkeypatch.setattr(hookslot, "remove", lambda thread: None)
    monkeypatch.setattr(transfer, "install", lambda hook: False)
    try:
        with fusegate.driver("blind"):
            step(X)
            float(SCALAR)
        missing = fusegate.report().not_observed
        assert "fast path" in missing[scope.LAUNCHES]
        assert "_value" in missing[scope.READS]
    finally:
        ledger.clear_not_observed(scope.LAUNCHES)
        ledger.clear_not_observed(scope.READS)


def test_no_values_in_messages():
    secret = jnp.full(3, 1234567.0)
    with warnings.catch_warnings(), fusegate.driver("d", mode="warn"):
        warnings.simplefilter("ignore")
        float(secret[0])
        step(np.full(3, 7654321.0, np.float32))
        step(7654321.0)
    text = fusegate.report().to_text()
    assert "1234567" not in text
    assert "7654321" not in text


def test_transformations_of_a_driver():
    @fusegate.driver
    def run(x):
        return step(x)

    assert jax.jit(run)(X).shape == (4,)
    assert jax.vmap(run)(X).shape == (4,)
    assert jax.grad(lambda x: run(x).sum())(X).shape == (4,)
