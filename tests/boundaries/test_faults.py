"""A fault of fusegate's own never reaches the program in warn and off; in strict it is never silent."""

import logging
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate import ledger
from fusegate.boundaries import body, calls, watch
from fusegate.judge import causes, traces
from fusegate.observe import health, signature
from fusegate.runtime import arrays, context, frames, jit, trees


class Broken(Exception):
    pass


def broken(*_, **__):
    raise Broken("injected")


POINTS = {
    "capture": (calls, "capture", body.OBSERVER),
    "signature": (signature, "capture", body.OBSERVER),
    "tree walk": (trees, "node_of", body.OBSERVER),
    "runtime call": (frames, "runtime_call", body.OBSERVER),
    "user location": (frames, "user_location", body.OBSERVER),
    "aside": (calls, "is_aside", body.OBSERVER),
    "epoch": (calls, "cache_epoch", body.OBSERVER),
    "config": (context, "config_values", body.OBSERVER),
    "nearest": (causes, "nearest", body.OBSERVER),
    "check trace": (traces, "check_trace", body.OBSERVER),
    "check compile": (traces, "check_compile", watch.COMPILES),
    "recompiled": (causes, "recompiled", watch.COMPILES),
    "placement": (arrays, "placement", body.OBSERVER),
    "count": (ledger.Ledger, "count", body.OBSERVER),
    "add trace": (ledger.Ledger, "add_trace", body.OBSERVER),
    "passed key": (watch, "_passed_key", watch.DISPATCHES),
    "under jit": (jit, "under_jit", body.OBSERVER),
}


@pytest.fixture(autouse=True)
def observers_back_on():
    yield
    for observer in (body.OBSERVER, watch.COMPILES, watch.DISPATCHES):
        health.switch_on(observer)


def exercise(f):
    x = jnp.arange(4.0)
    out = [f(x), f(x), f(x[:2]), f(jax.device_put(x, jax.devices()[0])), jax.vmap(f)(x[None])]
    return [np.asarray(item) for item in out]


def slow(f):
    spec = jax.ShapeDtypeStruct((4,), jnp.float32)
    for _ in range(3):
        out = f([jnp.ones(4), spec])
    return out


@pytest.mark.filterwarnings("ignore::fusegate.ViolationWarning")
@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("mode", ["warn", "off"])
def test_the_result_comes_back_whatever_breaks(name, mode, monkeypatch, caplog):
    owner, attribute, observer = POINTS[name]
    want = exercise(jax.jit(lambda x: x * 2.0))
    monkeypatch.setattr(owner, attribute, broken)
    with fg.mode(mode), caplog.at_level(logging.WARNING, "fusegate"):
        got = exercise(fg.island(lambda x: x * 2.0, max_traces=1))
        assert np.allclose(slow(fg.island(lambda batch: batch[0] * 2.0)), 2.0)
    for ours, theirs in zip(got, want, strict=True):
        assert np.array_equal(ours, theirs)
    if mode == "off":
        assert not caplog.records
    else:
        told = [record for record in caplog.records if observer in record.getMessage()]
        assert len(told) == 1, "logged once"
        assert "Broken" in fg.report().not_observed[observer]


@pytest.mark.parametrize("name", ["capture", "check trace", "check compile"])
def test_in_strict_a_check_that_cannot_run_is_an_error(name, monkeypatch):
    owner, attribute, observer = POINTS[name]
    monkeypatch.setattr(owner, attribute, broken)
    with pytest.raises(fg.ObserverFault, match=observer) as caught:
        fg.island(lambda x: x * 2.0)(jnp.ones(2))
    assert isinstance(caught.value.__cause__, Broken)


def test_a_runtime_without_the_private_names_degrades_to_not_observed(runtime):
    """Every name behind the door may go away: then nothing raises for it, also in strict."""
    code = f"""
        import {runtime} as J
        import fusegate as fg
        from fusegate.runtime import resolve
        resolve.Runtime.private = lambda *_: None
        fg.set_mode("strict")
        f = fg.island(lambda x: x * 2.0, max_traces=1)
        f(J.numpy.ones(2)), f(J.numpy.ones(2))
        print(fg.stats(f).traces, fg.stats(f).compiles, sorted(fg.report().not_observed))
        try:
            f(J.numpy.ones(3))
        except fg.Violation as violation:
            print(violation.code, violation.cause.kind)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("1 1 [")
    assert "slow dispatches" in first
    assert second == "FG201 shape"


@pytest.mark.filterwarnings("error::fusegate.ViolationWarning")
def test_a_warning_filter_of_the_users_still_decides():
    f = fg.island(lambda x: x * 2.0, max_traces=1, mode="warn")
    f(jnp.ones(2))
    with pytest.raises(fg.ViolationWarning):
        f(jnp.ones(3))


def test_off_leaves_the_runtime_as_it_was_found(runtime):
    code = f"""
        import {runtime} as J
        import fusegate as fg
        from {runtime}._src.interpreters import pxla
        from {runtime}._src import monitoring
        before = pxla.ExecuteReplicated.__call__, len(monitoring.get_event_duration_listeners())
        fg.set_mode("off")
        f = fg.island(lambda x: x * 2.0, max_traces=1)
        f(J.numpy.ones(2)), f(J.numpy.ones(3))
        after = pxla.ExecuteReplicated.__call__, len(monitoring.get_event_duration_listeners())
        print(before == after, fg.stats(f).traces)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "0"], done.stderr
