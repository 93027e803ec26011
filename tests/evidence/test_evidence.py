"""`evidence`: from the executable that the call has, with arrays or without, on every kind of callable."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.evidence.gather import evidence

TABLE = jax.ShapeDtypeStruct((64,), "float32")


pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
def fold():
    @fg.island
    def fold(table, r):
        half = table.shape[0] // 2
        return table[:half] + r * (table[half:] - table[:half])

    return fold


def figures(boundary):
    counted = fg.stats(boundary)
    return counted.traces, counted.compiles


def test_after_a_call_evidence_compiles_nothing(fold):
    table, r = jnp.arange(64.0), jnp.float32(2)
    fold(table, r)
    found = evidence(fold, table, r)
    assert figures(fold) == (1, 1)
    assert found.launches == 1
    assert found.equations > 0
    # The boundary's own compile, though it was not done here.
    assert found.compile_s == fg.stats(fold).compile_s
    assert not found.not_observed


def test_before_a_call_evidence_compiles_what_the_call_then_uses(fold):
    found = evidence(fold, TABLE, jax.ShapeDtypeStruct((), "float32"))
    assert figures(fold) == (1, 1)
    assert min(found.trace_s, found.lower_s, found.compile_s) > 0
    fold(jnp.arange(64.0), jnp.float32(2))
    assert figures(fold) == (1, 1)


def test_structs_and_arrays_give_the_same_evidence(fold):
    table, r = jnp.arange(64.0), jnp.float32(2)
    fold(table, r)
    by_array = evidence(fold, table, r)
    by_struct = evidence(fold, TABLE, jax.ShapeDtypeStruct((), "float32"))
    assert by_array == by_struct
    assert not by_array.diff(by_struct).changed


def test_sizes_of_arguments_results_and_constants():
    captured = np.arange(1000, dtype=np.float32)
    found = evidence(jax.jit(lambda x: x + captured), jax.ShapeDtypeStruct((1000,), "float32"))
    assert found.argument_bytes == found.output_bytes == found.constant_bytes == 4000
    assert found.temp_bytes == 0
    assert found.alias_bytes == 0
    assert found.flops == 1000
    assert found.bytes_accessed >= 8000


def test_temporaries_are_told_apart_from_results():
    found = evidence(
        jax.jit(lambda x: jnp.sort(x @ x).sum()), jax.ShapeDtypeStruct((64, 64), "float32")
    )
    assert found.temp_bytes >= 64 * 64 * 4
    assert found.output_bytes == 4
    assert found.peak_bytes > 0


def test_kernels_name_the_users_lines_and_operations(here):
    @fg.island
    def ordered(x):
        y = jnp.tanh(x) * 2
        return jnp.sort(y)  # THE SORT

    found = evidence(ordered, TABLE)
    (row,) = [one for one in found.kernels if one.kind == "sort"]
    assert (row.location.file, row.location.line) == (__file__, here.line(__file__, "THE SORT"))
    (fused,) = [one for one in found.kernels if one.kind.startswith("fusion")]
    assert fused.ops == ("tanh", "mul")


def test_a_plain_function_a_partial_and_a_method():
    def scaled(factor, x):
        return x * factor

    class Prover:
        @fg.island
        def open(self, x):
            return x * 3

        __hash__ = object.__hash__

    jax.tree_util.register_pytree_node(Prover, lambda p: ((), None), lambda aux, data: Prover())
    assert evidence(scaled, TABLE, TABLE).launches == 1
    assert evidence(functools.partial(jax.jit(scaled), TABLE), TABLE).launches == 1
    found = evidence(Prover().open, TABLE)
    assert (found.launches, found.role) == (1, "island")
    assert found.name.endswith("Prover.open")


def test_a_filtering_boundary_with_a_static_leaf():
    @fg.island(filter=True)
    def apply(pair, x):
        activation, weight = pair
        return activation(weight * x)

    found = evidence(apply, (jnp.tanh, jnp.ones(4)), jnp.ones(4))
    assert found.launches == 1
    assert figures(apply) == (1, 1)


def test_static_and_keyword_arguments():
    @fg.island(static_argnames="times")
    def repeated(x, *, times):
        for _ in range(times):
            x = jnp.sort(x)[::-1]
        return x

    assert evidence(repeated, TABLE, times=3).launches > evidence(repeated, TABLE, times=1).launches


def test_donated_buffers_that_are_gone(fold):
    @fg.island(donate_argnums=0)
    def bump(x):
        return x + 1

    x = jnp.arange(64.0)
    bump(x)
    assert x.is_deleted()
    found = evidence(bump, x)
    assert figures(bump) == (1, 1)
    assert found.alias_bytes == 256


def test_evidence_is_frozen_and_shows_itself(fold):
    found = evidence(fold, TABLE, jax.ShapeDtypeStruct((), "float32"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.launches = 0
    text = found.to_text()
    assert "f32[64], f32[]" in text
    assert "fold" in text
    assert found.target in text
    assert str(found) == text
    assert found.to_dict()["launches"] == 1
    html = found._repr_html_()
    assert "<table>" in html
    assert "fusegate-evidence" in html


def test_html_escapes_names():
    named = fg.island(name="<b>bold</b>")(lambda x: x + 1)
    html = evidence(named, TABLE)._repr_html_()
    assert "<b>bold" not in html
    assert "&lt;b&gt;bold" in html


def test_diff_names_the_figures_and_the_kernels_that_moved():
    before = evidence(jax.jit(jnp.tanh), TABLE)
    after = evidence(jax.jit(lambda x: jnp.sort(jnp.tanh(x))), TABLE)
    moved = {one.name: (one.before, one.after) for one in before.diff(after).changed}
    assert moved["launches"][0] < moved["launches"][1]
    assert "trace_s" not in moved
    assert any(
        one.kernel.kind == "sort" and (one.before, one.after) == (0, 1)
        for one in before.diff(after).kernels
    )
    text = before.diff(after).to_text()
    assert "+1 sort (sort)" in text
    assert "<table>" in before.diff(after)._repr_html_()


@pytest.mark.parametrize("wrong", [3, None, "fold"])
def test_what_is_no_callable_is_misuse(wrong):
    with pytest.raises(TypeError, match="callable"):
        evidence(wrong)


def test_in_off_evidence_is_still_given():
    boundary = fg.island(mode="off")(lambda x: x * 2)
    found = evidence(boundary, TABLE)
    assert found.launches == 1
    assert figures(boundary) == (0, 0)


def test_an_unknown_target_is_misuse(fold):
    with pytest.raises(
        ValueError, match=r"unknown target 'cuda:9000'; known are cuda:a100, cuda:h100"
    ):
        evidence(fold, TABLE, TABLE, target="cuda:9000")


def test_a_target_without_its_compiler_is_not_observed(fold, monkeypatch, runtime):
    from fusegate.runtime import targets

    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    found = evidence(fold, TABLE, TABLE, target="cuda:h100")
    assert found.launches is None
    assert found.temp_bytes is None
    assert ("FRX" if runtime == "frx" else "jax-cuda12-plugin") in found.not_observed["launches"]
    assert "?" in found.to_text()
    assert found.to_text().count("not observed: every figure: ") == 1
    assert figures(fold) == (0, 0)
