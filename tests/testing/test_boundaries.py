"""`assert_single_trace` and `expect_violation`: both ways round."""

import warnings

import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate.testing import assert_single_trace, expect_violation

pytestmark = pytest.mark.usefixtures("strict")


def looks_up(table, order):
    return table[order].sum()


TABLE, ORDER = jnp.ones(4), jnp.array([1, 0])


def test_one_trace_for_equal_arguments():
    double = fg.island(lambda x: x * 2)
    with assert_single_trace(double):
        double(jnp.ones(4))
        double(jnp.ones(4))
    with assert_single_trace(double):
        double(jnp.ones(4))


def test_a_second_shape_fails_with_its_cause():
    double = fg.island(lambda x: x * 2, name="double")
    told = r"island `double` traced 2 times .*f32\[4\] -> f32\[5\]"
    with pytest.raises(AssertionError, match=told), assert_single_trace(double):
        [double(jnp.ones(n)) for n in (4, 5)]


def test_a_recompile_without_a_trace_fails():
    import jax

    double = fg.island(lambda x: x * 3, name="committed", mode="warn", max_compiles=2)
    both = jnp.ones(4), jax.device_put(jnp.ones(4), jax.devices()[0])
    told = "traced once and compiled 2 times"
    with pytest.raises(AssertionError, match=told), assert_single_trace(double):
        [double(one) for one in both]


def test_an_unobserved_boundary_fails():
    double = fg.island(lambda x: x * 2, mode="off")
    with pytest.raises(AssertionError, match="its mode is off"), assert_single_trace(double):
        double(jnp.ones(4))


def test_the_programs_own_error_passes():
    double = fg.island(lambda x: x * 2)
    with pytest.raises(ZeroDivisionError), assert_single_trace(double):
        1 / 0  # noqa: B018


def test_what_is_no_boundary_is_misuse():
    with pytest.raises(TypeError, match="no boundary"), assert_single_trace(looks_up):
        pass
    with pytest.raises(TypeError, match="boundaries"), assert_single_trace():
        pass


def test_an_expected_violation_is_handed_out():
    with fg.mode("warn"), expect_violation("fusion-breaker") as expected:
        fg.round_body(looks_up)(TABLE, ORDER)
    assert expected.code == "FG204"
    assert expected.violation.code == expected.finding.code == "FG204"


def test_an_expected_advice_does_not_raise():
    table = jnp.ones(1 << 21)
    with expect_violation("FG208") as expected:
        fg.island(lambda i: (table * i).sum())(jnp.float32(1))
    assert expected.violation is None
    assert not expected.finding.is_error


def test_a_boundary_that_only_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.warns(fg.ViolationWarning), expect_violation("FG204") as expected:
            fg.round_body(looks_up, mode="warn")(TABLE, ORDER)
    assert expected.finding.code == "FG204"


def test_nothing_found_fails():
    with pytest.raises(AssertionError, match=r"no FG204 was found$"), expect_violation("FG204"):
        fg.island(lambda x: x * 2)(TABLE)


def test_another_violation_passes_through():
    with pytest.raises(fg.Violation, match="FG204"), expect_violation("FG205"):
        fg.round_body(looks_up)(TABLE, ORDER)


def test_an_earlier_finding_is_not_taken_for_a_new_one():
    body = fg.round_body(looks_up)
    with expect_violation("FG204"):
        body(TABLE, ORDER)
    with pytest.raises(AssertionError), expect_violation("FG204"):
        pass


def test_an_unknown_code_is_misuse():
    with pytest.raises(ValueError, match="unknown rule"), expect_violation("FG999"):
        pass
