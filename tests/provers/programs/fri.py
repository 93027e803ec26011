"""FRI: an evaluation proof for a committed polynomial, its fold loop and its queries as one zone."""

from typing import Any

import frx.numpy as fnp
from zk_dtypes import koalabear_mont as F
from zorch.coding.reed_solomon import ReedSolomon
from zorch.pcs.fold import open_rows, sample_positions
from zorch.pcs.fri.config import FriParams, FriProof
from zorch.pcs.fri.verifier import FriVerifier
from zorch.pcs.stage import OpeningClaim, OpeningProof
from zorch.poly.univariate import eval_coeffs
from zorch.testkit.random_field import rand_field

import fusegate
from tests.provers.programs.common import QUICK, merkle, transcript

ROUNDS, QUERIES = 2, 3


@fusegate.state
class Layer:
    """A committed codeword: the pairs that fold together are its leaves."""

    leaves: Any
    digests: Any

    @property
    def root(self):
        """The commitment."""
        return self.digests[-1][0]


@fusegate.state
class Polynomial:
    """What the prover keeps of a committed polynomial."""

    coefficients: Any
    codeword: Any
    layer: Any


def commit_layer(params, codeword):
    """Commits the pairs of a codeword."""
    leaves = params.code.pair_leaves(codeword)
    return Layer(leaves, params.tree.commit(leaves)[1])


@fusegate.round_body(reductions=0)
def quotient(codeword, domain, value, point):
    """(f(x) - f(z)) / (x - z), of low degree if and only if the value is right."""
    return (codeword - value) / (domain - point)


@fusegate.island(static_argnames=("params",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def commit(params, coefficients):
    """Encodes the polynomial and commits its codeword."""
    codeword = params.code.encode(coefficients)
    return Polynomial(coefficients, codeword, commit_layer(params, codeword))


@fusegate.single_zone(
    static_argnames=("params",), max_traces=1, max_compiles=1, compiler_options=QUICK
)
def open_at(params, polynomial, point, t):
    """The whole opening: commit and fold until the codeword is constant, then answer the queries."""
    value = eval_coeffs(polynomial.coefficients, point)
    codeword = quotient(polynomial.codeword, params.code.domain(), value, point)
    t = t.observe(polynomial.layer.root)
    layers = []
    for _ in range(params.num_rounds):
        layers.append(commit_layer(params, codeword))
        t, challenge = t.observe_and_sample(layers[-1].root, 1)
        codeword = params.code.fold(codeword, challenge[0])
    t, positions = sample_positions(t.observe(codeword), params.code.block_len, params.num_queries)
    rows = params.code.layer_positions(positions, params.num_rounds)
    opened = [
        open_rows(params.tree, layer.leaves, layer.digests, at)
        for layer, at in zip([polynomial.layer, *layers], [rows[0], *rows], strict=True)
    ]
    return FriProof(value, [layer.root for layer in layers], codeword, opened[0], opened[1:])


@fusegate.island(static_argnames=("params",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def check(params, root, point, proof, t):
    """zorch's own verifier."""
    claim = OpeningClaim(root[None], [point])
    return FriVerifier(params).verify(claim, OpeningProof(proof.value[None], [proof]), t).ok


def params_of():
    """The public parameters, built anew: they are a static argument, compared by value."""
    code = ReedSolomon(message_len=1 << ROUNDS, blowup=2, dtype=F)
    return FriParams(code, merkle(), ROUNDS, QUERIES)


def instance(seed):
    """A commitment and a point; the polynomial behind it."""
    polynomial = commit(params_of(), rand_field(seed, (1 << ROUNDS,), F))
    return (polynomial.layer.root, fnp.array(seed + 5, F)), polynomial


def prove(statement, polynomial):
    """Opens the polynomial at the point."""
    return open_at(params_of(), polynomial, statement[1], transcript())


def accepts(statement, proof):
    """The verdict on an opening of this commitment at this point."""
    return bool(check(params_of(), *statement, proof, transcript()))


def programs(statement, polynomial):
    """The commitment and the opening."""
    yield "commit", commit, (params_of(), polynomial.coefficients)
    yield "open_at", open_at, (params_of(), polynomial, statement[1], transcript())
