"""FG301 to FG304: what a driver reads, uploads, dispatches eagerly and dispatches item by item."""

from __future__ import annotations

from typing import Final

from fusegate.errors import Cause, Finding, Location
from fusegate.ledger import Spec

_FIX_READ: Final = (
    "keep the value on the device and read once after the loop; a read that is meant goes into "
    "`with host_op(reason)`, or is declared with max_reads="
)


def _finding(
    code: str,
    driver: Spec,
    location: Location | None,
    seen: str,
    cause: Cause | None = None,
    fix: str = "",
) -> Finding:
    return Finding(code, driver.name, location, seen, driver.role, driver.defined, cause, fix)


def check_read(
    driver: Spec,
    number: int,
    limit: int,
    what: str,
    via: str,
    location: Location | None,
    *,
    guarded: bool,
) -> Finding | None:
    """FG301: a device-to-host read, beyond those that the driver declares.

    Args:
        driver: The driver.
        number: Which read of this call it is.
        limit: How many are declared.
        what: Shape and dtype of the array.
        via: The library's line that reads, as ` through file:line`.
        location: The program's line.
        guarded: Whether the program's own transfer guard disallows the read, whatever is declared.
    """
    if guarded:
        seen = f"Disallowed device-to-host transfer of {what}{via}: the transfer guard in force forbids it"
        return _finding("FG301", driver, location, seen, fix=_FIX_READ)
    if number <= limit:
        return None
    seen = f"device-to-host read {number} of this call, of {what}{via}; max_reads={limit}"
    return _finding("FG301", driver, location, seen, fix=_FIX_READ)


def check_upload(
    driver: Spec, path: str, what: str, python: bool, into: str, location: Location | None
) -> Finding:
    """FG302: a numpy array or a Python number is uploaded by a launch.

    Args:
        driver: The driver.
        path: Which argument it is.
        what: Shape and dtype; of a number, its type.
        python: Whether it is a Python number.
        into: What was launched: "island `fold` (prover.py:8)", "the eager op `add`".
        location: The program's line.
    """
    kind = "a Python number" if python else "a numpy array"
    seen = f"`{path}` is {kind} ({what}), which {into} uploads on each launch"
    if python:
        cause = Cause(
            "python_scalar",
            path,
            what,
            "an array on the device",
            "make it a device array once, before the loop (`jnp.float32(...)` outside of the driver or in "
            "`with host_op(reason)`), or declare it static where it never changes",
        )
    else:
        cause = Cause(
            "leaf_type",
            path,
            f"numpy {what}",
            "an array on the device",
            f"put it on the device once, before the loop: `{path} = jax.device_put({path})`",
        )
    return _finding("FG302", driver, location, seen, cause)


def check_eager(
    driver: Spec, number: int, limit: int, op: str, via: str, location: Location | None
) -> Finding | None:
    """FG303: an op launched outside any boundary, beyond those that the driver declares.

    Args:
        driver: The driver.
        number: Which eager launch of this call it is.
        limit: How many are declared.
        op: Name of the op.
        via: The library's line that launches, as ` through file:line`.
        location: The program's line.
    """
    if number <= limit:
        return None
    seen = f"`{op}` is launched outside any boundary{via}: eager launch {number} of this call, max_eager={limit}"
    fix = (
        "move the op into the island before or after it; a host step that is meant goes into "
        "`with host_op(reason)`, and launches that are meant are declared with max_eager="
    )
    return _finding("FG303", driver, location, seen, fix=fix)


def check_items(
    driver: Spec, boundary: Spec, length: int, threshold: int, location: Location | None
) -> Finding | None:
    """FG304: a run of launches of one boundary on independent items.

    Args:
        driver: The driver around it.
        boundary: The boundary that is launched.
        length: Launches in a row that do not depend on each other's results.
        threshold: How many are too many.
        location: The program's line.
    """
    if length < threshold:
        return None
    seen = (
        f"{boundary.role} `{boundary.name}` ({boundary.defined}) was launched {length} times in a row at one "
        "signature, and no launch needed the result of one before it"
    )
    fix = "launch it once over all items: stack them and call a boundary around jax.vmap of the function"
    return _finding("FG304", driver, location, seen, fix=fix)
