"""Targets, as far as no compiler plugin is needed: their names, and why one cannot be compiled for."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fusegate.runtime import targets
from tests.conftest import frx_only, jax_only


def installed(monkeypatch, *names):
    monkeypatch.setattr(targets, "find_spec", lambda name: name if name in names else None)


def test_an_unknown_target_names_the_known_ones():
    with pytest.raises(
        ValueError, match="unknown target 'cuda:9000'; known are cuda:a100, cuda:h100, cuda:h200"
    ):
        targets.unavailable("cuda:9000")
    for name in ("", "cpu", "h100", "CUDA:H100"):
        with pytest.raises(ValueError, match="known are"):
            targets.unavailable(name)


@frx_only
def test_frx_has_no_plugin(monkeypatch):
    installed(monkeypatch, *targets._PLUGINS)
    assert targets.unavailable("cuda:h100").startswith("FRX has no CUDA compiler plugin")


@jax_only
def test_the_plugin_is_missing(monkeypatch):
    installed(monkeypatch)
    assert "jax-cuda12-plugin is not installed" in targets.unavailable("cuda:h100")


@jax_only
def test_a_version_without_topologies(monkeypatch):
    installed(monkeypatch, "jax_cuda13_plugin")
    monkeypatch.setitem(sys.modules, "jax.experimental.topologies", None)
    why = targets.unavailable("cuda:h100")
    assert why == f"jax {jax.__version__} has no experimental.topologies"


@jax_only
def test_a_plugin_that_gives_no_topology(monkeypatch):
    def fails(*_, **__):
        raise NotImplementedError("topology not implemented for cuda\nand a second line")

    installed(monkeypatch, "jax_cuda12_plugin")
    monkeypatch.setattr("jax.experimental.topologies.get_topology_desc", fails)
    targets._device.cache_clear()
    why = targets.unavailable("cuda:a100")
    assert "(NotImplementedError: topology not implemented for cuda)" in why
    assert "JAX_PLATFORMS=cpu" in why


def test_a_config_holds_every_figure_of_its_target():
    texts = {name: targets._CONFIG.substitute(figures) for name, figures in targets.TARGETS.items()}
    assert all("$" not in text and text.count("{") == text.count("}") for text in texts.values())
    assert "core_count: 108" in texts["cuda:a100"]
    assert 'device_description_str: "NVIDIA H200 141GB HBM3e"' in texts["cuda:h200"]


def test_arrays_are_placed_and_nothing_else(monkeypatch):
    device = jax.devices()[0]
    monkeypatch.setattr(targets, "_device", lambda *_: device)
    scalar, spec = np.float32(2), type("Spec", (), {"shape": (3,), "dtype": "float32"})()
    args = (jnp.ones(4), np.ones(3), scalar, 2.0, "name", None, spec)
    struct = jax.ShapeDtypeStruct((2,), "int32")
    placed, named = targets.placed("cuda:h100", args, {"x": struct, "weak": jnp.asarray(1.0)})
    assert placed[2:] == args[2:]
    for one, shape in ((placed[0], (4,)), (placed[1], (3,)), (named["x"], (2,))):
        assert (type(one), one.shape) == (jax.ShapeDtypeStruct, shape)
        assert one.sharding.device_set == {device}
    assert (placed[0].weak_type, named["weak"].weak_type) == (False, True)
    assert targets.placed("cuda:h100", (scalar, 2.0, None), {}) is None


def test_a_refusal_is_a_runtime_error_and_nothing_else():
    def raising(error):
        raise error

    assert targets.or_refusal(lambda: 3) == (3, "")
    out, why = targets.or_refusal(lambda: raising(RuntimeError("x" * 500 + "\nmore")))
    assert out is None
    assert "RuntimeError: xxx" in why
    assert len(why) < 250
    assert "more" not in why
    with pytest.raises(ValueError, match="his own"):
        targets.or_refusal(lambda: raising(ValueError("his own")))
