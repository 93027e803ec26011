"""FG501: more launches than `max_launches`."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused

pytestmark = pytest.mark.usefixtures("strict")


def ordered(x):
    return jnp.sort(x) * 2


X = jnp.arange(64.0)


def test_bites_before_the_program_has_run():
    ran = []

    @fg.island(max_launches=1, allow=["FG206", "FG210"])
    def told(x):
        jax.debug.callback(lambda: ran.append(1))
        return jnp.sort(x @ x.T) * 2  # TOLD SORT

    found = refused("FG501", lambda: told(jnp.ones((7, 7))), marker="CALL")  # CALL
    jax.effects_barrier()
    assert ran == []
    assert found.evidence["launches"] > 1
    assert found.evidence["max_launches"] == 1
    (line,) = lines_of(__file__, "TOLD SORT")
    assert f"1 sort at {fg.Location(__file__, line)} (sort)" in str(found)
    assert isinstance(found, fg.PinViolation)


def test_bites_on_every_call_and_compiles_once():
    boundary = fg.island(max_launches=1)(ordered)
    first = refused("FG501", lambda: boundary(X), marker="FIRST")  # FIRST
    second = refused("FG501", lambda: boundary(X), marker="SECOND")  # SECOND
    assert first.evidence == second.evidence
    assert (fg.stats(boundary).traces, fg.stats(boundary).compiles) == (1, 1)
    assert fg.stats(boundary).slow_dispatches == 0


def test_bites_on_the_key_that_is_over_the_budget_only():
    @fg.island(max_launches=2, static_argnames="times")
    def repeated(x, times):
        for _ in range(times):
            x = jnp.sort(x) * 2
        return x

    repeated(X, times=1)
    refused("FG501", lambda: repeated(X, times=4))
    repeated(X, times=1)


def test_bites_on_a_filtering_boundary_and_names_the_trips():
    @fg.single_zone(filter=True, max_launches=1)
    def looped(x):
        return jax.lax.fori_loop(0, 50, lambda _, c: jnp.sort(c), x)

    found = refused("FG501", lambda: looped(X))
    assert found.evidence["dynamic_launches"] >= 50
    assert f"({found.evidence['dynamic_launches']} with trips)" in str(found)


def test_in_warn_it_is_told_once_and_the_program_runs():
    boundary = fg.island(max_launches=1, mode="warn")(ordered)
    with pytest.warns(fg.ViolationWarning, match="FG501") as caught:
        out = boundary(X)
    assert [one.filename for one in caught] == [__file__]
    assert out.shape == X.shape
    boundary(X)
    (told,) = fg.report().violations
    assert (told.code, told.count) == ("FG501", 1)


def test_quiet_within_the_budget():
    @fg.island(max_launches=1)
    def fold(table, r):
        half = table.shape[0] // 2
        return table[:half] + r * (table[half:] - table[:half])

    for _ in range(3):
        fold(X, jnp.float32(2))
    assert fg.report().clean


def test_quiet_where_the_declaration_allows_it_and_in_off():
    fg.island(max_launches=1, allow=["FG501"])(ordered)(X)
    fg.island(max_launches=1, mode="off")(ordered)(X)
    with fg.allow("FG501", reason="measured"):
        fg.island(max_launches=1, name="scoped")(ordered)(X)
    assert fg.report().clean


def test_quiet_on_programs_derived_from_the_boundary():
    """A vmap of a boundary is a program of its own, that nobody declared a budget for."""
    boundary = fg.island(max_launches=6, name="within")(ordered)
    jax.vmap(boundary)(jnp.ones((4, 64)))
    jax.jit(lambda x: boundary(x) @ x)(X)
    assert fg.report().clean


def test_quiet_where_nothing_can_be_seen(monkeypatch):
    from fusegate import ledger
    from fusegate.runtime import compiled

    monkeypatch.setattr(compiled, "module_of", lambda executable: None)
    fg.island(max_launches=1, name="unseen")(ordered)(X)
    assert "max_launches" in fg.report().not_observed["launches"]
    ledger.clear_not_observed("launches")
