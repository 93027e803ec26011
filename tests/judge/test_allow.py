"""Scoped opt-outs: counted under their reason, seen by their own task only, reported when unused."""

import asyncio
import threading

import jax.numpy as jnp
import pytest

import fusegate as fg


def budget_of_one():
    f = fg.island(lambda x: x + 1.0, max_traces=1)
    f(jnp.ones(2))
    return f


def test_what_is_allowed_is_counted_under_its_reason():
    f = budget_of_one()
    with fg.allow("FG201", "FG202", reason="sizes of the day"):
        f(jnp.ones(3))
        f(jnp.ones(4))
    got = fg.report()
    assert not got.violations
    (row,) = got.allowed
    assert (row.code, row.reason, row.count) == ("FG201", "sizes of the day", 2)


def test_an_opt_out_that_nothing_used_is_reported_with_its_line():
    with fg.allow("retrace", reason="left over"):  # HERE
        budget_of_one()
    (row,) = fg.report().unused_allows
    assert (row.code, row.reason) == ("FG201", "left over")
    with open(__file__, encoding="utf-8") as text:
        lines = [n for n, line in enumerate(text, 1) if line.endswith("# HERE\n")]
    assert [row.location.line] == lines


def test_it_ends_with_its_block_and_with_an_exception():
    f = budget_of_one()
    with pytest.raises(KeyError), fg.allow("FG201", reason="x"):
        raise KeyError
    with pytest.raises(fg.Violation):
        f(jnp.ones(3))


def test_other_codes_threads_and_tasks_are_not_covered():
    f = budget_of_one()
    with fg.allow("FG202", reason="x"), pytest.raises(fg.Violation):
        f(jnp.ones(3))
    caught = []

    def other():
        try:
            f(jnp.ones(4))
        except fg.Violation as violation:
            caught.append(violation.code)

    with fg.allow("FG201", reason="x"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert caught == ["FG201"]

    async def allowed():
        with fg.allow("FG201", reason="x"):
            await asyncio.sleep(0.01)
            f(jnp.ones(5))

    async def strict():
        await asyncio.sleep(0.005)
        with pytest.raises(fg.Violation):
            f(jnp.ones(6))

    async def both():
        await asyncio.gather(allowed(), strict())

    asyncio.run(both())


@pytest.mark.parametrize(
    ("codes", "reason", "match"),
    [((), "x", "at least one"), (("FG999",), "x", "unknown rule"), (("FG201",), " ", "reason")],
)
def test_misuse(codes, reason, match):
    with pytest.raises(ValueError, match=match), fg.allow(*codes, reason=reason):
        pass
