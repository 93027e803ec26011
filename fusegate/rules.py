"""The rule catalogue: one row per rule, in the order of their codes.

Floor 0: imports the standard library only. A rule is a row here, a page under `docs/rules/`, a test
in which it bites and a test in which it stays quiet; `tests/test_rules.py` fails where one is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """What a finding does: an error raises in strict and warns in warn, an advice is only reported."""

    ERROR = "error"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the catalogue.

    Attributes:
        code: Stable identifier, `FG` and three digits; the first digit names the family.
        slug: The same rule as two or three words.
        severity: What a finding of this rule does unless the finding says otherwise.
        summary: When the rule speaks, in one sentence.
        remedy: The way out in general; a finding carries its own, more specific fix.
    """

    code: str
    slug: str
    severity: Severity
    summary: str
    remedy: str


FAMILIES: Final[dict[str, str]] = {
    "1": "declaration",
    "2": "trace",
    "3": "transfer",
    "4": "state",
    "5": "pin",
}
"""First digit of a code -> the family it belongs to."""

_ROWS: Final = (
    Rule(
        "FG101",
        "already-jitted",
        Severity.ERROR,
        "The decorated callable is a jit or a boundary already.",
        "Keep one boundary: decorate the plain function, or drop the inner jit.",
    ),
    Rule(
        "FG102",
        "rebuilt-callable",
        Severity.ERROR,
        "A callable built anew per call from the same code was compiled to an identical program again.",
        "Build it once: at module level, as a method of the class, or with fusegate.bind.",
    ),
    Rule(
        "FG201",
        "retrace",
        Severity.ERROR,
        "A boundary traced the same abstract signature twice, or more signatures than max_traces.",
        "Make the argument that changed the same on every call, or declare the traces it costs.",
    ),
    Rule(
        "FG202",
        "recompile",
        Severity.ERROR,
        "A signature was compiled again without a retrace, or more programs than max_compiles.",
        "Commit and shard every input of the boundary the same way on every call.",
    ),
    Rule(
        "FG203",
        "nested-boundary",
        Severity.ERROR,
        "A jit is called inside a round body or a marker composite; elsewhere it is an advice.",
        "Call the plain function, or the lax primitive where a numpy wrapper keeps a call.",
    ),
    Rule(
        "FG204",
        "fusion-breaker",
        Severity.ERROR,
        "A round body holds a primitive that cannot ride in one fused kernel.",
        "Move it out of the round body, or declare it in allow_primitives.",
    ),
    Rule(
        "FG205",
        "extra-reduction",
        Severity.ERROR,
        "A round body reduces more often than it declares.",
        "Stack the summands and reduce once, or declare the reductions that are inherent.",
    ),
    Rule(
        "FG206",
        "host-callback",
        Severity.ERROR,
        "A program calls the host while it runs.",
        "Split the boundary around the host step, or return the value and use it in the driver.",
    ),
    Rule(
        "FG207",
        "unrolled-loop",
        Severity.ADVICE,
        "The same equations repeat from one line far beyond a threshold.",
        "Use jax.vmap for independent items and lax.scan for a carry of one shape.",
    ),
    Rule(
        "FG208",
        "captured-constant",
        Severity.ADVICE,
        "Closed-over arrays above a byte threshold are baked into the program.",
        "Pass the arrays as arguments of the boundary.",
    ),
    Rule(
        "FG209",
        "unused-donation",
        Severity.ERROR,
        "A donated buffer was not usable, or a nested jit's donation was ignored.",
        "Donate only what a result of the same shape and dtype replaces, at the outermost boundary.",
    ),
    Rule(
        "FG210",
        "slow-dispatch",
        Severity.ERROR,
        "Warm calls of a boundary keep missing the runtime's fast path.",
        "Pass arrays only, and keep host callbacks out of the boundary.",
    ),
    Rule(
        "FG211",
        "traced-host-read",
        Severity.ERROR,
        "The body of a boundary read a traced value on the host.",
        "Split the boundary into two islands around the read, or keep the value on the device.",
    ),
    Rule(
        "FG212",
        "heterogeneous-zone",
        Severity.ADVICE,
        "One zone holds a round body at many different shapes.",
        "Ride a fixed-width buffer with a masked tail, or make the round an island.",
    ),
    Rule(
        "FG213",
        "after-freeze",
        Severity.ERROR,
        "A boundary traced or compiled after freeze().",
        "Warm this signature up before freezing, or pad the argument to a size that is warm.",
    ),
    Rule(
        "FG301",
        "host-read",
        Severity.ERROR,
        "A driver read an array back to the host, outside of a host op.",
        "Keep the value on the device, read once after the loop, or mean it: with host_op(reason).",
    ),
    Rule(
        "FG302",
        "implicit-upload",
        Severity.ERROR,
        "A numpy array or a Python number was uploaded by a launch inside a driver.",
        "Put it on the device once, before the loop.",
    ),
    Rule(
        "FG303",
        "eager-dispatch",
        Severity.ERROR,
        "A driver launched an op outside any boundary, more often than max_eager.",
        "Move the op into an island, or mean it: with host_op(reason), or max_eager=.",
    ),
    Rule(
        "FG304",
        "per-item-dispatch",
        Severity.ADVICE,
        "A driver launched one boundary many times in a row on independent items.",
        "Stack the items and launch once, with jax.vmap inside the boundary.",
    ),
    Rule(
        "FG401",
        "identity-meta",
        Severity.ERROR,
        "A metadata value of a state compares by identity, itself or in a part of it.",
        "Give its class a value __eq__ and __hash__, or use a function that a module holds.",
    ),
    Rule(
        "FG402",
        "mutable-meta",
        Severity.ERROR,
        "A metadata value of a state can change: a list, dict, set or unfrozen dataclass.",
        "Use a tuple, a frozenset or a frozen dataclass.",
    ),
    Rule(
        "FG403",
        "array-meta",
        Severity.ERROR,
        "A metadata value of a state is a numpy array, a device array or a tracer.",
        "Make it a data field, or wrap a small host array in fusegate.by_content().",
    ),
    Rule(
        "FG404",
        "non-array-data",
        Severity.ERROR,
        "A data field of a state holds what no jit takes, or (advice) a bare Python number.",
        "Mark the field fusegate.meta(), or pass an array of a fixed dtype.",
    ),
    Rule(
        "FG405",
        "state-drift",
        Severity.ERROR,
        "A state leaves a boundary with another structure, shape, dtype or weak type than it entered with.",
        "Cast the leaf back, and keep the structure, so that the state can enter again.",
    ),
    Rule(
        "FG501",
        "launches-pin",
        Severity.ERROR,
        "A program holds more launches than pinned, or than max_launches.",
        "Keep the new operations inside the fused kernel, or raise the budget where they are inherent.",
    ),
    Rule(
        "FG502",
        "memory-pin",
        Severity.ERROR,
        "A program takes more temp or peak bytes than pinned, or more temp bytes than max_temp_bytes.",
        "Work on chunks (lax.map over chunks), donate what is replaced, or raise the budget.",
    ),
    Rule(
        "FG503",
        "compile-pin",
        Severity.ERROR,
        "A boundary traced, compiled or holds more equations than pinned.",
        "Look for an argument that is new on each call, a nested call, or a loop that unrolls.",
    ),
    Rule(
        "FG504",
        "launches-grow",
        Severity.ERROR,
        "Launches grow with a size that should leave them flat.",
        "Use jax.vmap or lax.scan instead of a Python loop, and one reduction over stacked terms.",
    ),
    Rule(
        "FG505",
        "runtime-pin",
        Severity.ADVICE,
        "A call is slower than pinned, as a ratio to a reference kernel in the same process.",
        "Look at what grew with it in the same pins, and at sizes, loop trips and dtypes.",
    ),
)

RULES: Final[dict[str, Rule]] = {rule.code: rule for rule in _ROWS}
"""Code -> rule, for every rule that this version enforces."""


def lookup(code: str) -> Rule:
    """Returns the rule of a code or of a slug.

    Args:
        code: A code (`FG201`, in any case) or a slug (`retrace`).

    Raises:
        ValueError: There is no such rule.

    Example:
        >>> lookup("fg201").slug
        'retrace'
        >>> lookup("retrace").code
        'FG201'
    """
    wanted = code.strip()
    for rule in _ROWS:
        if wanted.upper() == rule.code or wanted.lower() == rule.slug:
            return rule
    known = ", ".join(RULES)
    raise ValueError(f"unknown rule {code!r}; the rules are {known}")
