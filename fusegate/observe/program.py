"""Facts about one traced program, frozen: what it holds, where, how often. Nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusegate.errors import Location

MARKER: Final = "fusegate.round_body:"
"""How the named scope of a melted round body begins: `fusegate.round_body:<name>#<contract>.<call>`."""

Owner = Literal["user", "dependency", "library"]
"""Whose code a nested jit is: the program's, an installed package's, the runtime's own."""


def contract_of(marker: str) -> str:
    """The marker of a melted call without its call number: what one contract's calls share.

    Example:
        >>> contract_of("fusegate.round_body:fold#3.17")
        'fusegate.round_body:fold#3'
    """
    head, dot, call = marker.rpartition(".")
    return head if dot and call.isdigit() and "#" in head else marker


@dataclass(frozen=True, slots=True)
class Site:
    """Equations of one primitive from one user line.

    Attributes:
        primitive: Its name in the program.
        location: The user line; None where the trace kept none.
        count: How many equations, those of a shared sub-program once per use.
    """

    primitive: str
    location: Location | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class NestedCall:
    """A jit called inside the program, which stays a call in what is lowered.

    Attributes:
        name: Name of the jitted function.
        owner: Whose function it is.
        location: The user line that calls it.
        defined: Where the function is defined; None for a callable object.
        donates: Whether it asks for donated buffers, which a nested jit never gets.
        fused: Name of the marker composite that it stands in; empty outside one.
        count: How many calls.
    """

    name: str
    owner: Owner
    location: Location | None
    defined: Location | None
    donates: bool = False
    fused: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in the program.

    Attributes:
        primitive: `scan` or `while`.
        length: Trip count of a scan; None for a while.
        location: The user line.
        count: How many such loops.
    """

    primitive: str
    length: int | None
    location: Location | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Region:
    """The equations that one contract speaks of, in program order, by user line.

    What is inside a name-routed composite is not among them; what is inside a marker composite is.

    Attributes:
        equations: How many.
        primitives: Primitive -> how often, outside of every composite.
        reductions: Reductions; of the branches of a `cond`, the branch with the most.
        breakers: What cannot ride in one fused kernel.
        unknown: Primitives that the table does not know.
        calls: Nested jits.
        loops: Loops.
    """

    equations: int = 0
    primitives: Mapping[str, int] = field(default_factory=dict)
    reductions: tuple[Site, ...] = ()
    breakers: tuple[Site, ...] = ()
    unknown: tuple[Site, ...] = ()
    calls: tuple[NestedCall, ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def reduction_count(self) -> int:
        """How many reductions."""
        return sum(site.count for site in self.reductions)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Equations that come again and again from one user line of one program.

    Attributes:
        location: The line.
        equations: How many equations belong to the repeated pattern.
        times: How often it is repeated.
        pattern: One round of it, as `mul f32[4]`.
    """

    location: Location
    equations: int
    times: int
    pattern: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClosedOver:
    """An array that the program closes over.

    Attributes:
        shape: As `f32[4194304]`.
        nbytes: Its size.
        on_device: False for a numpy array, which is written into the lowered program; True for a device
            array.
        location: The first line that uses it, looked up for large ones only.
    """

    shape: str
    nbytes: int
    on_device: bool
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """What one traced program holds.

    Attributes:
        equations: All equations: those of a shared sub-program once per use, those of a loop body once.
        own: The equations outside of every melted round body.
        melted: Marker of a melted round body's call -> its equations. A call that only a derivative
            was taken of is left out: its equations are not the ones that its author wrote.
        opaque: What is inside name-routed composites, where no contract looks.
        composites: Name of a composite -> how many.
        callbacks: Host callbacks, wherever they are.
        constants: Arrays that the program closes over.
        repeats: Lines whose equations repeat, the most repeated first.
    """

    equations: int
    own: Region
    melted: Mapping[str, Region]
    opaque: Region
    composites: Mapping[str, int]
    callbacks: tuple[Site, ...]
    constants: tuple[ClosedOver, ...]
    repeats: tuple[Repeat, ...]

    @property
    def constant_bytes(self) -> int:
        """Bytes of all arrays that the program closes over."""
        return sum(constant.nbytes for constant in self.constants)

    @property
    def calls(self) -> tuple[NestedCall, ...]:
        """Nested jits anywhere, name-routed composites included."""
        regions = (self.own, *self.melted.values(), self.opaque)
        return tuple(call for region in regions for call in region.calls)
