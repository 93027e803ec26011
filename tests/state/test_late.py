"""Without a runtime, and before one: classes wait, and are registered when frx or jax is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

HEAD = """
import sys
from fusegate.state.declare import state, meta
from fusegate.state.bind import bind, stable
from fusegate.state.keys import value_key

@state
class Sponge:
    lanes: object
    rate: int = meta(default=8)

@state(slots=True)
class Slotted:
    lanes: object

class Fast(Sponge):
    pass

loaded = {"jax", "frx", "jaxlib", "numpy", "equinox"} & set(sys.modules)
assert not loaded, loaded
early = Sponge(3, rate=(1, "a")), Fast(2), Slotted([1])
assert value_key((1, 2.0)) and bind(len, ()) is bind(len, ())
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", HEAD + program],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ORDERS = {
    "frx": ["import frx as J", "import frx; import jax as J", "import frx.numpy; import frx as J"],
    "jax": [
        "import jax as J",
        "import jax.numpy; import jax as J",
        "from jax import tree_util; import jax as J",
    ],
}


def test_a_class_is_registered_when_a_runtime_is_imported(runtime):
    for order in ORDERS[runtime]:
        done = run(
            f"{order}\n"
            "assert [len(J.tree.leaves(item)) for item in early] == [1, 1, 1]\n"
            "runs = []\n"
            "through = J.jit(lambda s: (runs.append(1), s)[1])\n"
            "out = through(through(Sponge(J.numpy.ones(2), rate=(1, 'a'))))\n"
            "assert out.rate == (1, 'a') and len(runs) == 1\n"
            "assert J.tree.structure(early[0]) == J.tree.structure(out)\n"
            "print(J.__name__, len(J.tree.leaves(Slotted([1, 2]))))\n"
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{runtime} 2\n"


def test_a_class_made_in_the_middle_of_an_import_waits(runtime, tmp_path):
    done = run(
        f"import {runtime} as J\n"
        "from fusegate.runtime import registry, resolve\n"
        "real, J.jit = J.jit, None\n"
        "del J.jit\n"
        "resolve._cached.clear()\n"
        "@state\n"
        "class During:\n"
        "    lanes: object\n"
        "assert len(registry.PENDING) == 1\n"
        "J.jit = real\n"
        "assert len(J.tree.leaves(During([1, 2]))) == 2 and not registry.PENDING\n"
    )
    assert done.returncode == 0, done.stderr


def test_jax_before_frx_is_told_by_the_first_state(runtime):
    if runtime != "frx":
        pytest.skip("needs FRX beside JAX")
    done = run(
        "import jax\nimport frx\nSponge(1, rate=2)\n@state\nclass Late:\n    lanes: object\n"
    )
    assert done.returncode == 1
    assert "RuntimeOrderError: jax was imported before frx" in done.stderr
