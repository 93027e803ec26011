"""How strict, and with which thresholds: modes, the environment, and `[tool.fusegate]`.

Floor 2: imports the ground below it. This file holds the process-wide settings; nothing else does.
A mode is resolved when something is judged, never stored in a jit key, so switching it costs no trace.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

ModeName = Literal["strict", "warn", "off"]


class Mode(StrEnum):
    """What a violation does: raise (`strict`), warn and count (`warn`), nothing at all (`off`)."""

    STRICT = "strict"
    WARN = "warn"
    OFF = "off"


def as_mode(value: Mode | str) -> Mode:
    """Returns the mode of a word.

    Args:
        value: `strict`, `warn` or `off`, or a `Mode`.

    Raises:
        TypeError: `value` is not a string.
        ValueError: `value` names no mode.
    """
    if not isinstance(value, str):
        raise TypeError(f"a mode is a word or a Mode, not {type(value).__name__}")
    try:
        return Mode(value.lower())
    except ValueError:
        known = ", ".join(Mode)
        raise ValueError(f"unknown mode {value!r}; the modes are {known}") from None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The figures at which rules speak, all settable in `[tool.fusegate]`.

    Attributes:
        unrolled_equations: FG207, equations from one line in one repeated pattern.
        captured_bytes: FG208, bytes of closed-over constants.
        slow_dispatches: FG210, warm misses of the fast path in a row.
        zone_shapes: FG212, shapes of one round body in one zone.
        item_launches: FG304, launches of one boundary in a row.
        driver_observed_calls: Calls of a driver that warn observes fully before it samples.
        driver_sample_every: Afterwards, one call in this many is observed.
    """

    unrolled_equations: int = 500
    captured_bytes: int = 4 * 1024 * 1024
    slow_dispatches: int = 8
    zone_shapes: int = 8
    item_launches: int = 16
    driver_observed_calls: int = 8
    driver_sample_every: int = 64


MARKER_REGIONS: Final = frozenset({"zorch.fused_region"})
"""Composites whose body is rewritten into one kernel, so that a call inside it blocks the rewrite."""


@dataclass(frozen=True, slots=True)
class Project:
    """The `[tool.fusegate]` table of the nearest pyproject.toml.

    Attributes:
        path: The file it came from; None where there is none.
        mode: Its `mode`.
        modes: Its `modes`: module pattern -> mode.
        thresholds: Its thresholds, defaults where it sets none.
        fused_regions: Names of composites that are marker regions, beside `zorch.fused_region`.
    """

    path: Path | None = None
    mode: Mode | None = None
    modes: Mapping[str, Mode] = field(default_factory=dict)
    thresholds: Thresholds = Thresholds()
    fused_regions: frozenset[str] = MARKER_REGIONS

    def mode_of(self, module: str) -> Mode | None:
        """The mode for a module: the longest matching pattern of `modes`, else `mode`."""
        matching = [p for p in self.modes if _pattern_matches(p, module)]
        return self.modes[max(matching, key=len)] if matching else self.mode


def _pattern_matches(pattern: str, module: str) -> bool:
    """Whether a pattern names a module; `pkg.*` names the package itself as well."""
    return fnmatch.fnmatchcase(module, pattern) or (
        pattern.endswith(".*") and module == pattern.removesuffix(".*")
    )


