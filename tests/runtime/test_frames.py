"""Whose line it is."""

import contextlib
import functools
import sys

import jax
import pytest

from fusegate.runtime import frames


def line():
    return sys._getframe(1).f_lineno


def test_the_innermost_user_line_is_the_callers():
    found = frames.user_location()
    assert (found.file, found.line, found.function) == (
        __file__,
        line() - 3,
        "test_the_innermost_user_line_is_the_callers",
    )


def test_plumbing_is_skipped():
    @contextlib.contextmanager
    def scope():
        yield frames.user_location(sys._getframe(1))

    with scope() as found:
        assert found.line == line() - 1
    assert functools.partial(frames.user_location)().file == __file__


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (jax.__file__, True),
        (frames.__file__, True),
        (contextlib.__file__, True),
        ("<frozen importlib._bootstrap>", True),
        (__file__, False),
        ("<stdin>", False),
        ("<ipython-input-1>", False),
        ("/home/me/jax_prover/main.py", False),
    ],
)
def test_library_files(file, library):
    assert frames.is_library_file(file) is library


def test_an_exception_is_placed_at_the_innermost_user_line():
    def inner():
        jax.numpy.reshape(jax.numpy.ones(3), (2,))

    with pytest.raises(TypeError) as caught:
        inner()
    found = frames.raised_at(caught.value.__traceback__)
    assert (found.file, found.function) == (__file__, "inner")


def test_a_call_is_found_by_its_function_object():
    seen = []

    def body(x):
        seen.append(frames.runtime_call())
        return x

    jax.jit(body)(1.0)
    assert seen[0].function is body
    assert seen[0].direct
    assert seen[0].args == (1.0,)
    jax.jit(lambda x: body(x)).lower(2.0)
    assert not seen[1].direct
    body(3.0)
    assert seen[2] is None
