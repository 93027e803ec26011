"""The upstream matrix: `make test-matrix`, or one cell with `nox -s "tests(jax-floor)"`."""

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
# A cell whose interpreter is not on this machine is reported as skipped, also where CI is set.
nox.options.error_on_missing_interpreters = False

PROJECT = nox.project.load_toml("pyproject.toml")
CELLS = [
    nox.param("3.11", "frx", ["frx==0.10.2"], id="frx"),
    nox.param("3.11", "jax", ["jax==0.7.2", "jaxlib==0.7.2"], id="jax-floor"),
    nox.param("3.11", "jax", ["jax==0.10.2", "jaxlib==0.10.2"], id="jax-0.10.2"),
    nox.param("3.12", "jax", ["jax"], id="jax-newest-3.12"),
    nox.param("3.13", "jax", ["jax"], id="jax-newest-3.13"),
]


@nox.session
@nox.parametrize("python,runtime,pins", CELLS)
def tests(session: nox.Session, runtime: str, pins: list[str]) -> None:
    """Runs the suite on one runtime, in one version, on one interpreter."""
    package = ".[frx,zorch]" if runtime == "frx" else "."
    session.install("-e", package, *pins, *nox.project.dependency_groups(PROJECT, "test"))
    session.run("pytest", *(session.posargs or ["-n", "2"]), env={"FUSEGATE_RUNTIME": runtime})
