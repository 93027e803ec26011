"""Shared by the rule tests: run something that must be refused, and look at every part of the verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fusegate as fg


def lines_of(file: str, marker: str) -> set[int]:
    """The lines of a file that carry `# marker`."""
    text = Path(file).read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(text, 1) if line.endswith(f"# {marker}")}


def refused(
    code: str, run, *, kind: str | None = None, path: str | None = None, marker: str | None = None
):
    """Runs `run`, expects the violation, and checks code, cause and the user's line."""
    file = sys._getframe(1).f_code.co_filename
    with pytest.raises(fg.Violation) as caught:
        run()
    found = caught.value
    assert found.code == code, str(found)
    if kind is not None:
        assert found.cause is not None, str(found)
        assert found.cause.kind == kind, str(found)
    if path is not None:
        assert found.cause.path == path, str(found)
    if marker is not None:
        assert found.location.file == file, str(found)
        assert found.location.line in lines_of(file, marker), str(found)
    assert any(item.code == code for item in fg.report().violations), "recorded as well as raised"
    return found
