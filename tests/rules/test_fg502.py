"""FG502: more temporary bytes than `max_temp_bytes`."""

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from tests.rules._support import refused

pytestmark = pytest.mark.usefixtures("strict")


def table_of(x):
    return jnp.sort(jnp.outer(x, x)).sum(axis=0)


X = jnp.arange(128.0)


def test_bites_before_the_program_has_run():
    boundary = fg.island(max_temp_bytes=1024)(table_of)
    found = refused("FG502", lambda: boundary(X), marker="CALL")  # CALL
    assert found.evidence["temp_bytes"] >= 128 * 128 * 4
    assert found.evidence["max_temp_bytes"] == 1024
    assert "lax.map" in found.fix
    refused("FG502", lambda: boundary(X), marker="AGAIN")  # AGAIN
    assert fg.stats(boundary).compiles == 1


def test_bites_on_a_budget_of_zero():
    refused("FG502", lambda: fg.island(max_temp_bytes=0)(table_of)(X))


def test_in_warn_the_program_runs():
    boundary = fg.island(max_temp_bytes=1024, mode="warn")(table_of)
    with pytest.warns(fg.ViolationWarning, match="FG502"):
        assert boundary(X).shape == (128,)


def test_quiet_where_the_work_is_in_chunks():
    """The fix that the message names keeps one row at a time."""

    def chunked(x):
        return jax.lax.map(lambda one: jnp.sort(one * x).sum(), x)

    needed = 128 * 128 * 4
    fg.island(max_temp_bytes=needed // 8)(chunked)(X)
    assert fg.report().clean


def test_quiet_on_a_fused_body_without_temporaries():
    fg.round_body(max_temp_bytes=0)(lambda low, high: low * high + low)(X, X)
    fg.island(max_temp_bytes=10**9)(table_of)(X)
    assert fg.report().clean


def test_quiet_where_nothing_can_be_seen(monkeypatch):
    from fusegate import ledger
    from fusegate.runtime import compiled

    monkeypatch.setattr(compiled, "memory_of", lambda executable: None)
    fg.island(max_temp_bytes=1, name="unseen")(table_of)(X)
    assert "max_temp_bytes" in fg.report().not_observed["temp bytes"]
    ledger.clear_not_observed("temp bytes")
