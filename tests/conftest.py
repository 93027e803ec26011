"""Chooses the runtime of this pytest process and shares the fixtures of the suite.

FRX and JAX cannot share a process, so the suite runs once per runtime: `FUSEGATE_RUNTIME=jax` (the
default) or `frx`. The runtime is imported here, before anything that imports `jax`; with FRX first,
`import jax` in a test is FRX.
"""

import os
from collections.abc import Callable, Iterator
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


@pytest.fixture
def strict() -> Iterator[None]:
    """Strict mode, and a ledger of the test's own."""
    import fusegate
    from fusegate.ledger import fresh_ledger

    with fusegate.mode("strict"), fresh_ledger():
        yield


@pytest.fixture
def plugin_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Runs pytest on what pytester holds, in a process of its own, with fusegate's plugin and no other."""
    for name in [name for name in os.environ if name.startswith(("FUSEGATE_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "-p", "fusegate.pytest_plugin", "-p", "no:cacheprovider", *options
        )

    return run


frx_only = pytest.mark.skipif(RUNTIME != "frx", reason="needs FRX")
jax_only = pytest.mark.skipif(RUNTIME != "jax", reason="needs JAX")
