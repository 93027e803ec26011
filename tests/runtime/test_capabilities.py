from types import ModuleType

import jax
import pytest

import fusegate
from fusegate.runtime import capabilities, resolve
from fusegate.runtime.capabilities import Capability, probe


def test_everything_can_be_observed_on_the_versions_of_the_matrix(runtime):
    found = probe()
    assert [one.name for one in found if not one.observed] == []
    assert [one.why_not for one in found] == [""] * len(found)
    assert len({one.name for one in found}) == len(found) == 13
    assert any(f"{runtime}.monitoring" in one.how for one in found)


class Bare(resolve.Runtime):
    """A runtime of the future, in which every private name has moved."""

    def public(self, dotted):
        return ModuleType(dotted)

    def private(self, dotted, *attributes):
        return None


def test_a_name_that_has_moved_is_said_to_be_missing(monkeypatch):
    bare = Bare("jax", ModuleType("jax"), "99", "/nowhere/")
    monkeypatch.setattr(resolve, "required", lambda: bare)
    found = probe()
    assert {one.observed for one in found} == {False}
    assert {one.name: one.why_not for one in found}["compiles and persistent-cache hits"] == (
        "jax.monitoring.register_event_duration_secs_listener is missing"
    )
    assert all(one.why_not.startswith("jax.") for one in found)


def test_a_runtime_without_monitoring_is_examined_too(monkeypatch):
    class NoMonitoring(Bare):
        def public(self, dotted):
            raise ImportError(dotted)

    bare = NoMonitoring("jax", ModuleType("jax"), "99", "/nowhere/")
    monkeypatch.setattr(resolve, "required", lambda: bare)
    assert not probe()[1].observed


def test_what_is_said_of_programs_is_what_an_evidence_shows():
    """The probe looks up classes; here an executable is asked."""
    told = {one.name: one for one in probe()}
    found = fusegate.evidence(lambda x: jax.numpy.sort(x) * 2, jax.numpy.ones(64))
    launches = told["compiled modules: launch counts, kernels"]
    memory = told["memory plans: temp and peak bytes"]
    assert launches.observed == (found.launches is not None)
    assert memory.observed == (found.temp_bytes is not None)
    executable = jax.jit(lambda x: x + 1).lower(1.0).compile().runtime_executable()
    for one in (launches, memory):
        method = one.how.split()[0].removeprefix("LoadedExecutable.")
        assert callable(getattr(executable, method))
    assert hasattr(executable.hlo_modules()[0], launches.how.split()[-4])


def test_a_nested_function_is_found_by_name():
    module = ModuleType("pjit")
    exec("def outer():\n  def cache_miss(): pass\n  return cache_miss", vars(module))
    assert {"outer", "cache_miss"} <= capabilities._code_names(module)


def test_probing_traces_and_compiles_nothing(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("jit was called")

    monkeypatch.setattr(jax, "jit", refuse)
    assert probe()


def test_a_capability_is_a_value():
    one = Capability("compiles", False, "listeners", "gone")
    assert one == Capability(name="compiles", observed=False, how="listeners", why_not="gone")
    with pytest.raises(AttributeError):
        one.name = "other"
