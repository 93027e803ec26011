"""FG501, FG502 and FG504: a compiled program against what was declared of it. Pure: facts in, findings out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from fusegate.judge.wording import finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusegate.errors import Finding, Location
    from fusegate.ledger import Spec
    from fusegate.observe.evidence import Kernel, ProgramFigures

SHOWN_KERNELS: Final = 6
"""Rows of the kernel table that a message names; the rest is counted."""

FIX_LAUNCHES: Final = (
    "keep what is between two kernels element-wise: a gather, a sort, a dot, a second reduction and a nested "
    "loop each start one of their own"
)
FIX_MEMORY: Final = (
    "work on chunks: jax.lax.map(f, xs, batch_size=...) holds the temporaries of one chunk at a time; donate "
    "an argument that a result replaces"
)
FIX_FLAT: Final = (
    "a Python loop over the size unrolls into kernels of its own: use jax.vmap for independent items and "
    "jax.lax.scan for a carry; in a round body keep every added term element-wise, with one reduction over "
    "their stack"
)


def check_budgets(
    spec: Spec,
    figures: ProgramFigures,
    limits: tuple[int | None, int | None],
    kernels: Sequence[Kernel] = (),
    names: tuple[str, str] = ("max_launches", "max_temp_bytes"),
) -> list[Finding]:
    """Judges a compiled program against its declaration.

    Args:
        spec: The boundary.
        figures: What its program launches and takes.
        limits: Its `max_launches` and `max_temp_bytes`.
        kernels: The table of kernels, for the message.
        names: How the two limits are called where they were given.

    Returns:
        FG501 before FG502, without a line: what is told is true of every call of the program. Nothing for a
        figure that was not observed.
    """
    found: list[Finding] = []
    max_launches, max_temp = limits
    launches = figures.launches
    if max_launches is not None and launches is not None and launches.static > max_launches:
        trips = (
            ""
            if launches.dynamic in {None, launches.static}
            else f" ({launches.dynamic} with trips)"
        )
        evidence: dict[str, Any] = {"launches": launches.static, names[0]: max_launches}
        if launches.dynamic is not None:
            evidence["dynamic_launches"] = launches.dynamic
        found.append(
            finding(
                "FG501",
                spec,
                None,
                f"its program holds {launches.static} launches{trips}, {names[0]}={max_launches}: "
                f"{kernel_list(kernels)}",
                fix=f"{FIX_LAUNCHES}; declare {names[0]}={launches.static} where each one is inherent",
                evidence=evidence,
            )
        )
    if max_temp is not None and figures.temp_bytes is not None and figures.temp_bytes > max_temp:
        found.append(
            finding(
                "FG502",
                spec,
                None,
                f"its program takes {figures.temp_bytes:,} temporary bytes, {names[1]}={max_temp:,}",
                fix=f"{FIX_MEMORY}; declare {names[1]}={figures.temp_bytes} where it is inherent",
                evidence={"temp_bytes": figures.temp_bytes, names[1]: max_temp},
            )
        )
    return found


def check_flat(
    spec: Spec,
    figure: str,
    rows: Sequence[tuple[object, int]],
    grown: Sequence[tuple[Kernel, int, int]],
    location: Location | None,
) -> Finding | None:
    """FG504: a figure that should stay flat while a size grows.

    Args:
        spec: The function.
        figure: Name of the figure, `launches`.
        rows: (size, figure) of each program, the smallest size first.
        grown: (kernel, launches at the first size, launches at the largest figure), the most grown first.
        location: The line of the assertion.

    Returns:
        The finding, with the table; None where no size has more than the first.
    """
    first, most = rows[0][1], max(value for _, value in rows)
    if most <= first:
        return None
    sizes = [str(size) for size, _ in rows]
    width = max(len("size"), *map(len, sizes))
    table = [f"{'size'.rjust(width)}  {figure}"] + [
        f"{size.rjust(width)}  {str(value).rjust(len(figure))}"
        for size, (_, value) in zip(sizes, rows, strict=True)
    ]
    by = [
        f"{kernel_phrase(dataclasses.replace(kernel, launches=after))}, {before} at the first size"
        for kernel, before, after in grown[:3]
    ]
    seen = [f"{figure} grow from {first} to {most} with the size"]
    seen += [f"         {line}" for line in table]
    seen += [f"         grew: {line}" for line in by]
    return finding(
        "FG504",
        spec,
        location,
        "\n".join(seen),
        fix=FIX_FLAT,
        evidence={"figure": figure, "sizes": sizes, "values": [value for _, value in rows]},
    )


def kernel_list(kernels: Sequence[Kernel]) -> str:
    """The kernels of a program in one line: `2 sort at prover.py:12 (sort), 1 fusion kLoop ...`."""
    shown = [kernel_phrase(one) for one in kernels[:SHOWN_KERNELS]]
    more = sum(one.launches for one in kernels[SHOWN_KERNELS:])
    return ", ".join(shown) + (f", and {more} more" if more else "")


def kernel_phrase(kernel: Kernel) -> str:
    """One kernel in a phrase: `2 fusion kLoop at prover.py:12 (add, mul)`."""
    place = "" if kernel.location is None else f" at {kernel.location}"
    loop = "".join(f"{one} > " for one in kernel.loop)
    ops = ", ".join(kernel.ops[:SHOWN_KERNELS])
    return f"{kernel.launches} {loop}{kernel.kind}{place} ({ops})"
