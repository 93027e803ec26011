"""Bad declarations are refused at once, in every mode."""

import subprocess
import sys
import textwrap

import jax.numpy as jnp
import pytest

import fusegate as fg


def body(x, k=1):
    return x


@pytest.mark.parametrize("mode", ["strict", "warn", "off"])
@pytest.mark.parametrize(
    ("error", "match", "keywords"),
    [
        (ValueError, "max_traces=0", {"max_traces": 0}),
        (ValueError, "max_traces=-1", {"max_traces": -1}),
        (TypeError, "max_traces", {"max_traces": 1.5}),
        (TypeError, "max_traces", {"max_traces": True}),
        (ValueError, "max_compiles=0", {"max_compiles": 0}),
        (ValueError, "max_launches=0", {"max_launches": 0}),
        (ValueError, "max_temp_bytes=-1", {"max_temp_bytes": -1}),
        (ValueError, "unknown rule", {"allow": ["FG999"]}),
        (TypeError, "collection of names", {"allow": "FG201"}),
        (ValueError, "unknown mode", {"mode": "loud"}),
        (TypeError, "name", {"name": 3}),
        (TypeError, "static_argname", {"static_argname": "k"}),
        (ValueError, "'q'", {"static_argnames": "q"}),
        (ValueError, "'q'", {"donate_argnames": ("x", "q")}),
        (ValueError, "static_argnums holds 5", {"static_argnums": 5}),
        (ValueError, "donate_argnums holds -3", {"donate_argnums": (-3,)}),
        (TypeError, "static_argnums", {"static_argnums": "k"}),
    ],
)
def test_a_bad_keyword_is_refused_at_decoration(mode, error, match, keywords):
    with fg.mode(mode), pytest.raises(error, match=match):
        fg.island(body, **keywords)


def test_what_is_no_callable_is_refused():
    for thing in (3, "fold", None.__class__, [body]):
        if callable(thing):
            continue
        with pytest.raises(TypeError, match="decorates a callable"):
            fg.island(thing)
        with pytest.raises(TypeError, match="decorates a callable"):
            fg.single_zone(max_traces=1)(thing)


def test_round_body_contract_is_checked():
    with pytest.raises(ValueError, match="reductions=-1"):
        fg.round_body(body, reductions=-1)
    with pytest.raises(TypeError, match="allow_primitives"):
        fg.round_body(body, allow_primitives="gather")
    with pytest.raises(TypeError, match="unexpected keyword"):
        fg.island(body, reductions=1)


def test_static_names_may_be_anything_where_the_function_takes_any_keyword():
    assert fg.island(lambda x, **kws: x, static_argnames="q")(jnp.ones(1), q=3).shape == (1,)
    assert fg.island(lambda *xs: xs[0], static_argnums=7)(jnp.ones(1)).shape == (1,)


@pytest.mark.parametrize("role", ["island", "single_zone", "round_body"])
def test_bare_called_and_with_keywords(role):
    decorate = getattr(fg, role)

    @decorate
    def bare(x):
        return x

    @decorate()
    def empty(x):
        return x

    @decorate(max_traces=1, name="mine")
    def named(x):
        return x

    for f in (bare, empty, named):
        assert f(jnp.ones(1)).shape == (1,)
    assert "mine" in fg.report().boundaries


def run(code, **env):
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )


def test_no_runtime_at_the_first_call_is_a_clear_error():
    done = run(
        """
        import fusegate
        @fusegate.island(static_argnames="k")
        def f(x, k): return x
        print(f.__name__, f.__wrapped__)
        try:
            f(1, k=2)
        except fusegate.FusegateError as error:
            print(error)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "imported neither frx nor jax" in done.stdout


def test_a_boundary_may_be_declared_before_the_runtime_is_imported(runtime):
    done = run(
        f"""
        import fusegate
        @fusegate.island
        def f(x): return x + 1.0
        @fusegate.round_body(reductions=0)
        def g(x): return x * 2.0
        import {runtime} as J
        print(J.numpy.asarray(f(g(J.numpy.ones(2)))).tolist(), fusegate.stats(f).traces)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[3.0,", "3.0]", "1"]


def test_jax_before_frx_is_a_clear_error(runtime):
    if runtime != "frx":
        pytest.skip("needs both runtimes installed")
    done = run(
        """
        import jax, frx
        import fusegate
        try:
            fusegate.island(lambda x: x)
        except ValueError as error:
            print(type(error).__name__, error)
        """
    )
    assert done.stdout.startswith("RuntimeOrderError"), done.stderr
    assert "Import frx before jax" in done.stdout
