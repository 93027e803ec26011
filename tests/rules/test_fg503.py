"""FG503: more traces, compiles or equations than pinned. The other figures of a pin are here as well."""

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


@pytest.fixture(autouse=True)
def strict():
    with fg.mode("strict"), fresh_ledger():
        yield


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
    assert len(changes) == 1
    assert changes[0].endswith(": equations 2 -> 3")
    after = path.read_text().splitlines()
    assert [pair for pair in zip(before, after, strict=True) if len(set(pair)) > 1] == [
        ("equations = 2", "equations = 3")
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
    ],
)
def test_a_corrupt_file_is_refused_and_left_alone(pinned, check, path, text, message):
    path.write_text(text, encoding="utf-8")
    for act in (pinned, check):
        with pytest.raises(ValueError, match=message):
            act(body, X)
    assert path.read_text(encoding="utf-8") == text
