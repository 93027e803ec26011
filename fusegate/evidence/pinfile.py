"""The pin file: `tests/fusegate-pins.toml`, one table per boundary and environment, one line per figure."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fusegate.judge.pinned import CODES

Row = Mapping[str, int | float | Mapping[str, int]]
"""Figure -> value; of a table, counts by kind."""
Pins = dict[str, dict[str, Row]]
"""Name of a boundary -> environment, `frx 0.10.2 cpu` -> its figures."""

TABLES: Final = ("kernels", "primitives", "calls")
"""Figures that are not compared and tell what is new: launches by kind, equations by primitive, nested jits."""
ORDER: Final = (*CODES, "runtime", *TABLES)
"""All figures, in the order in which they are written. A row may leave any of them out."""
_HEAD: Final = (
    "Figures that the programs of this suite are held to: pytest --fusegate-pins=check (the default).",
    "pytest --fusegate-pins=update writes what it finds; comments stay.",
)


def read(path: Path) -> Pins:
    """Reads the pins; none where there is no file.

    Raises:
        ValueError: The file is no TOML, or holds what is no pin. The message names the file and the place.
    """
    if not path.exists():
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not readable as TOML: {error}") from None
    for name, environments in document.items():
        _check_table(path, name, environments)
        for environment, row in environments.items():
            place = f"{name}.{environment}"
            _check_table(path, place, row)
            for figure, value in row.items():
                _check_figure(path, place, figure, value)
    return document


def _check_table(path: Path, place: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: [{place}] is {type(value).__name__}, not a table")


def _check_figure(path: Path, place: str, figure: str, value: Any) -> None:
    if figure not in ORDER:
        raise ValueError(
            f"{path}: [{place}] has no figure {figure!r}; known are {', '.join(ORDER)}"
        )
    if figure in TABLES:
        good = isinstance(value, dict) and all(map(_is_count, value.values()))
        wanted = "a table of integers >= 0"
    elif figure == "runtime":
        good, wanted = _is_ratio(value), "a number > 0"
    else:
        good, wanted = _is_count(value), "an integer >= 0"
    if not good:
        raise ValueError(f"{path}: [{place}] {figure} is not {wanted}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_ratio(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < value < math.inf


def write(path: Path, rows: Pins) -> list[str]:
    """Writes figures into the pin file; what is not among them stays, comments included.

    Args:
        path: The file; made where there is none.
        rows: The figures found.

    Returns:
        What was changed, one line per figure: `prove.frx 0.10.2 cpu: launches 3 -> 4`. Empty where nothing
        was, and the file is then left alone.

    Raises:
        ValueError: The file that is there cannot be read; it is left as it is.
    """
    import tomlkit

    before = read(path)
    changes = changes_of(before, rows)
    if not changes:
        return []
    if path.exists():
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    else:
        document = tomlkit.document()
        for line in _HEAD:
            document.add(tomlkit.comment(line))
    for name, environments in sorted(rows.items()):
        if name not in document:
            document.add(name, tomlkit.table(is_super_table=True))
        boundary: Any = document[name]
        for environment, row in sorted(environments.items()):
            if environment not in boundary:
                boundary.add(environment, tomlkit.table())
            table: Any = boundary[environment]
            for figure in ORDER:
                if figure in row:
                    _set(table, figure, row[figure])
                elif figure in table:
                    del table[figure]
    # Written beside and moved into place: an interrupted run leaves the old file or the new one.
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(tomlkit.dumps(document), encoding="utf-8")
    os.replace(beside, path)
    return changes


def _set(table: Any, figure: str, value: float | Mapping[str, int]) -> None:
    import tomlkit

    if isinstance(value, (int, float)):
        if table.get(figure) != value:
            table[figure] = value
        return
    if dict(table.get(figure, {})) != dict(value):
        inline = tomlkit.inline_table()
        inline.update(sorted(value.items()))
        table[figure] = inline


def changes_of(before: Pins, rows: Pins) -> list[str]:
    """What writing would change, one line per figure; of a table, the counts that differ."""
    lines = []
    for name, environments in sorted(rows.items()):
        for environment, row in sorted(environments.items()):
            old = before.get(name, {}).get(environment, {})
            for figure in ORDER:
                if old.get(figure) != row.get(figure):
                    change = _change(old.get(figure), row.get(figure))
                    lines.append(f"{name}, {environment}: {figure} {change}")
    return lines


def _change(*sides: float | Mapping[str, int] | None) -> str:
    old, new = sides
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        kinds = sorted(old.keys() | new.keys())
        return ", ".join(
            f"{kind} {old.get(kind, 0)} -> {new.get(kind, 0)}"
            for kind in kinds
            if old.get(kind, 0) != new.get(kind, 0)
        )
    return " -> ".join(map(_shown, sides))


def _shown(value: float | Mapping[str, int] | None) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return ", ".join(f"{count} {kind}" for kind, count in sorted(value.items()))
