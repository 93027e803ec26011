import logging

import pytest

from fusegate.observe import progress


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch):
    monkeypatch.setattr(progress._listeners, "active", ())


def test_every_listener_hears_every_phase_until_it_leaves():
    heard = []
    leave = progress.on_phase(lambda *notice: heard.append(("one", *notice)))
    progress.on_phase(lambda *notice: heard.append(("two", *notice)))
    progress.notify("compile", "fold", True)
    leave()
    leave()
    progress.notify("compile", "fold", False)
    assert heard == [
        ("one", "compile", "fold", True),
        ("two", "compile", "fold", True),
        ("two", "compile", "fold", False),
    ]


def test_a_listener_that_fails_is_dropped_and_told_once(caplog):
    heard = []

    def broken(*notice):
        raise RuntimeError("broken")

    progress.on_phase(broken)
    progress.on_phase(lambda *notice: heard.append(notice))
    with caplog.at_level(logging.ERROR, logger="fusegate"):
        progress.notify("trace", "fold", True)
        progress.notify("trace", "fold", False)
    assert len(heard) == 2
    assert [record.exc_info[0] for record in caplog.records] == [RuntimeError]


def test_a_boundary_tells_of_its_trace_and_its_compile():
    import jax.numpy as jnp

    import fusegate

    heard = []
    progress.on_phase(lambda *notice: heard.append(notice))

    @fusegate.island(name="fold")
    def fold(x):
        return x * 2

    fold(jnp.ones(3))
    fold(jnp.ones(3))
    assert heard == [
        ("trace", "fold", True),
        ("trace", "fold", False),
        ("lower", "fold", True),
        ("lower", "fold", False),
        ("compile", "fold", True),
        ("compile", "fold", False),
    ]
