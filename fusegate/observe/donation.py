"""What becomes of donated buffers: read off the traced program before it is lowered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusegate.runtime import arrays, jaxprs

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Donated:
    """One donated input of a boundary.

    Attributes:
        path: Where it is among the arguments, `state.table`; its number where no paths were given.
        shape: As `f32[256]`.
        read: Whether the program uses it at all; the runtime drops it silently where not.
        usable: Whether a result can take its buffer over.
    """

    path: str
    shape: str
    read: bool
    usable: bool


@dataclass(frozen=True, slots=True)
class Donations:
    """The donated inputs of one traced program.

    Attributes:
        inputs: In the order of the arguments.
        results: Shapes of the results that a buffer could be reused for.
    """

    inputs: tuple[Donated, ...] = ()
    results: tuple[str, ...] = ()


def donation_facts(program: Any, donated: Sequence[bool], paths: Sequence[str] = ()) -> Donations:
    """Returns what becomes of the donated inputs of a program.

    The runtime's own rule decides; where it cannot be asked, a buffer is taken for usable if a result
    has its shape and dtype, each result once.

    Args:
        program: The closed jaxpr of a boundary's body.
        donated: One flag per input of the program, in the order of its flat arguments.
        paths: The user's path of each input.

    Raises:
        ValueError: The flags are not one per input.
    """
    if not any(donated):
        return Donations()
    shapes = jaxprs.input_shapes(program)
    if len(donated) != len(shapes):
        raise ValueError(f"{len(donated)} donation flags for {len(shapes)} inputs")
    results = jaxprs.result_shapes(program)
    read = jaxprs.read_inputs(program)
    # A dropped input takes no result away from one that is read.
    flags = [given and used for given, used in zip(donated, read, strict=True)]
    usable = jaxprs.usable_donations(program, flags)
    if usable is None:
        usable = _by_shape(shapes, flags, results)
    return Donations(
        tuple(
            Donated(paths[i] if i < len(paths) else f"argument {i}", shapes[i], read[i], usable[i])
            for i, given in enumerate(donated)
            if given
        ),
        tuple(results),
    )


def _by_shape(shapes: list[str], donated: list[bool], results: list[str]) -> list[bool]:
    free = Counter(results)
    usable: list[bool] = []
    for shape, given in zip(shapes, donated, strict=True):
        taken = given and free[shape] > 0
        free[shape] -= int(taken)
        usable.append(taken)
    return usable


def donated_on_host(leaves: Sequence[Any], donated: Sequence[bool]) -> list[int]:
    """The numbers of the donated inputs that a call passes as numpy arrays.

    Args:
        leaves: The flat arguments of the call, static ones left out.
        donated: One flag per leaf.
    """
    return [
        number
        for number, (leaf, given) in enumerate(zip(leaves, donated, strict=True))
        if given and arrays.is_host_array(leaf)
    ]
