"""A WHIR opening: a proof-of-work grind before each challenge, and one island for each span between grinds.

The search ends when the host says so, so the opening is a driver. An island begins with the challenge that
the grind before it has paid for and ends with the message that the next one is about: nothing is left to be
launched between them.
"""

from typing import Any

import frx
import frx.numpy as fnp
from frx import lax
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.pcs.stage import OpeningClaim, OpeningProof
from zorch.pcs.whir._math import (
    eq_table,
    pow2_powers,
    query_gamma_powers,
    round_code,
    sample_query_positions,
)
from zorch.pcs.whir.config import WhirParams, WhirProof
from zorch.pcs.whir.prover import WhirProver
from zorch.pcs.whir.verifier import WhirVerifier
from zorch.poly.multilinear import mle_evals_to_coeffs
from zorch.poly.univariate import eval_coeffs
from zorch.sumcheck.domain import fold
from zorch.testkit.random_field import rand_ext_field, rand_field

import fusegate
from tests.provers.programs.common import QUICK, strided_merkle, transcript

VARIABLES, QUERIES, BITS = 2, 2, 3  # one variable per WHIR round
CHALLENGES = ChallengePolicy(EF)


@fusegate.state
class Tables:
    """The sumcheck's two tables: the polynomial, and the weight that it is summed with."""

    values: Any
    weights: Any


@fusegate.state
class Oracle:
    """A committed codeword: its root, and the digests of its tree."""

    root: Any
    codeword: Any
    digests: Any


@fusegate.state
class Proof:
    """The claimed values, and zorch's proof of them."""

    values: Any
    whir: Any


# ---- round bodies -------------------------------------------------------------------------------
@fusegate.round_body(reductions=1)
def round_polynomial(tables):
    """The product summed over the hypercube at the points 1 and 2, both in one reduction."""
    v0, v1, w0, w1 = (side[i::2] for side in (tables.values, tables.weights) for i in (0, 1))
    return (fnp.stack([v1, v1 + v1 - v0]) * fnp.stack([w1, w1 + w1 - w0])).sum(axis=1)


@fusegate.round_body(reductions=0)
def bind_variable(tables, challenge):
    """Both tables with their last variable bound."""
    return Tables(*(fold(side, challenge, msb=False) for side in (tables.values, tables.weights)))


def say(tables, t):
    """The round's message, absorbed."""
    message = round_polynomial(tables)
    return message, t.observe(message)


def hear(tables, t):
    """The round's challenge, and the tables folded at it."""
    t, challenge = CHALLENGES.sample(t)
    return bind_variable(tables, challenge), t


# ---- islands, each from one grind to the next ---------------------------------------------------
@fusegate.island(static_argnames=("prover",), max_traces=1, compiler_options=QUICK)
def commit(prover, polynomials):
    """The hypercube evaluations, encoded column by column and committed."""
    root, data = prover.commit(polynomials)
    return data.mle, Oracle(root, data.codeword, data.digest_layers)


@fusegate.island(static_argnames=("prover",), max_traces=1, compiler_options=QUICK)
def claim_values(prover, columns, root, point, t):
    """The values that the proof opens to, bound to the transcript with the commitment."""
    values = prover.scheme.claimed_values(columns, point)
    return values, prover.scheme.bind(t, root, values)


@fusegate.island(static_argnames=("prover",), max_traces=1, compiler_options=QUICK)
def enter(prover, columns, point, t):
    """Combines the columns into the tables of the first round, and sends its message."""
    t, mixed = CHALLENGES.sample(t)
    tables = Tables(
        prover.scheme.combined_f_evals(columns, mixed), prover.scheme.initial_weight(point)
    )
    return tables, *say(tables, t)


@fusegate.island(
    static_argnames=("prover", "r"), max_traces=lambda n: n.bit_length(), compiler_options=QUICK
)
def fold_and_commit(prover, r, tables, t):
    """Folds, commits what is left as a codeword of its own, and opens it outside of its domain."""
    tables, t = hear(tables, t)
    coefficients = mle_evals_to_coeffs(tables.values)
    code = round_code(prover.code, r + 1, 1)
    codeword = lax.bitcast_convert_type(code.encode(coefficients), prover.code.dtype)
    root, digests = prover.tree.commit(codeword)
    oracle = Oracle(root, codeword, digests)
    t, outside = CHALLENGES.sample(t.observe(root))
    value = eval_coeffs(coefficients, outside)
    return tables, oracle, outside, value, t.observe(value)


@fusegate.island(static_argnames=("prover", "r"), max_traces=1, compiler_options=QUICK)
def answer(prover, r, oracle, tables, outside, t):
    """Answers the queries, adds what they ask to the weights, and sends the next round's message."""
    opened, positions, t = queried(prover, r, oracle, t)
    t, mixed = CHALLENGES.sample(t)
    remaining = tables.weights.shape[0].bit_length() - 1
    points = round_code(prover.code, r, 1).domain()[positions].astype(EF)
    asked = frx.vmap(lambda x: eq_table(pow2_powers(x * x, remaining)))(points)
    powers = query_gamma_powers(mixed, QUERIES)
    weights = (
        tables.weights
        + mixed * eq_table(pow2_powers(outside, remaining))
        + (powers[:, None] * asked).sum(axis=0)
    )
    tables = Tables(tables.values, weights)
    return opened, tables, *say(tables, t)


