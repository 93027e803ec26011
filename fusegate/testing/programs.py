"""`assert_launches` and `assert_flat`: how much a compiled program launches, and whether that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fusegate.errors import Finding, Violation, violation
from fusegate.evidence.diff import kernel_changes
from fusegate.evidence.gather import evidence
from fusegate.evidence.model import FIGURES, Evidence
from fusegate.judge.pins import check_budgets, check_flat
from fusegate.observe.evidence import Launches, ProgramFigures
from fusegate.runtime import frames


def assert_launches(f: Callable[..., Any], *args: Any, at_most: int, **kwargs: Any) -> Evidence:
    """Asserts that the compiled program of a function holds no more launches than given.

    Nothing runs. A loop's body and condition count once: how often they run is `dynamic_launches`.

    Args:
        f: A boundary, a jitted function or a plain one.
        *args: Its arguments; `ShapeDtypeStruct`s do.
        at_most: The launches allowed, inclusive.
        **kwargs: Its keyword arguments.

    Returns:
        The evidence, for further assertions.

    Raises:
        AssertionError: It holds more, with the kernels and their lines; or the backend does not show it.

    Example:
        >>> import jax.numpy as jnp
        >>> found = assert_launches(lambda x: jnp.sin(x) * 2, jnp.ones(64), at_most=1)
        >>> assert_launches(lambda x: jnp.sort(x) * 2, jnp.ones(64), at_most=1)
        Traceback (most recent call last):
        ...
        AssertionError: FG501 launches-pin: jit `<lambda>` ...
    """
    __tracebackhide__ = True
    found = evidence(f, *args, **kwargs)
    launches = _observed(found, "launches")
    figures = ProgramFigures(Launches(launches, found.dynamic_launches), None)
    findings = check_budgets(found, figures, (at_most, None), found.kernels, ("at_most", ""))
    if findings:
        raise AssertionError(str(findings[0]))
    return found


def assert_flat(
    f: Callable[..., Any],
    sizes: Iterable[Any],
    *,
    args: Callable[[Any], tuple[Any, ...]] | None = None,
    of: str = "launches",
) -> None:
    """Asserts that a figure of a function's program does not grow with a size.

    Nothing runs; one program is compiled for each size.

    Args:
        f: Without `args`, gives for a size what to look at: a tuple of a function and its arguments. With
            `args`, the function itself.
        sizes: The sizes, the smallest first; at least two.
        args: Gives the arguments of `f` for a size, as a tuple.
        of: Name of the figure that is to stay flat, one of an `Evidence`.

    Raises:
        AssertionError: It grows (FG504): the error is a `PinViolation` too, and its message shows the table
            and the kernels that multiplied. Or the backend does not show the figure.
        ValueError: `of` is no figure, or there are fewer than two sizes.
        TypeError: The arguments are no tuple.

    Example:
        >>> import jax.numpy as jnp
        >>> assert_flat(lambda x: jnp.sin(x) * 2, [64, 128], args=lambda n: (jnp.ones(n),))
        >>> def rounds(n):
        ...     return lambda x: [x := jnp.sort(x)[::-1] for _ in range(n)], jnp.ones(64)
        >>> assert_flat(rounds, [2, 4])
        Traceback (most recent call last):
        ...
        fusegate.PinViolation: FG504 launches-grow: jit `rounds.<lambda>` ...
    """
    __tracebackhide__ = True
    if of not in FIGURES or of.endswith("_s"):
        known = ", ".join(name for name in FIGURES if not name.endswith("_s"))
        raise ValueError(f"of={of!r} is no figure of a program; known are {known}")
    found = [(size, _at(f, size, args)) for size in sizes]
    if len(found) < 2:
        raise ValueError("a figure is compared over two sizes at least")
    rows = [(size, _observed(one, of)) for size, one in found]
    first = found[0][1]
    most = max((one for _, one in found), key=lambda one: getattr(one, of))
    grown = [
        (change.kernel, change.before, change.after)
        for change in kernel_changes(first.kernels, most.kernels)
        if change.after > change.before
    ]
    told = check_flat(first, of, rows, grown, frames.user_location())
    if told is not None:
        raise _failure(told)


def _failure(found: Finding) -> Violation:
    """The failure of an assertion as the violation that it is."""
    return violation(found, also=AssertionError)


def _at(
    f: Callable[..., Any], size: Any, args: Callable[[Any], tuple[Any, ...]] | None
) -> Evidence:
    given = f(size) if args is None else args(size)
    if not isinstance(given, tuple):
        what = (
            "f(size) gives (function, *arguments)" if args is None else "args(size) gives a tuple"
        )
        raise TypeError(f"{what}, not {type(given).__name__}")
    return evidence(*given) if args is None else evidence(f, *given)


def _observed(found: Evidence, figure: str) -> int:
    """A figure that must be there.

    Raises:
        AssertionError: It was not observed.
    """
    value = getattr(found, figure)
    if value is None:
        reason = found.not_observed.get(figure, "no reason is known")
        raise AssertionError(f"{figure} of `{found.name}` cannot be observed: {reason}")
    return int(value)
