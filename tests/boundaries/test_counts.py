"""What is counted, and that counting stays bounded."""

import gc
import subprocess
import sys
import textwrap
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate import ledger
from fusegate.errors import Finding, Location


def test_traces_compiles_and_seconds():
    f = fg.island(lambda x: x * 2.0)
    for size in (2, 3, 3):
        f(jnp.ones(size))
    got = fg.stats(f)
    assert (got.traces, got.compiles, got.cache_hits) == (2, 2, 0)
    assert got.trace_s > 0
    assert got.lower_s > 0
    assert got.compile_s > 0
    assert [str(key) for key in got.keys] == ["x: f32[2]", "x: f32[3]"]
    assert [(cause.kind, cause.path) for cause in got.causes] == [("shape", "x")]


def test_a_failed_compile_is_not_counted():
    f = fg.island(lambda x: x, compiler_options={"no_such_option": "1"})
    with pytest.raises(Exception, match="no_such_option"):
        f(jnp.ones(2))
    assert (fg.stats(f).traces, fg.stats(f).compiles) == (1, 0)


def test_a_hit_of_the_persistent_cache_is_no_compile(runtime, tmp_path):
    code = f"""
        import {runtime} as J
        import fusegate as fg
        J.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        J.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        J.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        f = fg.island(lambda x: x * 2.0 + J.numpy.sin(x))
        f(J.numpy.ones(64))
        print(fg.stats(f).compiles, fg.stats(f).cache_hits)
    """
    out = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert out == [["1", "0"], ["0", "1"]]


def test_two_boundaries_of_one_name_are_counted_apart():
    def build(k):
        return fg.island(lambda x: x * k, name="same")

    a, b = build(2.0), build(3.0)
    a(jnp.ones(2))
    b(jnp.ones(2))
    b(jnp.ones(3))
    assert (fg.stats(a).traces, fg.stats(b).traces) == (1, 2)
    assert fg.report().boundaries["same"].traces == 3


def test_derived_programs_are_counted_apart():
    @fg.island
    def derived_only(x):
        return (x * x).sum()

    jax.vmap(derived_only)(jnp.ones((2, 3)))
    jax.grad(derived_only)(jnp.ones(3))
    got = fg.stats(derived_only)
    assert got.traces == 1
    assert got.compiles == 0
    assert got.derived_compiles >= 1


def test_reset_begins_at_nothing_and_keeps_programs_warm():
    f = fg.island(lambda x: x * 2.0, max_traces=1)
    f(jnp.ones(2))
    fg.reset()
    assert fg.stats(f).traces == 0
    f(jnp.ones(2))
    assert (fg.stats(f).traces, fg.stats(f).compiles) == (0, 0)
    f(jnp.ones(3))
    assert fg.stats(f).traces == 1


def finding(line):
    return Finding("FG201", "f", Location("x.py", line), "seen")


def test_the_ledger_stays_flat_over_many_violations():
    book = ledger.Ledger()
    spec = fg.island(lambda x: x)._self_spec
    tracemalloc.start()
    for number in range(3000):
        book.add_finding(finding(number), spec)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100_000):
        book.add_finding(finding(number), spec)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 50_000
    shot = book.snapshot()
    assert len(shot.findings) == ledger.MAX_FINDINGS
    assert sum(f.count for f in shot.findings) + shot.dropped == 103_000
    assert book.counters_of(spec).violations == 103_000


def test_keys_and_causes_stay_bounded(monkeypatch):
    monkeypatch.setattr(ledger, "MAX_KEYS", 5)
    monkeypatch.setattr(ledger, "MAX_CAUSES", 3)
    f = fg.island(lambda x: x * 2.0)
    for size in range(1, 12):
        f.lower(np.ones(size, np.float32))
    got = fg.stats(f)
    assert got.traces == 11
    assert len(got.keys) == 5
    assert len(got.causes) == 3


def test_no_array_is_kept_alive():
    import weakref

    f = fg.island(lambda state: state["x"] * 2.0)
    x = jnp.arange(5.0)
    gone = weakref.ref(x)
    f({"x": x})
    del x
    gc.collect()
    assert gone() is None
