"""The command line: run a program and report on its boundaries, explain a rule, look at an installation.

Floor 12: uses everything below. Imports no runtime: the program does, or a process of its own does.
Exit status: 0 clean, 1 violations (or a finding of `doctor`), 2 usage, the program's own otherwise.
"""

from __future__ import annotations

from pathlib import Path

import click

from fusegate import __version__, config


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fusegate")
def main() -> None:
    """Checks the jit boundaries of JAX and FRX programs."""


class _RunCommand(click.Command):
    """`run`: like Python's own command line, whatever follows `-m MODULE` or SCRIPT is the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        position = 0
        while position < len(args) and args[position].startswith("-"):
            word = args[position]
            if word == "--":
                break
            if word.startswith("-m"):  # `-m MODULE` or `-mMODULE`
                end = position + (2 if word == "-m" else 1)
                if end <= len(args):
                    args = [*args[:end], "--", *args[end:]]
                break
            position += 2 if word in {"--mode", "--json", "--html"} else 1
        return super().parse_args(ctx, args)


@main.command(
    cls=_RunCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in config.Mode]),
    help="Mode of the process; the program's own and the project's settings where not given.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option("--html", "html_file", metavar="FILE", help="Write the report as a page.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.pass_context
def run(
    ctx: click.Context,
    *,
    mode: config.ModeName | None,
    json_file: str | None,
    html_file: str | None,
    module: str | None,
    words: tuple[str, ...],
) -> None:
    """Run a program, then print the report of its boundaries.

    The program runs as under `python SCRIPT` or `python -m MODULE`, in this process. The report goes
    to standard error, so that the standard output stays the program's own; it comes also where the
    program fails. Exit status: the program's own where it is not 0, else 1 where a rule was violated
    (advice does not count), else 0; 2 where the command line is wrong, before the program starts.
    """
    from fusegate.cli import outcome, program

    check_settings()
    if module is None and not words:
        raise click.UsageError("missing SCRIPT, or -m MODULE")
    script = None if module is not None else words[0]
    targets = outcome.check_targets(json_file, html_file, script)
    if module is not None:
        wanted: program.Program = program.Module(module, words)
    else:
        wanted = program.Script(words[0], words[1:])
    wanted.check()
    if mode is not None:
        config.set_mode(mode)
    ctx.exit(outcome.run_and_report(wanted, targets))


@main.command()
@click.argument("code")
def explain(code: str) -> None:
    """Print the page of a rule: what it means, why it matters, how to fix it.

    CODE is a code (FG201) or a slug (retrace).
    """
    from fusegate.cli import pages

    pages.explain(code)


@main.command()
def rules() -> None:
    """List the rules that this version enforces."""
    from fusegate.cli import pages

    pages.list_rules()


@main.command()
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    type=click.Choice(["frx", "jax"]),
    help="Look at this runtime only; at each one installed where not given.",
)
@click.pass_context
def doctor(ctx: click.Context, runtimes: tuple[str, ...]) -> None:
    """Show versions, settings, and what can be observed on this machine's runtimes.

    Exit status: 1 where no runtime can be imported, or something cannot be observed on one.
    """
    from fusegate.cli import installation

    check_settings()
    ctx.exit(0 if installation.examine(runtimes) else 1)


def check_settings() -> None:
    """Reads `FUSEGATE_MODE` and `[tool.fusegate]` now, so that a mistake stops nothing half-way.

    Raises:
        click.ClickException: One of them is malformed; exit status 2.
    """
    try:
        config.environment_mode()
        config.project()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def absolute(path: str) -> Path:
    """A path that stays the same where the program changes its working directory."""
    return Path(path).expanduser().absolute()
