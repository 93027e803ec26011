"""zorch's round logic under `@round_body`, each piece with the verdict that it deserves.

    python examples/03_round_bodies.py

A round body is the unit that one fused kernel should compute. fusegate reads its traced program, so an
operation that hides in a helper is seen, and says what keeps it from being one kernel, with the line. The
check is at trace time: nothing below is compiled before it has passed.

Runs on FRX (CPython 3.11), CPU, in about half a minute.
"""

import frx.numpy as fnp
import numpy as np
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.hash.poseidon2.params import Poseidon2Params
from zorch.hash.poseidon2.poseidon2 import Poseidon2
from zorch.pcs.whir import prover as whir
from zorch.sumcheck import prover as sumcheck
from zorch.sumcheck.domain import fold
from zorch.testkit.random_field import rand_ext_field, rand_field
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript

import fusegate

TABLES = fnp.stack([rand_ext_field(case, (64,), F, EF) for case in (1, 2)])
EVALS = rand_ext_field(3, (16,), F, EF)
CHALLENGES = ChallengePolicy(EF)
STANDARD = sumcheck.StandardRound(sumcheck.ProductSummand(2), challenges=CHALLENGES)


def poseidon2():
    """A toy instance: the structure of the real permutation with random constants."""
    rng = np.random.default_rng(7)
    internal = np.zeros((20, 16), np.int64)
    internal[:, 0] = rng.integers(0, 1 << 30, 20)
    constants = {
        name: fnp.array(rng.integers(2, 1 << 30, shape), dtype=F)
        for name, shape in (
            ("external_constants_initial", (4, 16)),
            ("external_constants_terminal", (4, 16)),
            ("internal_diag", 16),
        )
    }
    return Poseidon2(
        Poseidon2Params(
            width=16,
            dtype=F,
            alpha=3,
            external_rounds=4,
            internal_rounds=20,
            internal_constants=fnp.array(internal, dtype=F),
            **constants,
        )
    )


PERMUTATION = poseidon2()


# ---- clean: one straight line, at most one sum --------------------------------------------------
@fusegate.round_body(reductions=1)
def round_polynomial(tables):
    """The message of a round: one stacked sum over the hypercube, at all points at once."""
    return STANDARD._round_poly(tables)


@fusegate.round_body(reductions=0)
def fold_tables(tables, challenge):
    """Binds a variable."""
    return fold(tables, challenge)


@fusegate.round_body(reductions=0)
def whir_fold(evals, weights, challenge):
    """The fold of one WHIR island."""
    return whir._island_fold.__wrapped__(evals, weights, challenge)


@fusegate.round_body(reductions=0)
def permute(state):
    """Poseidon2: one composite that a kernel of its own is routed to by name, so it is opaque."""
    return PERMUTATION.permute(state)


# ---- not: each with the way out that the finding names ------------------------------------------
@fusegate.round_body(reductions=1)
def whir_message(evals, weights):
    """FG205: the two coefficients are summed one by one."""
    return whir._island_round_poly.__wrapped__(evals, weights)


@fusegate.round_body(reductions=2)
def whir_message_declared(evals, weights):
    """The same, with the second sum declared: it is inherent to this spelling."""
    return whir._island_round_poly.__wrapped__(evals, weights)


@fusegate.round_body(reductions=1)
def whole_round(claim, transcript):
    """FG203: a whole round, sponge included: jits of zorch's own, then gathers and a loop."""
    return STANDARD(claim, transcript)


def verdict(body, *args):
    """Calls a round body in strict mode; returns what fusegate says of it."""
    try:
        with fusegate.mode("strict"):
            body(*args)
    except fusegate.Violation as violation:
        return str(violation)
    return "clean"


def main():
    """Prints one verdict per round body."""
    claim = sumcheck.initial_claim(TABLES, TABLES[0, 0], 6)
    transcript = DuplexTranscript.new(CheapPermutation(width=16, dtype=F), rate=8)
    calls = [
        (round_polynomial, TABLES),
        (fold_tables, TABLES, TABLES[0, 0]),
        (whir_fold, EVALS, EVALS, EVALS[0]),
        (permute, rand_field(1, (16,), F)),
        (whir_message, EVALS, EVALS),
        (whir_message_declared, EVALS, EVALS),
        (whole_round, claim, transcript),
    ]
    for body, *args in calls:
        print(f"{body.__name__:22} {verdict(body, *args)}")


if __name__ == "__main__":
    main()
