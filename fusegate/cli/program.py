"""The user's program, run in this process as Python itself would run it."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Protocol

import click

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Program(Protocol):
    """Something that can be run as `__main__`."""

    def check(self) -> None:
        """Makes sure that there is something to run.

        Raises:
            click.UsageError: There is not.
        """

    def execute(self) -> None:
        """Runs it; its exceptions pass through."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file, as in `python SCRIPT ARGS`.

    Attributes:
        path: The file, as it was typed.
        args: Its arguments.
    """

    path: str
    args: tuple[str, ...] = ()

    def check(self) -> None:
        """Makes sure that the file can be read.

        Raises:
            click.UsageError: It cannot.
        """
        if Path(self.path).is_dir():
            raise click.UsageError(f"{self.path} is a directory; -m MODULE runs a package")
        try:
            with open(self.path, "rb"):
                pass
        except OSError as error:
            raise click.UsageError(f"cannot read {self.path}: {error.strerror}") from None

    def execute(self) -> None:
        """Runs the file as `__main__`."""
        path = os.path.abspath(self.path)
        _set_arguments(self.path, self.args, os.path.dirname(os.path.realpath(path)))
        main = _new_main()
        main.__file__ = path
        vars(main)["__cached__"] = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        with io.open_code(path) as file:
            source = file.read()
        _run(compile(source, path, "exec", dont_inherit=True), main)


@dataclass(frozen=True, slots=True)
class Module:
    """A module or a package with a `__main__`, as in `python -m NAME ARGS`.

    Attributes:
        name: Its dotted name.
        args: Its arguments.
    """

    name: str
    args: tuple[str, ...] = ()

    def check(self) -> None:
        """Makes sure that the first part of the name exists; the rest needs code of the program to run.

        Raises:
            click.UsageError: It does not, or it is no module's name.
        """
        _set_import_path(os.getcwd())
        top, *below = self.name.split(".")
        if not all(part.isidentifier() for part in (top, *below)):
            raise click.UsageError(f"{self.name!r} is not the name of a module")
        # `__main__` is this command itself.
        found = importlib.util.find_spec(top) if top != "__main__" else None
        if found is None:
            raise click.UsageError(f"no module named {top}")
        if below and found.submodule_search_locations is None:
            raise click.UsageError(f"no module named {self.name}: {top} is not a package")

    def execute(self) -> None:
        """Runs the module as `__main__`.

        Raises:
            click.UsageError: There is no such module, or nothing to run in it.
        """
        _set_arguments("-m", self.args, os.getcwd())
        spec = self._spec(self.name)
        if spec.submodule_search_locations is not None:
            spec = self._spec(f"{self.name}.__main__")
        get_code = getattr(spec.loader, "get_code", None)
        code = get_code(spec.name) if get_code is not None else None
        if code is None:
            raise click.UsageError(f"no code to run for module {self.name}")
        main = _new_main()
        main.__file__ = spec.origin
        vars(main)["__cached__"] = spec.cached
        main.__loader__ = spec.loader
        main.__package__ = spec.parent
        main.__spec__ = spec
        sys.argv[0] = spec.origin or self.name
        _run(code, main)

    def _spec(self, name: str) -> importlib.machinery.ModuleSpec:
        """Finds a module, importing the packages around it."""
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            # Only where a part of the name itself is missing: another import is the program's matter.
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            spec = None
        if spec is None:
            raise click.UsageError(f"no module named {name}")
        return spec


def _new_main() -> ModuleType:
    """A fresh `__main__`; it stays, since exit handlers and pickles look there."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def _run(code: CodeType, main: ModuleType) -> None:
    exec(code, vars(main))


def _set_arguments(name: str, args: tuple[str, ...], folder: str) -> None:
    sys.argv = [name, *args]
    _set_import_path(folder)


def _set_import_path(folder: str) -> None:
    """Puts the program's folder where Python put that of the `fusegate` command."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback that starts in the program, as if Python had run it.

    Args:
        traceback: Where an exception of the program passed through.
    """
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not (file.startswith((_OWN, "<frozen importlib")) or file == importlib.util.__file__):
            break
        traceback = traceback.tb_next
    return traceback
