"""FG102: the same code is built anew and compiled to an identical program again."""

from __future__ import annotations

from fusegate.errors import Finding, Location
from fusegate.rules import Severity


def check_rebuilt(
    name: str,
    role: str,
    defined: Location | None,
    location: Location | None,
    times: int,
    *,
    enforced: bool,
    loop: bool,
) -> Finding:
    """A further compile of a program that another object of the same code was compiled to.

    Args:
        name: Name of the callable.
        role: `island`, `jit`, `loop body`.
        defined: Where its code is.
        location: The program's line that compiles.
        times: Which identical compile this is.
        enforced: Whether it belongs to a boundary or happens in a driver; advice elsewhere.
        loop: Whether it is the body of an eager loop.
    """
    what = "the body of an eager loop" if loop else "a callable"
    seen = (
        f"compile {times} of an identical program from this line: {what} that is built anew per call never "
        "meets the runtime's caches"
    )
    fix = (
        "define the body once, at module level, or run the loop inside an island"
        if loop
        else "define it once, at module level or as a method of the class; bind values with fusegate.bind, "
        "and give a closure that is built per call a stable identity with @fusegate.stable"
    )
    return Finding(
        "FG102",
        name,
        location,
        seen,
        role,
        defined,
        fix=fix,
        severity=None if enforced else Severity.ADVICE,
    )