def read_project(path: Path) -> Project:
    """Reads the `[tool.fusegate]` table of a pyproject.toml.

    Args:
        path: The file.

    Returns:
        Its settings; the defaults where the file has no such table.

    Raises:
        ValueError: The file is no TOML, or the table has an unknown key or a wrong value. The message
            names the file and the key.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not readable as TOML: {error}") from None
    table = document.get("tool", {}).get("fusegate", {})
    if not isinstance(table, dict):
        raise ValueError(f"{path}: [tool.fusegate] is {type(table).__name__}, not a table")
    return _project_of(table, path)


def _project_of(table: dict[str, Any], path: Path) -> Project:
    figures = set(Thresholds.__dataclass_fields__)
    known = figures | {"mode", "modes", "fused_regions"}
    for key in table:
        if key not in known:
            choices = ", ".join(sorted(known))
            raise ValueError(f"{path}: [tool.fusegate] has no key {key!r}; known are {choices}")

    def word(key: str, value: Any) -> Mode:
        try:
            return as_mode(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: [tool.fusegate] {key}: {error}") from None

    def figure(key: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{path}: [tool.fusegate] {key}: {value!r} is not an integer >= 1")
        return value

    modes = table.get("modes", {})
    if not isinstance(modes, dict):
        raise ValueError(f"{path}: [tool.fusegate] modes is not a table of pattern = mode")
    regions = table.get("fused_regions", [])
    if not isinstance(regions, list) or not all(isinstance(name, str) for name in regions):
        raise ValueError(f"{path}: [tool.fusegate] fused_regions is not a list of names")
    return Project(
        path=path,
        mode=word("mode", table["mode"]) if "mode" in table else None,
        modes={pattern: word(f"modes.{pattern}", value) for pattern, value in modes.items()},
        thresholds=Thresholds(**{k: figure(k, table[k]) for k in sorted(figures & set(table))}),
        fused_regions=MARKER_REGIONS | frozenset(regions),
    )


@functools.cache
def _project_at(directory: str) -> Project:
    start = Path(directory)
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return read_project(path)
    return Project()


def project() -> Project:
    """Returns the settings of the nearest pyproject.toml at or above the working directory.

    Raises:
        ValueError: Its `[tool.fusegate]` is malformed.
    """
    # Asked on each entry of a driver: os.getcwd() costs a fifth of Path.cwd() and its hash.
    try:
        directory = os.getcwd()
    except OSError:  # the working directory was removed
        return Project()
    return _project_at(directory)


_scoped: ContextVar[Mode | None] = ContextVar("fusegate_mode", default=None)


class _Settings:
    """The process-wide part of the mode: `set_mode` and the pytest plugin's default."""

    chosen: Mode | None = None
    plugin: Mode | None = None


_settings: Final = _Settings()


def set_mode(value: Mode | ModeName | None) -> None:
    """Sets the mode of the process; `None` goes back to the environment and the project's settings.

    Args:
        value: `strict`, `warn` or `off`. A decorator's own `mode=` and an enclosing `with mode()` win.

    Raises:
        TypeError: `value` is neither a word nor None.
        ValueError: `value` names no mode.
    """
    _settings.chosen = None if value is None else as_mode(value)


def set_plugin_mode(value: Mode | None) -> None:
    """Sets what applies where nobody said anything else; the pytest plugin asks for strict here."""
    _settings.plugin = value


@contextmanager
def mode(value: Mode | ModeName) -> Iterator[Mode]:
    """Sets the mode inside a `with` block, for this thread or asyncio task only.

    Args:
        value: `strict`, `warn` or `off`. A decorator's own `mode=` wins over it.

    Yields:
        The mode.

    Raises:
        TypeError: `value` is not a word.
        ValueError: `value` names no mode.

    Example:
        >>> import fusegate
        >>> with fusegate.mode("strict") as current:
        ...     print(current)
        strict
    """
    wanted = as_mode(value)
    token = _scoped.set(wanted)
    try:
        yield wanted
    finally:
        _scoped.reset(token)


def environment_mode() -> Mode | None:
    """The mode that `FUSEGATE_MODE` names; None where it is unset or empty.

    Raises:
        ValueError: It names no mode.
    """
    word = os.environ.get("FUSEGATE_MODE", "")
    if not word:
        return None
    try:
        return as_mode(word)
    except ValueError as error:
        raise ValueError(f"FUSEGATE_MODE: {error}") from None


def resolve(declared: Mode | None = None, module: str = "") -> Mode:
    """Returns the mode that applies now: the first of the resolution order that speaks.

    Args:
        declared: The decorator's own `mode=`.
        module: Module of the decorated function, matched against the project's `modes` patterns.

    Raises:
        ValueError: `FUSEGATE_MODE` or `[tool.fusegate]` is malformed.
    """
    return (
        declared
        or _scoped.get()
        or _settings.chosen
        or environment_mode()
        or project().mode_of(module)
        or _settings.plugin
        or Mode.WARN
    )


def thresholds() -> Thresholds:
    """Returns the thresholds in force.

    Raises:
        ValueError: `[tool.fusegate]` is malformed.
    """
    return project().thresholds
