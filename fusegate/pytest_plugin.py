"""The pytest plugin: strict by default, a fresh ledger per test, and a summary at the end.

Floor 12: uses everything below. Loaded by pytest before any conftest of any project that has fusegate
installed, so it imports no runtime, ever, and stays silent in suites that have no boundary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from fusegate import config, ledger
from fusegate.judge.allow import allow
from fusegate.report import session as sessions
from fusegate.rules import lookup

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from fusegate.evidence.pins import PinSession

_MARKER: Final = (
    "fusegate(mode=..., allow=[...], reason=...): mode of this test, and rules that it lets pass"
)
_totals: Final = pytest.StashKey[sessions.Totals]()
_mistake: Final = pytest.StashKey[str]()
_WORKER_KEY: Final = "fusegate"
_pins: Final = pytest.StashKey["PinSession"]()
_written: Final = pytest.StashKey[list[str]]()
_unwritten: Final = pytest.StashKey[str]()
_PINS_KEY: Final = "fusegate-pins"
_PIN_MODES: Final = ("check", "update", "off")


class _Sessions:
    """The modes asked for by the sessions of this process: pytester runs one inside another."""

    asked: Final[list[config.Mode | None]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the command-line options."""
    group = parser.getgroup("fusegate", "fusegate: jit boundaries")
    group.addoption(
        "--fusegate",
        choices=[mode.value for mode in config.Mode],
        help="mode of the suite: strict (the default), warn or off",
    )
    group.addoption(
        "--fusegate-json", metavar="FILE", help="write the figures of the session as JSON"
    )
    group.addoption(
        "--fusegate-pins",
        choices=_PIN_MODES,
        default="check",
        help="hold programs to the pin file (check, the default), write it (update), or leave it alone (off)",
    )


def pytest_configure(config: pytest.Config) -> None:  # noqa: D103
    config.addinivalue_line("markers", _MARKER)
    config.stash[_totals] = sessions.Totals()
    _check_target(config)
    _check_pins(config)
    _set_mode(config.getoption("--fusegate"), entering=True)


def pytest_unconfigure() -> None:  # noqa: D103
    _set_mode(None, entering=False)


def _set_mode(asked: str | None, *, entering: bool) -> None:
    """Applies the mode of the innermost session; the one around it gets its own back at the end."""
    if entering:
        _Sessions.asked.append(None if asked is None else config.as_mode(asked))
    elif _Sessions.asked:
        ended = _Sessions.asked.pop()
        if ended is not None:
            config.set_mode(next((m for m in reversed(_Sessions.asked) if m is not None), None))
    if _Sessions.asked and _Sessions.asked[-1] is not None:
        config.set_mode(_Sessions.asked[-1])
    config.set_plugin_mode(config.Mode.STRICT if _Sessions.asked else None)


def _check_target(config: pytest.Config) -> None:
    """Refuses a `--fusegate-json` that cannot be written before any test has run."""
    target = _target(config)
    if target is None or _is_worker(config):
        return
    if target.is_dir():
        raise pytest.UsageError(f"--fusegate-json {target} is a directory")
    if not target.parent.is_dir():
        raise pytest.UsageError(f"--fusegate-json: there is no directory {target.parent}")


def _pin_file(config: pytest.Config) -> Path:
    folder = config.rootpath / "tests"
    return (folder if folder.is_dir() else config.rootpath) / "fusegate-pins.toml"


def _check_pins(config: pytest.Config) -> None:
    """Refuses a pin file that cannot be read before any test has run."""
    path = _pin_file(config)
    if config.getoption("--fusegate-pins") == "off" or not path.exists():
        return
    from fusegate.evidence import pinfile

    try:
        pinfile.read(path)
    except ValueError as error:
        raise pytest.UsageError(f"--fusegate-pins: {error}") from None


def _pin_session(config: pytest.Config) -> PinSession:
    """The pins of the session, made when a test first asks for them."""
    from fusegate.evidence.pins import PinSession

    if _pins not in config.stash:
        config.stash[_pins] = PinSession(_pin_file(config), config.getoption("--fusegate-pins"))
    return config.stash[_pins]