@fusegate.island(max_traces=1, compiler_options=QUICK)
def fold_and_send(tables, t):
    """Folds for the last time; what is left goes in the clear."""
    tables, t = hear(tables, t)
    coefficients = mle_evals_to_coeffs(tables.values)
    return coefficients, t.observe(coefficients)


@fusegate.island(static_argnames=("prover", "r"), max_traces=1, compiler_options=QUICK)
def answer_last(prover, r, oracle, t):
    """Answers the last round's queries."""
    return queried(prover, r, oracle, t)[0]


def queried(prover, r, oracle, t):
    """The cosets that a round asks for, opened in one batch."""
    stride = round_code(prover.code, r, 1).block_len >> 1
    t, positions = sample_query_positions(t, stride, QUERIES, prover.code.dtype)
    opened = frx.vmap(lambda i: prover.tree.open(oracle.codeword, oracle.digests, i))(positions)
    return opened, positions, t


@fusegate.island(static_argnames=("verifier",), max_traces=1, compiler_options=QUICK)
def check(verifier, root, point, proof, t):
    """zorch's own verifier."""
    claim = OpeningClaim(root, [point])
    return verifier.verify(claim, OpeningProof(proof.values, proof.whir), t).ok


# ---- the driver ---------------------------------------------------------------------------------
def grind(t):
    """Searches a witness; the host looks whether there is one."""
    with fusegate.host_op("proof-of-work grind"):
        advanced, witness = t.grind(BITS)
        if not bool(t.check_witness(witness, pow_bits=BITS)[1]):
            raise RuntimeError("the proof-of-work search is exhausted")
    return advanced, witness


@fusegate.driver(name="whir")
def opening(prover, columns, oracle, point, t, visit=lambda island, *args: island(*args)):
    """Island, grind, island, ...; `visit` makes each call of an island."""
    values, t = visit(claim_values, prover, columns, oracle.root, point, t)
    t, mix_witness = grind(t)
    tables, message, t = visit(enter, prover, columns, point, t)
    messages, fold_witnesses, query_witnesses, roots, outside_values, openings = (
        [] for _ in range(6)
    )
    last = VARIABLES - 1
    for r in range(VARIABLES):
        t, witness = grind(t)
        messages.append(message)
        fold_witnesses.append(witness)
        if r < last:
            tables, following, outside, value, t = visit(fold_and_commit, prover, r, tables, t)
            roots.append(following.root)
            outside_values.append(value)
        else:
            final, t = visit(fold_and_send, tables, t)
        t, witness = grind(t)
        query_witnesses.append(witness)
        if r < last:
            opened, tables, message, t = visit(answer, prover, r, oracle, tables, outside, t)
            oracle = following
        else:
            opened = visit(answer_last, prover, r, oracle, t)
        openings.append(opened)
    return Proof(
        values,
        WhirProof(
            mix_witness, messages, roots, outside_values, fold_witnesses, query_witnesses,
            openings[:1], openings[1:], final,
        ),
    )  # fmt: skip


# ---- a statement, and both sides of it ----------------------------------------------------------
def side(cls):
    """One side of the scheme, built anew: it is a static argument, compared by value."""
    params = WhirParams(1, (QUERIES,) * (VARIABLES), BITS, BITS, BITS)
    code = ReedSolomon(message_len=1 << VARIABLES, blowup=2, dtype=F)
    return cls(code, strided_merkle(2), params)


def instance(seed):
    """A commitment to two polynomials and a point; what is behind it."""
    polynomials = [rand_field(seed + i, (1 << VARIABLES,), F) for i in range(2)]
    columns, oracle = commit(side(WhirProver), polynomials)
    point = rand_ext_field(seed + 50, (VARIABLES,), F, EF)
    return (oracle.root, point), (polynomials, columns, oracle)


def prove(statement, witness):
    """Opens both polynomials at the point."""
    _, columns, oracle = witness
    return opening(side(WhirProver), columns, oracle, statement[1], transcript())


def accepts(statement, proof):
    """The verdict on an opening of this commitment at this point."""
    return bool(check(side(WhirVerifier), *statement, proof, transcript()))


def programs(statement, witness):
    """Every island, with the arguments of its first call in an opening."""
    polynomials, columns, oracle = witness
    calls = {"commit": (commit, (side(WhirProver), polynomials))}

    def visit(island, *args):
        calls.setdefault(island.__name__, (island, args))
        return island(*args)

    opening(side(WhirProver), columns, oracle, statement[1], transcript(), visit)
    for name, (island, args) in calls.items():
        yield name, island, args
