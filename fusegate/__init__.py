"""fusegate: declared, checked jit boundaries for FRX and JAX.

Importing this package imports no array library: the runtime is whichever of frx and jax the program has
imported when a decorated function is first called.

PYTEST_DONT_REWRITE: the plugin is loaded before pytest could rewrite anything here, and nothing here asserts.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusegate.boundaries.declare import (
        BoundaryFunction as BoundaryFunction,
        island as island,
        round_body as round_body,
        single_zone as single_zone,
    )
    from fusegate.boundaries.driver import driver as driver, host_op as host_op
    from fusegate.boundaries.freeze import freeze as freeze, frozen as frozen
    from fusegate.config import Mode as Mode, mode as mode, set_mode as set_mode
    from fusegate.errors import (
        Cause as Cause,
        DeclarationViolation as DeclarationViolation,
        Finding as Finding,
        FusegateError as FusegateError,
        Location as Location,
        ObserverFault as ObserverFault,
        PinViolation as PinViolation,
        RuntimeOrderError as RuntimeOrderError,
        StateViolation as StateViolation,
        TraceViolation as TraceViolation,
        TransferViolation as TransferViolation,
        Violation as Violation,
        ViolationWarning as ViolationWarning,
    )
    from fusegate.evidence.diff import EvidenceDiff as EvidenceDiff
    from fusegate.evidence.gather import evidence as evidence
    from fusegate.evidence.measure import Measurement as Measurement, measure as measure
    from fusegate.evidence.model import Evidence as Evidence
    from fusegate.judge.allow import allow as allow
    from fusegate.ledger import reset as reset
    from fusegate.observe.evidence import Kernel as Kernel
    from fusegate.report.model import (
        DriverStats as DriverStats,
        Report as Report,
        Stats as Stats,
        report as report,
        stats as stats,
    )
    from fusegate.state.bind import bind as bind, stable as stable
    from fusegate.state.content import by_content as by_content
    from fusegate.state.declare import meta as meta, replace as replace, state as state

__version__ = "0.1.0"

_HOMES: dict[str, str] = {
    "boundaries.declare": "BoundaryFunction island round_body single_zone",
    "boundaries.driver": "driver host_op",
    "boundaries.freeze": "freeze frozen",
    "config": "Mode mode set_mode",
    "errors": "Cause DeclarationViolation Finding FusegateError Location ObserverFault PinViolation "
    "RuntimeOrderError StateViolation TraceViolation TransferViolation Violation ViolationWarning",
    "evidence.diff": "EvidenceDiff",
    "evidence.gather": "evidence",
    "evidence.measure": "Measurement measure",
    "evidence.model": "Evidence",
    "judge.allow": "allow",
    "ledger": "reset",
    "observe.evidence": "Kernel",
    "report.model": "DriverStats Report Stats report stats",
    "state.bind": "bind stable",
    "state.content": "by_content",
    "state.declare": "meta replace state",
}
"""Module below `fusegate` -> the public names that live there."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the table above is the one list of public names


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'fusegate' has no attribute {name!r}")
    found = getattr(import_module(f"fusegate.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The package, in which `evidence`, `report` and `state` are the functions, not the folders of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds a submodule to its parent when it is first imported.
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
