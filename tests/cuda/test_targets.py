"""`evidence(target=)` with the CUDA compiler and no GPU. `make test-cuda` runs it, in an environment of its own."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fusegate as fg
from fusegate.evidence.gather import evidence
from fusegate.runtime import targets
from tests.evidence.programs import PROGRAMS
from tests.evidence.test_launches import computations_of, count

H100 = "cuda:h100"
if targets.unavailable(H100):  # `make test-cuda` fails where nothing is left to run
    pytest.skip(targets.unavailable(H100), allow_module_level=True)

TABLE = jax.ShapeDtypeStruct((4096,), "float32")
X = jax.ShapeDtypeStruct((8, 8), "float32")


pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
def fold():
    @fg.island(max_traces=1, max_compiles=1)
    def fold(low, high):
        return low + (high - low) * 2

    return fold


def compiled_for(boundary):
    counted = fg.stats(boundary)
    return counted.compiles, counted.derived_compiles


def test_the_processes_own_backend_stays_what_it_is(fold):
    before = jax.default_backend()
    assert evidence(fold, TABLE, TABLE, target=H100).target == H100
    assert jax.default_backend() == before
    assert evidence(fold, TABLE, TABLE).target == before


@pytest.mark.parametrize("target", targets.TARGETS)
def test_an_elementwise_body_is_one_loop_kernel(target):
    def body(x, y):
        return jnp.where(x > y, jnp.tanh(x) * y, jnp.sin(y) - x)

    found = evidence(fg.island(body), TABLE, TABLE, target=target)
    (kernel,) = found.kernels
    assert (kernel.kind, kernel.launches, kernel.runs) == ("fusion kLoop", 1, 1)
    assert {"tanh", "mul", "sin", "sub"} <= set(kernel.ops)
    assert (found.launches, found.dynamic_launches) == (1, 1)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_a_round_polynomial_is_its_reduction(target, here):
    @fg.round_body(reductions=1)
    def round_poly(low, high):
        step = high - low
        return jnp.stack([low, low + step, low + 2 * step]).sum(axis=1)  # THE SUM

    table = jax.ShapeDtypeStruct((4096,), "uint32")
    found = evidence(round_poly, table, table, target=target)
    (kernel,) = found.kernels
    assert (kernel.kind, found.launches) == ("fusion kInput", 1)
    assert {"sub", "mul", "add", "reduce_sum"} <= set(kernel.ops)
    assert (kernel.location.file, kernel.location.line) == (
        __file__,
        here.line(__file__, "THE SUM"),
    )
    # Beyond one block's reach the sum has a second stage, over the blocks.
    large = jax.ShapeDtypeStruct((2**20,), "uint32")
    found = evidence(round_poly, large, large, target=target)
    assert [one.kind for one in found.kernels] == ["fusion kInput"] * 2


def test_every_figure_is_that_of_the_targets_program(fold):
    found = evidence(fold, TABLE, TABLE, target=H100)
    assert found.not_observed == {}
    assert (found.argument_bytes, found.output_bytes, found.temp_bytes) == (32768, 16384, 0)
    assert found.peak_bytes == 32768 + 16384
    # XLA counts the operations of a module, whatever it was compiled for.
    assert found.flops == evidence(fold, TABLE, TABLE).flops == 3 * 4096
    assert found.bytes_accessed >= 32768 + 16384
    assert min(found.trace_s, found.lower_s, found.compile_s) > 0
    assert f"f32[4096], f32[4096], {H100}, jax" in found.to_text()


def test_temporaries_of_the_target():
    here, there = (evidence(jax.jit(jnp.sort), TABLE, target=one) for one in (None, H100))
    assert there.temp_bytes > 0
    assert there.temp_bytes != here.temp_bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_agree_with_the_dump_of_xla(name, tmp_path):
    fn = PROGRAMS[name]
    found = evidence(jax.jit(fn), X, target=H100)
    (placed,), _ = targets.placed(H100, (X,), {})
    options = {"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_text": True}
    jax.jit(fn).lower(placed).compile(compiler_options=options)
    (file,) = tmp_path.glob(f"*{fn.__name__}*gpu_after_optimizations.txt")
    expected = count(computations_of(file.read_text(encoding="utf-8")), "ENTRY")
    assert (found.launches, found.dynamic_launches) == expected
    assert sum(one.launches for one in found.kernels) == found.launches > 0


def test_the_boundarys_own_program_is_another(fold):
    x = jnp.ones(4096)
    before = fold(x, x)
    evidence(fold, x, x, target=H100)
    assert compiled_for(fold) == (1, 1)
    again = evidence(fold, x, x, target=H100)  # compiled once
    assert again.compile_s is None
    assert compiled_for(fold) == (1, 1)
    with fg.frozen():
        assert (fold(x, x) == before).all()
    assert fg.stats(fold).traces == 1
    # The ledger's seconds are those of two programs now, so neither is told as one's.
    assert "compile_s" in evidence(fold, x, x).not_observed


def test_a_later_call_compiles_its_own(fold):
    evidence(fold, TABLE, TABLE, target=H100)
    fold(jnp.ones(4096), jnp.ones(4096))
    assert (fg.stats(fold).traces, *compiled_for(fold)) == (1, 1, 1)


def test_a_rule_that_the_trace_breaks_is_told():
    body = fg.round_body(lambda x: jnp.sort(x), name="sorting")
    with pytest.raises(fg.Violation, match="FG204"):
        evidence(body, TABLE, target=H100)


def test_arrays_of_every_kind_stand_for_ones_on_the_target():
    @fg.island(static_argnames="scale")
    def scaled(x, y, factor, *, scale):
        return (x + y) * factor if scale > 1 else x

    found = evidence(
        scaled, jnp.ones(64), np.ones(64, "float32"), 2.0, scale=np.float32(2), target=H100
    )
    assert (found.launches, found.not_observed) == (1, {})
    half = jax.ShapeDtypeStruct((64,), "bfloat16")
    weak = evidence(jax.jit(lambda x, y: x * y), half, jnp.asarray(2.0), target=H100)
    assert weak.output_bytes == 128  # bf16: the factor stays weakly typed
    key = evidence(jax.jit(lambda k: jax.random.normal(k, (8,))), jax.random.key(0), target=H100)
    assert key.launches >= 1


def test_filtering_and_donating_boundaries():
    @fg.island(filter=True)
    def apply(pair, x):
        activation, weight = pair
        return activation(weight * x)

    for weight in (jnp.ones(4), jax.ShapeDtypeStruct((4,), "float32")):
        assert evidence(apply, (jnp.tanh, weight), jnp.ones(4), target=H100).launches == 1
    bump = fg.island(donate_argnums=0)(lambda x: x + 1)
    assert evidence(bump, jnp.ones(64), target=H100).alias_bytes == 256


def test_what_a_library_call_costs_is_not_known():
    found = evidence(jnp.linalg.cholesky, X, target=H100)
    assert any(one.kind.startswith("custom-call cusolver") for one in found.kernels)
    assert found.flops is found.bytes_accessed is None
    assert "library" in found.not_observed["flops"]


def test_a_program_without_an_array_argument_is_not_compiled_for_here_instead():
    for args in ((), (2.0,)):
        found = evidence(lambda *values: jnp.zeros(3) + sum(values), *args, target=H100)
        assert found.launches is None
        assert "no argument is an array" in found.not_observed["launches"]


def test_what_the_target_cannot_have_is_told_beside_what_the_trace_shows():
    def called_back(x):
        return jax.pure_callback(lambda value: value, x, x) + 1

    found = evidence(called_back, X, target=H100)
    assert found.launches is None
    assert "cannot be compiled for this target here" in found.not_observed["launches"]
    assert found.equations == 2
    assert "equations" not in found.not_observed


SCRIPT = """
import warnings
import jax, fusegate as fg
warnings.simplefilter("error")
found = fg.evidence(lambda x: x * 2, jax.ShapeDtypeStruct((8,), "float32"), target="cuda:h100")
print(found.launches, dict(found.not_observed))
"""


def run(folder, **changes):
    """What the script prints in a process of its own; a variable that is None is not set there."""
    env = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_persistent_cache_is_no_hindrance(tmp_path):
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    for _ in range(2):  # the second finds what the first has kept
        assert run(tmp_path, **cache) == "1 {}"
        assert any((tmp_path / "cache").iterdir())


def test_a_plugin_that_does_not_load_is_said(tmp_path):
    if any(pathlib.Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("a GPU is there, so the plugin loads")
    told = run(tmp_path, JAX_PLATFORMS=None, JAX_SKIP_CUDA_CONSTRAINTS_CHECK=None)
    assert "the CUDA plugin gives no topology" in told
    assert "JAX_PLATFORMS=cpu" in told


def test_the_program_for_a_target_has_pins_of_its_own(tmp_path):
    from fusegate.evidence.pins import PinSession

    @fg.island
    def fold(x):
        return x * 2 + 1

    path, x = tmp_path / "fusegate-pins.toml", jnp.ones(64)
    session = PinSession(path, "update")
    session(fold, x, name="fold")
    session(fold, x, name="fold", target="cuda:h100")
    session.write()
    text = path.read_text()
    assert "cuda:h100" in text
    assert text.count("traces = ") == 1, "nothing of the target is traced or compiled by a call"
    PinSession(path, "check")(fold, x, name="fold", target="cuda:h100")
    path.write_text(text.replace("launches = 1", "launches = 0"))
    with pytest.raises(fg.PinViolation, match="launches 0 -> 1"):
        PinSession(path, "check")(fold, x, name="fold", target="cuda:h100")
