"""FG503: more traces, compiles or equations than pinned. The other figures of a pin are here as well."""

import re

import jax
import jax.numpy as jnp
import pytest

import fusegate as fg
from fusegate.evidence import pinfile
from fusegate.evidence.pins import NotPinnedHereError, PinSession
from fusegate.ledger import fresh_ledger
from tests.rules._support import lines_of

pytest.importorskip("tomlkit")

X = jax.ShapeDtypeStruct((64,), "float32")


pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fusegate-pins.toml"


@pytest.fixture
def pinned(path):
    """Pins a function under the name `prove`."""

    def pin(fn, *args):
        update = PinSession(path, "update")
        update(fn, *args, name="prove")
        return update.write()

    return pin


@pytest.fixture
def check(path):
    def check(fn, *args):
        return PinSession(path, "check")(fn, *args, name="prove")

    return check


def body(x):
    return x * 2 + 1


def test_bites_on_more_equations(pinned, check):
    pinned(body, X)

    def unrolled(x):
        for _ in range(20):
            x = x * 2 + 1
        return x

    with pytest.raises(fg.PinViolation) as caught:
        check(unrolled, X)  # CALL
    found = caught.value
    assert found.code == "FG503"
    assert found.evidence == {"equations": {"pinned": 2, "found": 40}}
    assert "equations 2 -> 40, against the pins" in str(found)


def test_bites_on_a_second_trace(pinned, check):
    pinned(fg.island(body, name="first"), X)
    with fresh_ledger():
        boundary = fg.island(body, name="second")
        boundary(jnp.ones(64))
        boundary(jnp.ones(32))
        with pytest.raises(fg.PinViolation, match="traces 1 -> 2; compiles 1 -> 2") as caught:
            check(boundary, X)
    assert caught.value.code == "FG503"


def test_the_likely_cause_of_more_equations_is_a_loop_with_its_line(pinned, check):
    def once(x):
        for _ in range(20):
            x = x + 1  # WAS THERE BEFORE
        return x * 2

    def unrolled(x):
        x = once(x)
        for _ in range(30):
            x = x * jnp.sin(x)  # UNROLLED
        return x

    pinned(once, X)
    with pytest.raises(fg.PinViolation, match="equations 21 -> 81") as caught:
        check(unrolled, X)
    (line,) = lines_of(__file__, "UNROLLED")
    told = str(caught.value)
    assert re.search(rf"a loop unrolled at \S*test_fg503\.py:{line} \(30 x `\w+`, `\w+`\)", told), (
        told
    )
    assert "`mul` 1 -> 31, `sin` 0 -> 30" in told
    assert str(lines_of(__file__, "WAS THERE BEFORE").pop()) not in told.partition("likely")[2]


def test_the_likely_cause_is_no_line_that_held_more_than_was_added(pinned, check):
    def transcript(x):
        for _ in range(14):
            x = x * 3 + 2  # OLD AND LONGER
        return x

    def rolled(x):
        return transcript(jax.lax.fori_loop(0, 8, lambda _, y: y * y + y, x))

    def unrolled(x):
        for _ in range(8):
            x = x * x + x  # UNROLLED, SHORTER
        return transcript(x)

    pinned(rolled, X)
    with pytest.raises(fg.PinViolation) as caught:
        check(unrolled, X)
    texts = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    told = next(text for text in texts if text.startswith("FG503"))
    (line,) = lines_of(__file__, "UNROLLED, SHORTER")
    assert f"a loop unrolled at tests/rules/test_fg503.py:{line} (8 x " in told
    assert str(lines_of(__file__, "OLD AND LONGER").pop()) not in told.partition("likely")[2]


def test_the_likely_cause_of_more_equations_is_a_loop_that_got_longer(pinned, check):
    def rounds(count):
        def prove(x):
            for _ in range(count):
                x = x * 2 + 1  # ROUND
            return x

        return prove

    pinned(rounds(10), X)
    with pytest.raises(fg.PinViolation, match="equations 20 -> 240") as caught:
        check(rounds(120), X)
    (line,) = lines_of(__file__, "ROUND")
    assert f"test_fg503.py:{line} (120 x " in str(caught.value)


