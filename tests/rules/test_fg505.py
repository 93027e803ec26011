"""FG505: slower than pinned, as a ratio to the reference kernel. Real calls are timed; no second is compared."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.evidence import pinfile
from fusegate.evidence.gather import Subject
from fusegate.evidence.pace import UnmeasurableError, pace_of
from fusegate.evidence.pins import PinSession
from fusegate.judge.pace import FACTOR, Pace, check_pace, settled, verdict
from tests.conftest import frx_only
from tests.rules._support import lines_of

pytest.importorskip("tomlkit")

ROUNDS = 40


pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fusegate-pins.toml"


@pytest.fixture
def pin(path):
    def pin(fn, *args, runtime=True):
        update = PinSession(path, "update")
        update(fn, *args, name="prove", runtime=runtime)
        update.write()
        (row,) = pinfile.read(path)["prove"].values()
        return row.get("runtime")

    return pin


@pytest.fixture
def session(path):
    return PinSession(path, "check")


@pytest.fixture
def setting(path):
    """Writes another run time into the pin file."""

    def set_runtime(value):
        lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("runtime = ")]
        at = next(i for i, line in enumerate(kept) if line.startswith("equations"))
        kept.insert(at + 1, f"runtime = {value}")
        path.write_text("\n".join(kept) + "\n")

    return set_runtime


def prover(work):
    """A step whose loop does `work` times as much, with the same launches and the same equations."""

    def prove(state, weights):
        def step(_, carry):
            return jnp.sin(carry) * weights + carry[::-1]

        return jax.lax.fori_loop(0, ROUNDS * work, step, state).sum()

    return prove


def arguments():
    return jnp.ones(4096), jnp.ones(4096)


def test_bites_on_twenty_times_the_work(pin, session, caplog):
    pinned = pin(prover(1), *arguments())
    with caplog.at_level(logging.INFO, logger="fusegate"):
        session(prover(20), *arguments(), name="prove")  # CALL
    (found,) = fg.report().violations
    assert (found.code, found.is_error) == ("FG505", False)
    assert found.location.file == __file__
    assert found.location.line in lines_of(__file__, "CALL")
    assert found.evidence["pinned"] == pinned
    assert found.evidence["found"] > 5 * pinned
    assert f"pinned at {pinned:g}" in found.seen
    assert "FG505 runtime-pin" in caplog.text
    (text,) = session.advice
    assert text == str(found)
    assert not session.skipped


@frx_only
def test_bites_on_twenty_times_the_work_in_a_field(pin, session):
    from zk_dtypes import koalabear_mont

    def folding(work):
        def prove(table):
            return jax.lax.fori_loop(0, ROUNDS * work, lambda _, t: t * t + t, table)

        return fg.single_zone(prove, donate_argnums=(0,))

    table = jnp.arange(1 << 12).astype(koalabear_mont)
    pin(folding(1), table)
    session(folding(20), table, name="prove")
    assert [one.code for one in fg.report().violations] == ["FG505"]
    assert not table.is_deleted()


def test_quiet_on_the_same_work(pin, session):
    pin(prover(1), *arguments())
    for _ in range(3):
        session(prover(1), *arguments(), name="prove")
    assert not fg.report().violations


def test_quiet_on_less_work(pin, session):
    pin(prover(20), *arguments())
    session(prover(1), *arguments(), name="prove")
    assert not fg.report().violations
    assert not session.skipped


def test_quiet_where_it_is_allowed(pin, session):
    pin(prover(1), *arguments())
    with fg.allow("FG505", reason="a longer proof is meant"):
        session(prover(20), *arguments(), name="prove")
    assert not session.advice
    assert not fg.report().violations


def test_quiet_where_it_is_not_pinned_and_not_asked_for(pin, session):
    ran = []

    def counted(x):
        jax.debug.callback(lambda: ran.append(1))
        return x + 1

    assert pin(counted, jnp.ones(4), runtime=None) is None
    session(counted, jnp.ones(4), name="prove")
    session(counted, jnp.ones(4), name="prove", runtime=False)
    jax.effects_barrier()
    assert not ran
    assert not session.skipped


def test_asked_for_and_not_pinned_is_told(pin, session):
    pin(prover(1), *arguments(), runtime=None)
    session(prover(1), *arguments(), name="prove", runtime=True)
    (why,) = session.skipped.values()
    assert why.startswith("not observed: no runtime is pinned; a warm call takes ")
    assert not fg.report().violations


def test_update_keeps_the_figure_within_the_tolerance_and_changes_it_beyond(pin, path, setting):
    assert pin(prover(1), *arguments()) > 0
    measured = pin(prover(1), *arguments())
    before = path.read_text()
    assert pin(prover(1), *arguments(), runtime=None) == measured
    assert path.read_text() == before
    setting(measured * 100)
    assert pin(prover(1), *arguments(), runtime=None) < measured * 10
    assert pin(prover(1), *arguments(), runtime=False) is None


def test_what_cannot_run_is_not_observed_and_keeps_its_pin(pin, session):
    struct = jax.ShapeDtypeStruct((4096,), "float32")
    pinned = pin(prover(1), *arguments())
    assert pin(prover(1), struct, struct, runtime=None) == pinned
    session(prover(20), struct, struct, name="prove")
    assert session.skipped == {
        "runtime of prove": "not observed: an argument is a ShapeDtypeStruct, so nothing runs"
    }
    assert not fg.report().violations


def test_a_call_that_raises_is_not_observed(pin, session):
    def refuse(_):
        raise ValueError("secret")

    def broken(x):
        return jax.pure_callback(refuse, jax.ShapeDtypeStruct((), "float32"), x.sum())

    assert pin(broken, jnp.ones(4)) is None
    session(broken, jnp.ones(4), name="prove", runtime=True)
    (why,) = session.skipped.values()
    assert why.startswith("not observed: the call raised ")
    assert "secret" not in why


def pace(f, *args, **kwargs):
    return pace_of(Subject.of(f, args, kwargs))


@pytest.mark.parametrize("named", [False, True])
def test_donated_arguments_stay_alive_and_cost_no_trace(named):
    boundary = fg.island(lambda state, step: state + step, donate_argnames=("state",), max_traces=1)
    state, step = jnp.ones(64), jnp.ones(64)
    passed = ((state,), {"step": step}) if named else ((state, step), {})
    assert pace(boundary, *passed[0], **passed[1]).ratio > 0
    assert not state.is_deleted()
    assert np.allclose(boundary(*passed[0], **passed[1]), 2)
    assert state.is_deleted()
    assert fg.stats(boundary).traces == 1
    with pytest.raises(UnmeasurableError, match="donated to an earlier call"):
        pace(boundary, state, step)


def test_methods_statics_partials_and_trees_are_called_as_they_are():
    class Prover:
        @fg.island(static_argnames=("self", "how"), max_traces=1)
        def prove(self, state, *, how):
            return {"state": state["low"] * 2, "how": jnp.float32(len(how))}

    held = Prover()
    assert pace(held.prove, {"low": jnp.ones(8), "high": np.ones(8)}, how="all").ratio > 0
    assert fg.stats(Prover.prove).traces == 1
    weak = fg.island(lambda x, n: x * n, filter=True, donate_argnums=(0,), max_traces=1)
    assert pace(weak, jnp.asarray(2.0), 3).ratio > 0
    assert fg.stats(weak).traces == 1


def test_an_instrumented_call_is_made_some_dozens_of_times():
    ran = []

    def counted(x):
        jax.debug.callback(lambda: ran.append(1))
        return x + 1

    found = pace(counted, jnp.ones(4))
    jax.effects_barrier()
    assert found.rounds >= 5
    assert len(ran) > found.rounds


def test_the_verdict_takes_the_spread_into_account():
    steady, wide = Pace(3.0, 2.9, 3.1, 21), Pace(3.0, 1.0, 9.0, 21)
    assert [verdict(pinned, steady) for pinned in (3.0, 1.5, 1.4)] == ["kept", "kept", "slower"]
    assert [verdict(pinned, wide) for pinned in (3.0, 1.5, 1.4)] == ["kept", "kept", "unsteady"]
    assert verdict(0.4, wide) == "slower"
    spec = Subject.of(lambda x: x, (jnp.ones(1),), {}).evidence()
    assert check_pace(spec, 1.4, wide, None) is None
    assert "2.1 times as long, where 2 is let pass" in check_pace(spec, 1.4, steady, None).seen


def test_an_unsteady_machine_is_told(session):
    subject = Subject.of(prover(1), arguments(), {})
    wide = Pace(3.0, 1.0, 9.0, 21)
    session._judge_runtime(subject, subject.evidence(), "prove", 1.4, wide, None)
    (why,) = session.skipped.values()
    assert why.startswith("not observed: the machine is too unsteady: 3 times the reference kernel")
    assert not fg.report().violations


def test_a_written_figure_has_two_digits():
    assert settled(None, 0.012345) == 0.012
    assert settled(0.012, 0.012 * FACTOR * 0.99) == 0.012
    assert settled(0.012, 0.012 * FACTOR * 1.1) == 0.026
    assert settled(0.012, 0.0059) == 0.0059
