"""A sumcheck on zorch held to pins: what its program costs, written down, and three changes that cost more.

    python examples/07_pin_a_prover.py

The compiled program of a prover shows its launches, its buffers and its equations before it runs, on any
machine and the same each time. A suite writes them down once, with `pytest --fusegate-pins=update`, and
holds the prover to them from then on, with one line: `fusegate_pins(prove, columns, transcript)`. Here the
same is done by hand, with a pin file in a temporary folder. Then come three copies of the prover with a
change each that its verifier does not mind. The pins do: they name the figure that moved, from what to
what. The last change is meant, so its figures are written, and the difference of the pin file is what a
reviewer sees.

Runs on FRX (CPython 3.11), CPU. The permutation is zorch's cheap one for tests.
"""

import difflib
import tempfile
from pathlib import Path

import frx
import frx.numpy as fnp
from frx import lax
from zk_dtypes import koalabear_mont as F
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.sumcheck.domain import fold, natural_domain, summand_evals
from zorch.sumcheck.verifier import SumcheckRound
from zorch.testkit.random_field import rand_field
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript
from zorch.verify import verify

import fusegate
from fusegate.evidence.pins import PinSession

VARIABLES, COLUMNS = 3, 16
CHALLENGES = ChallengePolicy(F)
CODE = ReedSolomon(message_len=1 << VARIABLES, blowup=2, dtype=F)


# ---- the prover ---------------------------------------------------------------------------------
@fusegate.round_body(reductions=1)
def round_polynomial(tables):
    """The product of the tables, summed over the hypercube at the points 0, 1 and 2."""
    return summand_evals(tables, lambda a, b: a * b, natural_domain(2, F))


@fusegate.round_body(reductions=0)
def bind_variable(tables, challenge):
    """The tables with their first variable bound."""
    return fold(tables, challenge)


def rounds(tables, t):
    """Message, challenge, fold."""
    messages = []
    for _ in range(VARIABLES):
        messages.append(round_polynomial(tables))
        t, challenge = CHALLENGES.observe_and_sample(t, messages[-1])
        tables = bind_variable(tables, challenge)
    return fnp.stack(messages), tables[:, 0]


def combined(columns, batch):
    """Two tables made of the columns and their codewords, of which `batch` are held at a time."""
    codewords = lax.map(CODE.encode, columns, batch_size=batch).sum(axis=0)
    return fnp.stack([columns.sum(axis=0), codewords[: 1 << VARIABLES]])


@fusegate.single_zone(name="prove")
def prove(columns, t):
    """The prover as it is pinned: two codewords at a time."""
    return rounds(combined(columns, batch=2), t)


# ---- and what became of it: the same proof at another price --------------------------------------
@fusegate.single_zone(name="prove")
def prove_sorted(columns, t):
    """Puts the columns in order first, which changes no sum."""
    order = fnp.argsort(lax.bitcast_convert_type(columns[:, 0], fnp.uint32))  # the sort
    return rounds(combined(columns[order], batch=2), t)


@fusegate.single_zone(name="prove")
def prove_at_once(columns, t):
    """Holds eight codewords at a time."""
    return rounds(combined(columns, batch=8), t)


def bound(columns, t):
    """The transcript with the sum of the columns bound to it."""
    return t.observe(columns.sum(axis=0))


@fusegate.single_zone(name="prove")
def prove_bound(columns, t):
    """Binds its input to the transcript, as it should have from the start."""
    return rounds(combined(columns, batch=2), bound(columns, t))


# ---- inputs and the verdict ----------------------------------------------------------------------
def transcript():
    """A fresh transcript over a fresh permutation."""
    return DuplexTranscript.new(CheapPermutation(width=16, dtype=F), rate=8)


def accepts(columns, proof, t):
    """Whether the rounds reduce the sum to the product of the values that the proof ends in."""
    messages, values = proof
    low, high = combined(columns, batch=2)
    _, reduced, _, sound = verify(SumcheckRound(2, CHALLENGES), fnp.sum(low * high), messages, t)
    return bool(sound) and bool(reduced == values[0] * values[1])


def held_to(pins, prover, columns):
    """Checks a prover against the pin file; returns the violation, or None."""
    try:
        PinSession(pins, "check")(prover, columns, transcript())
    except fusegate.PinViolation as violation:
        return violation
    return None


def write(pins, prover, columns):
    """What `--fusegate-pins=update` does; returns the figures that changed."""
    session = PinSession(pins, "update")
    session(prover, columns, transcript())
    return session.write()


def story(pins):
    """Pins the prover, then holds it and its copies to the pins."""
    columns = rand_field(1, (COLUMNS, 1 << VARIABLES), F)
    proof = frx.block_until_ready(prove(columns, transcript()))
    assert accepts(columns, proof, transcript()), "the verifier rejects the proof"
    print("proof verified: yes\n\nwhat its program costs\n")
    pinned = fusegate.evidence(prove, columns, transcript())
    print(pinned)

    write(pins, prove, columns)
    print(f"{pins.name}\n\n{pins.read_text(encoding='utf-8')}")
    assert held_to(pins, prove, columns) is None
    print("the prover itself: as pinned\n")

    for prover, code, figure, verifiers in (
        (prove_sorted, "FG501", "launches", transcript()),
        (prove_at_once, "FG502", "temp_bytes", transcript()),
        (prove_bound, "FG501", "launches", bound(columns, transcript())),
    ):
        name = prover.__wrapped__.__name__
        assert accepts(columns, prover(columns, transcript()), verifiers), f"{name}: rejected"
        violation = held_to(pins, prover, columns)
        assert violation is not None, f"{name} is within the pins"
        assert (violation.code, figure in violation.evidence) == (code, True), violation
        print(f"{name}: its proof is accepted, and\n{violation}\n")

    before = pins.read_text(encoding="utf-8")
    assert write(pins, prove_bound, columns)
    assert held_to(pins, prove_bound, columns) is None
    print("the last one is meant: pytest --fusegate-pins=update, and the commit shows\n")
    after = pins.read_text(encoding="utf-8")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    print("\n".join(f"  {line}" for line in list(lines)[2:]))


def main():
    """Tells the story in strict mode, as a suite would."""
    with fusegate.mode("strict"), tempfile.TemporaryDirectory() as folder:
        story(Path(folder) / "fusegate-pins.toml")


if __name__ == "__main__":
    main()
