"""A product sumcheck on zorch as one zone, and three ways to break it.

    fusegate run examples/01_sumcheck_single_zone.py

The prover traces and compiles once and then serves fresh inputs and fresh, value-equal transcripts from
the cache; the verifier accepts its proof and rejects a tampered one. Then come three copies of the prover
with a fault each, of the kind that costs a compile on every proof without changing a byte of it. Strict
mode stops each at its second trace, before the compile, and names what changed.

Runs on FRX (CPython 3.11), CPU. The permutation is zorch's cheap one for tests: the structure of a real
Fiat-Shamir transcript without its cost.
"""

import contextlib
import operator
import time

import frx
import frx.numpy as fnp
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.round import RunningClaim
from zorch.sumcheck.domain import fold, natural_domain, summand_evals
from zorch.sumcheck.verifier import SumcheckRound
from zorch.testkit.random_field import rand_ext_field
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript

import fusegate

VARIABLES = 8
CHALLENGES = ChallengePolicy(EF)


# ---- the prover ---------------------------------------------------------------------------------
@fusegate.round_body(reductions=1, static_argnames=("summand",))
def round_polynomial(tables, summand):
    """The round's message: the summand summed over the hypercube, at the points 0, 1 and 2."""
    return summand_evals(tables, summand, natural_domain(2, tables.dtype))


@fusegate.round_body(reductions=0)
def fold_tables(tables, challenge):
    """Binds the round's variable to the challenge; the tables halve."""
    return fold(tables, challenge)


def sumcheck(tables, transcript, summand=operator.mul):
    """All rounds: message, absorb, squeeze, fold.

    The arithmetic of a round is in two round bodies. The sponge between them is no fusion unit, it
    gathers and loops, so it stays a plain call: inside the zone all of it is one program anyway.
    """
    messages, point = [], []
    for _ in range(tables.shape[1].bit_length() - 1):
        message = round_polynomial(tables, summand)
        transcript, challenge = CHALLENGES.observe_and_sample(transcript, message)
        tables = fold_tables(tables, challenge)
        messages.append(message)
        point.append(challenge)
    return fnp.stack(messages), fnp.stack(point), tables[:, 0]


@fusegate.single_zone(max_traces=1, max_compiles=1)
def prove(tables, transcript):
    """The whole proof as one program."""
    return sumcheck(tables, transcript)


# ---- its three broken twins ---------------------------------------------------------------------
class IdentityPermutation(CheapPermutation):
    """The same permutation, compared by identity, as is every class without an `__eq__` of its own."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@fusegate.single_zone(max_traces=1)
def prove_identity_permutation(tables, transcript):
    """Nothing is wrong here; the fault is in the transcript that it is given."""
    return sumcheck(tables, transcript)


@fusegate.single_zone(max_traces=1, static_argnames=("summand",))
def prove_fresh_lambda(tables, transcript, summand):
    """Is given its summand as a lambda that the caller builds anew for each proof."""
    return sumcheck(tables, transcript, summand)


@fusegate.single_zone(max_traces=1)
def prove_two_shapes(tables, transcript):
    """Promises one trace and is called at two sizes."""
    return sumcheck(tables, transcript)


# ---- the verifier: one island, called once per round --------------------------------------------
@fusegate.island(max_traces=1)
def check_round(claim, transcript, message):
    """One round of the verifier; every round has the same shapes, so all of them share one program."""
    return SumcheckRound(2, CHALLENGES)(claim, transcript, message)


def accepts(messages, total):
    """Whether every round checks, and the claim that is left of the total."""
    rounds = messages.shape[0]
    claim = RunningClaim(total, fnp.zeros((rounds,), EF), fnp.int32(0))
    sponge, verdicts = transcript(), []
    for message in messages:
        claim, sponge, verdict = check_round(claim, sponge, message)
        verdicts.append(verdict)
    return all(bool(verdict) for verdict in verdicts), claim.value


# ---- inputs, and the checks of this program -----------------------------------------------------
def transcript(permutation=CheapPermutation):
    """A fresh transcript over a fresh permutation."""
    return DuplexTranscript.new(permutation(width=16, dtype=F), rate=8)


def inputs(seed, variables=VARIABLES):
    """Two random tables, and the sum of their product over the hypercube."""
    a = rand_ext_field(seed, (1 << variables,), F, EF)
    b = rand_ext_field(seed + 100, (1 << variables,), F, EF)
    return fnp.stack([a, b]), fnp.sum(a * b)


def prove_and_verify():
    """Three proofs of fresh inputs by one program, the last one verified, a tampered one rejected."""
    for seed in range(3):
        tables, claim = inputs(seed)
        start = time.perf_counter()
        messages, _, final = frx.block_until_ready(prove(tables, transcript()))
        print(f"proof {seed + 1}: {(time.perf_counter() - start) * 1e3:8.1f} ms")
    accepted, reduced = accepts(messages, claim)
    assert accepted, "the verifier rejects the proof"
    assert bool(final[0] * final[1] == reduced), (
        "the proof ends in another claim than the tables do"
    )
    print("proof verified:          yes")
    tampered = messages.at[0, 0].add(fnp.ones((), EF))
    assert not accepts(tampered, claim)[0], "the verifier accepts a tampered proof"
    print("tampered proof rejected: yes")
    counted = fusegate.stats(prove)
    assert (counted.traces, counted.compiles) == (1, 1), counted


@contextlib.contextmanager
def caught(code, kind, path, word=""):
    """Checks that the block is stopped by a violation of this code, for this cause, at this argument."""
    found = None
    try:
        yield
    except fusegate.Violation as violation:
        found = violation
    assert found is not None, f"{code} for {kind} of `{path}` did not come"
    assert (found.code, found.cause.kind, found.cause.path) == (code, kind, path), found
    assert word in str(found.cause), found
    print(f"caught {code} in {found.boundary}: {kind} of `{path}`")


def main():
    """Runs the prover, then its twins, each up to the call that strict mode stops."""
    with fusegate.mode("strict"):
        prove_and_verify()
        small = [inputs(seed, variables=5)[0] for seed in range(2)]
        with caught("FG201", "meta_identity", "transcript.permutation", "IdentityPermutation"):
            for tables in small:
                prove_identity_permutation(tables, transcript(IdentityPermutation))
        with caught("FG201", "callable", "summand", "lambda"):
            for tables in small:
                prove_fresh_lambda(tables, transcript(), lambda a, b: a * b)
        with caught("FG201", "shape", "tables", "[2,32] -> koalabearx4_mont[2,16]"):
            for variables in (5, 4):
                prove_two_shapes(inputs(0, variables)[0], transcript())


if __name__ == "__main__":
    main()