@pytest.fixture
def fusegate_pins(pytestconfig: pytest.Config) -> Callable[..., Any]:
    """Holds a program to its pins: `fusegate_pins(prove, *args)`, see `fusegate.evidence.pins`."""
    from fusegate.evidence.pins import NotPinnedHereError

    session = _pin_session(pytestconfig)

    def hold(
        f: Any,
        *args: Any,
        name: str | None = None,
        runtime: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        __tracebackhide__ = True
        try:
            return session(f, *args, name=name, runtime=runtime, **kwargs)
        except NotPinnedHereError as error:
            pytest.skip(f"fusegate pins: {error}")

    return hold


def _target(config: pytest.Config) -> Path | None:
    name = config.getoption("--fusegate-json")
    return config.invocation_params.dir / name if name else None


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workeroutput")  # set by pytest-xdist


def pytest_report_header(config: pytest.Config) -> str | None:  # noqa: D103
    asked = config.getoption("--fusegate")
    return f"fusegate: {asked}" if asked else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs setup, call and teardown of a test on a ledger of its own, as its marker says."""
    with ledger.fresh_ledger() as fresh:
        try:
            with _as_marked(item):
                return (yield)
        finally:
            item.config.stash[_totals].add(fresh.snapshot(), item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test whose marker says something that cannot be understood."""
    mistake = item.stash.get(_mistake, None)
    if mistake is not None:
        pytest.fail(f"@pytest.mark.fusegate: {mistake}", pytrace=False)


@contextmanager
def _as_marked(item: pytest.Item) -> Iterator[None]:
    with ExitStack() as scopes:
        try:
            mode, allowed = _marked(item)
        except (TypeError, ValueError) as error:  # the test fails with it, in its setup
            item.stash[_mistake] = str(error)
        else:
            if mode is not None:
                scopes.enter_context(config.mode(mode))
            for codes, reason in allowed:
                scopes.enter_context(allow(*codes, reason=reason))
        yield


def _marked(item: pytest.Item) -> tuple[config.Mode | None, list[tuple[list[str], str]]]:
    """Reads the markers of a test: the mode of the closest one that names one, every `allow`.

    Raises:
        TypeError: A marker has an argument that it does not know, or of a wrong type.
        ValueError: A mode or a rule is unknown.
    """
    mode = None
    allowed = []
    for marker in item.iter_markers("fusegate"):
        closest, codes, reason = _read(marker)
        mode = mode or closest
        if codes:
            allowed.append((codes, reason))
    return mode, allowed


def _read(marker: pytest.Mark) -> tuple[config.Mode | None, list[str], str]:
    if marker.args:
        raise TypeError("takes keywords only: mode=, allow=, reason=")
    unknown = sorted(set(marker.kwargs) - {"mode", "allow", "reason"})
    if unknown:
        raise TypeError(f"has no argument {unknown[0]!r}; known are mode, allow, reason")
    mode = config.as_mode(marker.kwargs["mode"]) if "mode" in marker.kwargs else None
    codes = marker.kwargs.get("allow", ())
    if isinstance(codes, str) or not isinstance(codes, Sequence | set | frozenset):
        raise TypeError(f'allow= takes a list of codes, as ["FG201"], not {type(codes).__name__}')
    for code in codes:
        if not isinstance(code, str):
            raise TypeError(f"allow= takes codes as words, not {type(code).__name__}")
        lookup(code)
    reason = marker.kwargs.get("reason", "allowed by the marker of a test")
    if not isinstance(reason, str) or not reason.strip():
        raise TypeError("reason= takes words")
    if "reason" in marker.kwargs and not codes:
        raise TypeError("reason= belongs to allow=, which names no rule")
    return mode, sorted(codes), reason


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends the figures of an xdist worker to its controller; writes those of the session."""
    totals = session.config.stash[_totals]
    if _is_worker(session.config):
        # Text: the channel between the processes takes no nested Python types of ours.
        output: dict[str, str] = session.config.workeroutput  # type: ignore[attr-defined]
        output[_WORKER_KEY] = json.dumps(totals.data())
        if _pins in session.config.stash:
            output[_PINS_KEY] = json.dumps(session.config.stash[_pins].data())
        return
    if session.config.getoption("--fusegate-pins") == "update" and _pins in session.config.stash:
        try:
            session.config.stash[_written] = session.config.stash[_pins].write()
        except (ValueError, OSError) as error:  # spoilt by a test, or by somebody else meanwhile
            session.config.stash[_unwritten] = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
    target = _target(session.config)
    if target is not None:
        target.write_text(json.dumps(totals.data(), indent=2) + "\n", encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001
    """Takes in the figures of an xdist worker; one that crashed sends none."""
    sent = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
    if sent is not None:
        node.config.stash[_totals].merge(json.loads(sent))
    pins = getattr(node, "workeroutput", {}).get(_PINS_KEY)
    if pins is not None:
        _pin_session(node.config).merge(json.loads(pins))


def _pin_lines(config: pytest.Config) -> list[str]:
    """What was written to the pin file, and what could not be checked against it."""
    if _pins not in config.stash:
        return []
    session = config.stash[_pins]
    lines = [f"pins not checked: {name}: {why}" for name, why in session.skipped.items()]
    for text, count in session.advice.items():
        told, *more = text.splitlines()
        lines.append(f"advice: {told}" + (f" ({count}x)" if count > 1 else ""))
        lines += [f"   {line}" for line in more]
    if _unwritten in config.stash:
        lines.append(f"pins: nothing is written: {config.stash[_unwritten]}")
    if _written in config.stash:
        changes = config.stash[_written]
        lines.append(f"pins: {len(changes)} figures written to {_pin_file(config)}")
        lines += [f"     {line}" for line in changes]
    return lines


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Prints what the boundaries of the suite did; nothing where there are none."""
    totals = terminalreporter.config.stash[_totals]
    lines = [*totals.lines(), *_pin_lines(terminalreporter.config)]
    if not lines:
        return
    terminalreporter.section("fusegate", cyan=True)
    for line in lines:
        terminalreporter.write_line(line)
    target = _target(terminalreporter.config)
    if target is not None:
        terminalreporter.write_line(f"written to {target}")