def test_the_likely_cause_of_more_equations_is_a_new_nested_call(pinned, check):
    @jax.jit
    def helper(x):
        return jnp.where(x > 0, x, 1)

    def calls(x):
        return helper(body(x))  # NEW CALL

    pinned(body, X)
    with pytest.raises(fg.PinViolation) as caught:
        check(calls, X)
    found = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    (told,) = [text for text in found if text.startswith("FG503")]
    (line,) = lines_of(__file__, "NEW CALL")
    assert re.search(rf"a new nested call `\S*helper` at \S*test_fg503\.py:{line}", told), told
    assert "where`" not in told.partition("nested call")[2].partition(";")[0]
    pinned(calls, X)  # no new one for the same program
    check(calls, X)
    with pytest.raises(fg.PinViolation, match=r"nested call `\S*helper` 1 -> 3 at"):
        check(lambda x: helper(helper(calls(x))), X)


def test_a_few_new_equations_are_counted_at_their_line(pinned, check):
    def longer(x):
        return jnp.sin(jnp.cos(body(x)))  # TWO MORE

    pinned(body, X)
    with pytest.raises(fg.PinViolation, match="equations 2 -> 4") as caught:
        check(longer, X)
    (line,) = lines_of(__file__, "TWO MORE")
    assert f"likely cause: 2 equations at tests/rules/test_fg503.py:{line} (" in str(caught.value)


def test_pins_without_the_newer_tables_are_checked_as_before(pinned, check, path):
    pinned(body, X)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("primitives")))
    check(body, X)
    with pytest.raises(fg.PinViolation, match="equations 2 -> 4") as caught:
        check(lambda x: body(body(x)), X)
    assert "nested call" not in str(caught.value).partition("fix:")[0]


def test_a_pinned_figure_that_is_not_there_any_more_is_told(pinned, path):
    pinned(fg.island(body, name="first"), X)
    session = PinSession(path, "check")
    session(body, X, name="prove")
    assert session.skipped == {
        f"{figure} of prove": "not observed: it is no boundary any more"
        for figure in ("traces", "compiles")
    }


def test_a_second_trace_is_told_with_its_cause(pinned, check):
    pinned(fg.island(body, name="first"), X)
    with fresh_ledger():
        boundary = fg.island(body, name="second")
        boundary(jnp.ones(64))
        boundary(jnp.ones(32))
        with pytest.raises(fg.PinViolation) as caught:
            check(boundary, X)
    assert (caught.value.cause.kind, caught.value.cause.path) == ("shape", "x")


def test_bites_with_fg501_on_a_new_kernel_and_names_it(pinned, check):
    pinned(body, X)

    def broken(x):
        return jnp.sort(x * 2 + 1)  # NEW KERNEL

    with pytest.raises(fg.PinViolation) as caught:
        check(broken, X)
    found = caught.value
    assert found.code == "FG501"
    assert "launches 1 -> 2" in str(found)
    assert "likely cause: sort 0 -> 1 (1 sort at" in str(found)
    (line,) = lines_of(__file__, "NEW KERNEL")
    assert f"test_fg503.py:{line}" in str(found) or jax.__version__.startswith("0.7")
    notes = "\n".join(found.__notes__)
    assert "FG502" in notes or "FG503" in notes
    assert isinstance(found, AssertionError)


def test_bites_with_fg502_on_a_bigger_buffer(pinned, check):
    def rows(x):
        return jnp.sort(jnp.outer(x, x)).sum(axis=1)

    def twice(x):
        return jnp.sort(jnp.concatenate([jnp.outer(x, x)] * 2)).sum(axis=1)[:64]

    pinned(rows, X)
    with pytest.raises(fg.PinViolation) as caught:
        check(twice, X)
    texts = [str(caught.value), *caught.value.__notes__]
    assert any(text.startswith("FG502") and "temp_bytes" in text for text in texts)


def test_update_after_a_regression_passes_and_changes_one_line_a_figure(pinned, check, path):
    pinned(body, X)
    before = path.read_text().splitlines()

    def longer(x):
        return body(x) * 3

    with pytest.raises(fg.PinViolation):
        check(longer, X)
    changes = pinned(longer, X)
    assert [change.partition(": ")[2] for change in changes] == [
        "equations 2 -> 3",
        "primitives mul 1 -> 2",
    ]
    after = path.read_text().splitlines()
    assert [pair for pair in zip(before, after, strict=True) if len(set(pair)) > 1] == [
        ("equations = 2", "equations = 3"),
        ("primitives = {add = 1, mul = 1}", "primitives = {add = 1, mul = 2}"),
    ]
    check(longer, X)


