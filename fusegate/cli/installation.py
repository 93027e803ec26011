"""What is installed here, which settings apply, and what can be observed on each runtime."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any, Final

import click

from fusegate import __version__, config
from fusegate.runtime import resolve

RUNTIMES: Final = ("frx", "jax")
LIBRARIES: Final = (
    "frx", "frxlib", "jax", "jaxlib", "equinox", "pyzorch", "wrapt", "rich", "click", "jinja2",
)  # fmt: skip

# Each runtime in a process of its own: the two cannot share one, and this one stays without any.
_PROBE: Final = """
import dataclasses, importlib, json, sys
sys.path[:] = json.loads(sys.argv[2])
importlib.import_module(sys.argv[1])
from fusegate.runtime import capabilities
print(json.dumps([dataclasses.asdict(one) for one in capabilities.probe()]))
"""


def examine(runtimes: tuple[str, ...]) -> bool:
    """Prints everything there is to know about this installation.

    Args:
        runtimes: The runtimes to look at; each one installed where none is named.

    Returns:
        Whether at least one runtime works and everything can be observed on each.

    Raises:
        click.UsageError: A runtime that is named is not installed.
    """
    installed = [name for name in RUNTIMES if importlib.util.find_spec(name) is not None]
    for name in runtimes:
        if name not in installed:
            raise click.UsageError(f"{name} is not installed here")
    _print_versions()
    _print_settings()
    _print_choice(installed)
    if not installed:
        return False
    complete = [_print_runtime(name) for name in runtimes or installed]
    return all(complete)


def _print_versions() -> None:
    click.echo(f"{'python':14}{platform.python_version()} ({sys.executable})")
    click.echo(f"{'fusegate-jit':14}{__version__}")
    for name in LIBRARIES:
        click.echo(f"{name:14}{_version(name)}")


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _print_settings() -> None:
    path = config.project().path
    click.echo(f"\nmode          {config.resolve()}")
    click.echo(f"FUSEGATE_MODE {config.environment_mode() or 'not set'}")
    click.echo(f"settings      {path or 'no pyproject.toml here or above'}")


def _print_choice(installed: list[str]) -> None:
    if not installed:
        click.echo("\nruntime       neither frx nor jax is installed: no boundary can be called")
        return
    imported = resolve.loaded()
    click.echo(
        f"\nruntime       chosen by the program: whichever of frx and jax it imports. Installed here: "
        f"{' and '.join(installed)}; imported by this command: {imported.name if imported else 'none'}"
    )


def _print_runtime(name: str) -> bool:
    """Prints what can be observed on one runtime; returns whether that is everything."""
    click.echo(f"\n{name} {_version(name)}")
    found, problem = _probe(name)
    if found is None:
        click.echo(f"  cannot be examined: {problem}")
        return False
    for one in found:
        reason = one["how"] if one["observed"] else f"not observed: {one['why_not']}"
        click.echo(f"  {'yes' if one['observed'] else 'NO':5}{one['name']:42}{reason}")
    return all(one["observed"] for one in found)


def _probe(name: str) -> tuple[list[dict[str, Any]] | None, str]:
    """Asks a process of its own: (what it found, "") or (None, why it failed)."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, name, json.dumps(sys.path)],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "its import takes longer than three minutes"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"its process ended with status {done.returncode}"
    # The last line: a plugin of the runtime may print while it is imported.
    return json.loads(done.stdout.splitlines()[-1]), ""
