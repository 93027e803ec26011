"""A product sumcheck as one zone: nothing in it needs the host, so the whole proof is one program."""

import operator
from typing import Any

import frx.numpy as fnp
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.sumcheck.domain import fold, natural_domain, summand_evals
from zorch.sumcheck.verifier import SumcheckRound
from zorch.testkit.random_field import rand_ext_field
from zorch.verify import verify

import fusegate
from tests.provers.programs.common import QUICK, transcript

VARIABLES, DEGREE = 3, 2
CHALLENGES = ChallengePolicy(EF)


@fusegate.state
class Proof:
    """The round polynomials, and both tables at the point that they reduce to."""

    messages: Any
    values: Any


@fusegate.round_body(reductions=1)
def round_polynomial(tables):
    """The product of the tables, summed over the hypercube at the points 0, 1 and 2."""
    return summand_evals(tables, operator.mul, natural_domain(DEGREE, tables.dtype))


@fusegate.round_body(reductions=0)
def bind_variable(tables, challenge):
    """The tables with their first variable bound; they halve."""
    return fold(tables, challenge)


def all_rounds(tables, t, challenges=CHALLENGES):
    """Message, challenge, fold, until one entry is left of each table."""
    messages = []
    while tables.shape[1] > 1:
        messages.append(round_polynomial(tables))
        t, challenge = challenges.observe_and_sample(t, messages[-1])
        tables = bind_variable(tables, challenge)
    return Proof(fnp.stack(messages), tables[:, 0])


@fusegate.single_zone(max_traces=1, max_compiles=1, compiler_options=QUICK)
def prove_all(tables, t):
    """The whole proof."""
    return all_rounds(tables, t)


@fusegate.island(max_traces=1, max_compiles=1, compiler_options=QUICK)
def check(total, proof, t):
    """Whether the rounds reduce the total to the product of the values.

    A commitment would tie the values to the tables; that is the opening's part.
    """
    _, reduced, _, sound = verify(SumcheckRound(DEGREE, CHALLENGES), total, proof.messages, t)
    return sound & (reduced == proof.values[0] * proof.values[1])


def tables_of(seed, variables=VARIABLES):
    """Two random tables."""
    return fnp.stack([rand_ext_field(seed + i, (1 << variables,), F, EF) for i in (0, 1)])


def instance(seed):
    """The sum of two tables' product."""
    tables = tables_of(seed)
    return fnp.sum(tables[0] * tables[1]), tables


def prove(_, tables):
    """Proves the sum."""
    return prove_all(tables, transcript())


def accepts(total, proof):
    """The verdict on a proof of this total."""
    return bool(check(total, proof, transcript()))


def programs(_, tables):
    """The one program."""
    yield "prove", prove_all, (tables, transcript())
