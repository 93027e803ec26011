"""Arrays that a traced program closes over: their size, and the line that uses a large one first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusegate.observe.program import ClosedOver
from fusegate.runtime import arrays, jaxprs

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from fusegate.errors import Location

LOCATED_BYTES: Final = 64 * 1024
"""Bytes of a program's constants below which nobody looks for the line that uses them."""


def closed_over(
    program: Any, known: Container[int], line_of: Callable[[Any], Location | None]
) -> dict[int, ClosedOver]:
    """Returns what a program closes over itself, its sub-programs left out.

    Args:
        program: The program.
        known: Arrays that were seen already, by handle: one array counts once.
        line_of: The user line of a stack.

    Returns:
        Handle -> array.
    """
    fresh = [constant for constant in jaxprs.constants(program) if constant.handle not in known]
    users: dict[int, Any] = {}
    if sum(constant.nbytes for constant in fresh) >= LOCATED_BYTES:
        users = _first_users(program, {id(constant.variable) for constant in fresh})
    return {
        constant.handle: ClosedOver(
            arrays.describe_parts(constant.shape, constant.dtype),
            constant.nbytes,
            constant.on_device,
            line_of(users[id(constant.variable)]) if id(constant.variable) in users else None,
        )
        for constant in fresh
    }


def _first_users(program: Any, wanted: set[int]) -> dict[int, Any]:
    """The stack of the first equation that takes each variable."""
    users: dict[int, Any] = {}
    for equation in jaxprs.equations(program):
        for variable in equation.invars:
            if id(variable) in wanted and id(variable) not in users:
                users[id(variable)] = jaxprs.stack_of(equation)
        if len(users) == len(wanted):
            break
    return users
