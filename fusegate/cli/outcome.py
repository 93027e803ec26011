"""How a program ended, the report on it, and the exit status that follows."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fusegate import ledger
from fusegate.cli import absolute
from fusegate.cli.program import Program, without_own_frames
from fusegate.cli.waiting import Waiting

if TYPE_CHECKING:
    from rich.console import Console

    from fusegate.report import Report

VIOLATIONS: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Targets:
    """The files that a report is written to."""

    json: Path | None = None
    html: Path | None = None


def check_targets(json_file: str | None, html_file: str | None, script: str | None) -> Targets:
    """Makes sure before the program runs that its report can be written after it.

    An existing file is written over, as by any option that names an output; the program itself is not.

    Args:
        json_file: What `--json` names.
        html_file: What `--html` names.
        script: The program's file, where it is one.

    Raises:
        click.UsageError: A file cannot be written, or both are the same.
    """
    targets = Targets(
        absolute(json_file) if json_file is not None else None,
        absolute(html_file) if html_file is not None else None,
    )
    for option, path in (("--json", targets.json), ("--html", targets.html)):
        if path is None:
            continue
        if path.is_dir():
            raise click.UsageError(f"{option} {path} is a directory")
        if not path.parent.is_dir():
            raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.UsageError(f"{option} {path} cannot be written")
        if script is not None and path.exists() and _same(path, Path(script)):
            raise click.UsageError(f"{option} {path} is the program itself")
    if targets.json is not None and targets.json == targets.html:
        raise click.UsageError("--json and --html name the same file")
    return targets


def _same(path: Path, script: Path) -> bool:
    return script.exists() and path.samefile(script)


def run_and_report(program: Program, targets: Targets) -> int:
    """Runs a program and reports on its boundaries.

    Args:
        program: What to run.
        targets: Where to write the report besides the terminal.

    Returns:
        The exit status of the command.
    """
    from rich.console import Console

    from fusegate.report import model

    # The stream of now: the program may close or replace its own.
    console = Console(file=sys.stderr, highlight=False)
    with Waiting(console):
        status = _status_of(program)
    # What cannot be flushed is the interpreter's to report, when it closes the stream for good.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    report = model.report_of(ledger.current().snapshot())
    _print(report, console)
    written = _write(report, targets)
    if status:
        return status
    if not written:
        return USAGE
    return 0 if report.clean else VIOLATIONS


def _status_of(program: Program) -> int:
    """Runs a program to its end, whatever that is; prints the traceback of an exception."""
    try:
        program.execute()
    except click.ClickException as error:
        # Raised before any line of the module ran; one of the program's own has its frames.
        if without_own_frames(error.__traceback__) is None:
            raise
        return _print_exception(error)
    except SystemExit as leaving:
        if leaving.code is None:
            return 0
        if isinstance(leaving.code, int):
            return int(leaving.code)
        print(leaving.code, file=sys.stderr)  # noqa: T201 - as Python does
        return 1
    except BaseException as error:  # noqa: BLE001 - printed as Python does, and the status says so
        return _print_exception(error)
    return 0


def _print_exception(error: BaseException) -> int:
    traceback = without_own_frames(error.__traceback__)
    error = error.with_traceback(traceback)
    try:
        sys.excepthook(type(error), error, traceback)
    except BaseException as broken:  # noqa: BLE001 - a hook of the program's that fails: both, as Python
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.__excepthook__(type(error), error, traceback)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _print(report: Report, console: Console) -> None:
    from fusegate.report import text

    if console.file.closed:  # nowhere left to print to; files and exit status still tell
        return
    console.print()
    text.print_report(report, console)
    running = [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.current_thread()
    ]
    if len(running) == 1:
        console.print("\n1 thread still runs: what it does from here is not above")
    elif running:
        console.print(f"\n{len(running)} threads still run: what they do from here is not above")
    console.file.flush()


def _write(report: Report, targets: Targets) -> bool:
    written = True
    for path, render in ((targets.json, report.to_json), (targets.html, report.to_html)):
        if path is None:
            continue
        try:
            path.write_text(render() + "\n", encoding="utf-8")
        except OSError as error:  # it could be written when the program started
            click.echo(f"Error: cannot write {path}: {error.strerror}", err=True)
            written = False
    return written
