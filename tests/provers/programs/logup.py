"""A range check by LogUp-GKR: sum 1/(x - a_i) = sum m_j/(x - t_j), one island per layer of the circuit.

The circuit does not fit one program at scale, so a driver orders its layers, from the output down. All
queries and all table rows are the leaves of one tree of fractions; that it sums to zero is the claim.
"""

from typing import Any

import frx.numpy as fnp
import numpy as np
from zk_dtypes import koalabear_mont as F
from zorch.challenge import ChallengePolicy
from zorch.logup_gkr.circuit import GkrLayer, LogUpGkrOutput, build_pyramid, extract_outputs
from zorch.logup_gkr.prover import LayerProof, bind_output, fold_carry, logup_combine
from zorch.logup_gkr.stage import GkrProof, LogUpGkrVerifier, LogUpOutputClaim
from zorch.poly.eq import expand_eq_to_hypercube
from zorch.poly.multilinear import eval_mle
from zorch.sumcheck.domain import fold, natural_domain, summand_evals

import fusegate
from tests.provers.programs.common import MODULUS, QUICK, transcript

ROWS = 4  # as many queries as rows
DEPTH = ROWS.bit_length() - 1
CHALLENGES = ChallengePolicy(F)


@fusegate.state
class Layer:
    """The fractions of a layer: node i has the children n0[i]/d0[i] and n1[i]/d1[i]."""

    n0: Any
    n1: Any
    d0: Any
    d1: Any


@fusegate.state
class Claim:
    """That a layer's numerator and denominator have these values at this point."""

    numerator: Any
    denominator: Any
    point: Any


@fusegate.state
class LayerMessages:
    """What the prover sends of a layer: its round polynomials, then n0, n1, d0 and d1 at the point."""

    polynomials: Any
    openings: Any


@fusegate.state
class Proof:
    """The two fractions at the root, and each layer from there on."""

    numerators: Any
    denominators: Any
    layers: Any


@fusegate.round_body(reductions=1)
def round_polynomial(factors, weight):
    """The summand of a layer, summed over the hypercube at the points 0 to 3."""
    return summand_evals(
        factors, lambda *each: logup_combine(weight, *each), natural_domain(3, factors.dtype)
    )


@fusegate.round_body(reductions=0)
def bind_variable(factors, challenge):
    """The factors with their first variable bound."""
    return fold(factors, challenge)


@fusegate.island(max_traces=1, max_compiles=1, compiler_options=QUICK)
def build(leaves):
    """All layers of the circuit, the leaves first, and the two fractions that they come to."""
    layers = build_pyramid(GkrLayer(leaves.n0, leaves.n1, leaves.d0, leaves.d1, 0))
    out = extract_outputs(layers[-1])
    kept = [
        Layer(one.numerator_0, one.numerator_1, one.denominator_0, one.denominator_1)
        for one in layers[:-1]
    ]
    return kept, out.numerator, out.denominator


@fusegate.island(max_traces=1, max_compiles=1, compiler_options=QUICK)
def bind(numerators, denominators, t):
    """Commits to the output and draws the point of the first claim."""
    claim, t = bind_output(LogUpGkrOutput(numerators, denominators), t, CHALLENGES)
    return Claim(*claim), t


@fusegate.island(max_traces=lambda n: n.bit_length() - 1, compiler_options=QUICK)
def reduce_layer(layer, claim, t):
    """Reduces the claim about a layer's nodes to one about its children, by a sumcheck."""
    t, weight = CHALLENGES.sample(t)
    equal = expand_eq_to_hypercube(claim.point, fnp.ones((), F))
    factors = fnp.stack([equal, layer.n0, layer.d1, layer.n1, layer.d0])
    polynomials, point = [], []
    while factors.shape[1] > 1:
        polynomials.append(round_polynomial(factors, weight))
        t, challenge = CHALLENGES.observe_and_sample(t, polynomials[-1])
        factors = bind_variable(factors, challenge)
        point.append(challenge)
    _, n0, d1, n1, d0 = (factors[i, 0] for i in range(5))
    openings = fnp.stack([n0, n1, d0, d1])
    t, selector = CHALLENGES.observe_and_sample(t, openings)
    reduced = Claim(*fold_carry(n0, n1, d0, d1, fnp.stack(point), selector))
    return reduced, t, LayerMessages(fnp.stack(polynomials), openings)


@fusegate.island(max_traces=1, max_compiles=1, compiler_options=QUICK)
def check(leaves, proof, t):
    """Whether the fractions sum to zero, zorch's verifier agrees, and its last claim holds of the leaves."""
    (n0, n1), (d0, d1) = ((side[0], side[1]) for side in (proof.numerators, proof.denominators))
    zero = fnp.zeros((), F)
    balanced = (n0 * d1 + n1 * d0 == zero) & (d0 * d1 != zero)
    layers = tuple(
        LayerProof(one.polynomials, None, *(one.openings[i] for i in range(4)))
        for one in proof.layers
    )
    claim = LogUpOutputClaim(LogUpGkrOutput(proof.numerators, proof.denominators), DEPTH)
    verified = LogUpGkrVerifier(CHALLENGES).verify(claim, GkrProof(layers), t)
    last = verified.reduced_claim
    numerators, denominators = (
        fnp.stack(pair, axis=-1).reshape(-1)
        for pair in ((leaves.n0, leaves.n1), (leaves.d0, leaves.d1))
    )
    at_leaves = (eval_mle(numerators, last.point) == last.numerator) & (
        eval_mle(denominators, last.point) == last.denominator
    )
    return balanced & verified.ok & at_leaves


def instance(seed):
    """Queries that are all in the table, as leaves of the circuit; they are public here."""
    rng = np.random.default_rng(seed)
    queries = rng.integers(0, ROWS, ROWS)
    numerators = np.concatenate([np.ones(ROWS, np.int64), -np.bincount(queries, minlength=ROWS)])
    shift = int(rng.integers(1 << 20, 1 << 30))
    denominators = shift - np.concatenate([queries, np.arange(ROWS)])
    leaves = Layer(
        *(
            fnp.array(side[half::2] % MODULUS, F)
            for side in (numerators, denominators)
            for half in (0, 1)
        )
    )
    return leaves, leaves


@fusegate.driver(name="logup")
def layer_by_layer(leaves, t):
    """The circuit, then its layers from the output to the leaves."""
    layers, numerators, denominators = build(leaves)
    claim, t = bind(numerators, denominators, t)
    messages = []
    for layer in reversed(layers):
        claim, t, message = reduce_layer(layer, claim, t)
        messages.append(message)
    return Proof(numerators, denominators, messages)


def prove(_, leaves):
    """Proves the sum."""
    return layer_by_layer(leaves, transcript())


def accepts(leaves, proof):
    """The verdict on a proof for these queries."""
    return bool(check(leaves, proof, transcript()))


def programs(_, leaves):
    """The circuit, the head, and the layer of the leaves, which is the largest."""
    layers, numerators, denominators = build(leaves)
    yield "build", build, (leaves,)
    yield "bind", bind, (numerators, denominators, transcript())
    claim, t = bind(numerators, denominators, transcript())
    for layer in reversed(layers[1:]):
        claim, t, _ = reduce_layer(layer, claim, t)
    yield "reduce_layer", reduce_layer, (layers[0], claim, t)
