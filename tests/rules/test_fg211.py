"""FG211: the body reads a traced value on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from tests.rules._support import lines_of, refused

READS = {
    "float": lambda v: float(v),  # READ
    "int": lambda v: int(v),  # READ
    "bool": lambda v: bool(v),  # READ
    "if": lambda v: 1 if v > 0 else 2,  # READ
    "item": lambda v: v.item(),  # READ
    "asarray": lambda v: np.asarray(v),  # READ
    "tolist": lambda v: v.tolist(),  # READ
    "index": lambda v: [1, 2, 3][v.astype(int)],  # READ
    "range": lambda v: list(range(v.astype(int))),  # READ
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("decorate", [fg.island, fg.single_zone, fg.round_body])
def test_every_kind_of_read_is_told_with_its_line(name, decorate):
    f = decorate(lambda x: READS[name](x.sum()) * x)
    found = refused("FG211", lambda: f(jnp.ones(3)), marker="READ")
    assert isinstance(found, fg.TraceViolation)
    assert "host_op" in found.fix


def test_a_traced_mask_is_told_with_a_way_out_of_its_own():
    f = fg.island(lambda x: x[x > 1.0])  # MASK
    found = refused("FG211", lambda: f(jnp.arange(4.0)), marker="MASK")
    assert "jnp.where" in found.fix
    with pytest.raises(IndexError):
        f(jnp.arange(4.0))


def test_it_is_still_the_runtimes_own_error():
    f = fg.island(lambda x: float(x))
    with pytest.raises(jax.errors.ConcretizationTypeError) as caught:
        f(jnp.float32(1.0))
    assert isinstance(caught.value, fg.Violation)
    assert isinstance(caught.value.__cause__, jax.errors.ConcretizationTypeError)
    with pytest.raises(TypeError):
        f(jnp.float32(1.0))


def test_a_read_in_a_melted_round_body_or_a_nested_island_is_told_once():
    body = fg.round_body(lambda x: int(x.sum()) * x)
    zone = fg.single_zone(lambda x: body(x) + 1.0)
    assert refused("FG211", lambda: zone(jnp.ones(3))).boundary.endswith("<lambda>")
    inner = fg.island(lambda x: int(x.sum()) * x, name="inner")
    outer = fg.single_zone(lambda x: inner(x) + 1.0, name="outer")
    assert refused("FG211", lambda: outer(jnp.ones(3))).boundary == "inner"
    assert sum(v.count for v in fg.report().violations if v.boundary in {"inner", "outer"}) == 1


def test_in_warn_the_runtimes_error_comes_through_with_a_note():
    f = fg.island(lambda x: float(x), mode="warn")  # WARNED
    with (
        pytest.warns(fg.ViolationWarning, match="FG211"),
        pytest.raises(jax.errors.ConcretizationTypeError) as caught,
    ):
        f(jnp.float32(1.0))
    assert not isinstance(caught.value, fg.Violation)
    assert any("FG211" in note for note in caught.value.__notes__)
    (found,) = fg.report().violations
    assert found.location.line in lines_of(__file__, "WARNED")


def test_quiet_when_the_body_catches_the_error_itself():
    def body(x):
        try:
            size = int(x.sum())
        except jax.errors.ConcretizationTypeError:
            size = 0
        return x + size

    assert np.allclose(fg.island(body)(jnp.ones(3)), 1.0)
    assert not fg.report().violations


def test_quiet_for_reads_of_concrete_values_and_other_errors():
    table = jnp.arange(3.0)
    f = fg.island(lambda x: x * float(np.asarray(table).sum()) * x.shape[0])
    assert float(f(jnp.float32(1.0) * jnp.ones(1))[0]) == 3.0

    def broken(x):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine"):
        fg.island(broken)(jnp.ones(1))
    assert not fg.report().violations
