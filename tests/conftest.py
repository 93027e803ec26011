"""Chooses the runtime of this pytest process and shares the fixtures of the suite.

FRX and JAX cannot share a process, so the suite runs once per runtime: `FUSEGATE_RUNTIME=jax` (the
default) or `frx`. The runtime is imported here, before anything that imports `jax`; with FRX first,
`import jax` in a test is FRX.
"""

import os
from types import SimpleNamespace

import pytest

RUNTIME = os.environ.get("FUSEGATE_RUNTIME", "jax")

if RUNTIME == "frx":
    import frx  # noqa: F401
elif RUNTIME != "jax":
    raise pytest.UsageError(f"FUSEGATE_RUNTIME={RUNTIME}: choose jax or frx")

import jax


@pytest.fixture(scope="session")
def runtime() -> str:
    """Name of the runtime this process runs on."""
    assert jax.__name__ == RUNTIME
    return RUNTIME


@pytest.fixture
def here() -> SimpleNamespace:
    """Helpers that turn a comment in a test's own file into the line it stands on."""

    def line(file: str, marker: str) -> int:
        with open(file, encoding="utf-8") as lines:
            found = [n for n, text in enumerate(lines, 1) if f"# {marker}" in text]
        assert len(found) == 1, f"{marker!r} stands on lines {found}"
        return found[0]

    return SimpleNamespace(line=line)


frx_only = pytest.mark.skipif(RUNTIME != "frx", reason="needs FRX")
jax_only = pytest.mark.skipif(RUNTIME != "jax", reason="needs JAX")