def test_quiet_on_equal_and_on_smaller_figures(pinned, check):
    pinned(lambda x: jnp.sort(x * 2 + 1), X)
    check(lambda x: jnp.sort(x * 2 + 1), X)
    check(body, X)


def test_quiet_where_it_is_allowed(pinned, check):
    pinned(body, X)
    with fg.allow("FG503", reason="a longer round is meant"):
        check(lambda x: body(body(x)), X)


def test_quiet_in_off(path):
    assert PinSession(path, "off")(body, X) is None


@pytest.mark.parametrize("mode", ["check", "update"])
def test_a_target_without_its_compiler_is_skipped_and_told(path, mode, monkeypatch):
    from fusegate.runtime import targets

    monkeypatch.setattr(targets, "find_spec", lambda name: None)
    session = PinSession(path, mode)
    with pytest.raises(NotPinnedHereError, match="`prove` is not observed for cuda:h100: "):
        session(body, X, name="prove", target="cuda:h100")
    assert list(session.skipped) == ["prove for cuda:h100"]
    assert not session.found
    with pytest.raises(ValueError, match="nothing runs on cuda:h100"):
        session(body, X, target="cuda:h100", runtime=True)


def test_another_environment_is_skipped_and_told(pinned, path):
    pinned(body, X)
    (environment,) = pinfile.read(path)["prove"]
    path.write_text(path.read_text().replace(environment, "frx 0.0.1 gpu"))
    session = PinSession(path, "check")
    with pytest.raises(NotPinnedHereError, match=r"pinned for frx 0\.0\.1 gpu; this is"):
        session(body, X, name="prove")
    assert list(session.skipped) == ["prove"]


def test_what_is_not_pinned_fails(path):
    with pytest.raises(AssertionError, match=r"`body` is not pinned .*--fusegate-pins=update"):
        PinSession(path, "check")(body, X)


def test_comments_and_other_boundaries_stay(pinned, path):
    path.write_text(
        '# ours\n[other."jax 9 cpu"]\nlaunches = 3 # inherent\n\n# the prover\n', encoding="utf-8"
    )
    pinned(body, X)
    text = path.read_text()
    for kept in ("# ours", "launches = 3 # inherent", "# the prover"):
        assert kept in text
    assert set(pinfile.read(path)) == {"other", "prove"}
    again = path.read_text()
    assert pinned(body, X) == []
    assert path.read_text() == again


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[prove", "not readable as TOML"),
        ("prove = 3", r"\[prove\] is int, not a table"),
        ('[prove]\n"jax 1 cpu" = 3', r"\[prove\.jax 1 cpu\] is int"),
        ('[prove."jax 1 cpu"]\nspeed = 3', "no figure 'speed'; known are launches"),
        ('[prove."jax 1 cpu"]\nlaunches = "3"', "launches is not an integer"),
        ('[prove."jax 1 cpu"]\nlaunches = true', "launches is not an integer"),
        ('[prove."jax 1 cpu"]\nkernels = 3', "kernels is not a table of integers"),
        ('[prove."jax 1 cpu"]\nlaunches = {sort = 1}', "launches is not an integer"),
        ('[prove."jax 1 cpu"]\ncalls = {helper = -1}', "calls is not a table of integers"),
        ('[prove."jax 1 cpu"]\nruntime = "fast"', "runtime is not a number > 0"),
        ('[prove."jax 1 cpu"]\nruntime = 0.0', "runtime is not a number > 0"),
        ('[prove."jax 1 cpu"]\nruntime = nan', "runtime is not a number > 0"),
        ('[prove."jax 1 cpu"]\nruntime = inf', "runtime is not a number > 0"),
        ('[prove."jax 1 cpu"]\nruntime = true', "runtime is not a number > 0"),
    ],
)
def test_a_corrupt_file_is_refused_and_left_alone(pinned, check, path, text, message):
    path.write_text(text, encoding="utf-8")
    for act in (pinned, check):
        with pytest.raises(ValueError, match=message):
            act(body, X)
    assert path.read_text(encoding="utf-8") == text
