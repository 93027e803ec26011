"""Launches of zorch's own drivers, warm, against an independent count.

The other count is that of an eager tracer which takes each operation apart before it runs. Where the two
differ, the tracer has more, and by known operations: it counts the unpacking of an array as a slice and a
squeeze per item, where the runtime launches one program for all of them; and it counts conversions to the
type that an array has already, which launch nothing. Results are compared as well: observed and not, a
proof is the same bytes.
"""

import jax
import numpy as np
import pytest

if jax.__name__ != "frx":
    pytest.skip("needs FRX", allow_module_level=True)
pytest.importorskip("zorch")

import operator

import jax.numpy as jnp
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.commit.merkle import MerkleTree
from zorch.commit.strided_merkle import StridedMerkleTree
from zorch.hash.compression import Compression, CompressionParams
from zorch.hash.sponge import Sponge, SpongeParams
from zorch.logup_gkr.circuit import (
    GkrLayer,
    LogUpGkrOutput,
    build_pyramid,
    extract_outputs,
)
from zorch.logup_gkr.prover import GkrLayerRound, bind_output
from zorch.logup_gkr.stage import LogUpGkrProver, LogUpOutputClaim
from zorch.pcs.basefold.prover import BasefoldProver
from zorch.pcs.stage import OpeningClaim, OpeningWitness
from zorch.pcs.whir.config import WhirParams
from zorch.pcs.whir.prover import WhirProver
from zorch.spartan.r1cs import R1CS, assignment
from zorch.spartan.spartan import SpartanClaim, SpartanProver, SpartanWitness
from zorch.sumcheck.domain import fold, natural_domain, summand_evals
from zorch.sumcheck.prover import ProductSummand, StandardRound
from zorch.sumcheck.stage import SumcheckProver, SumcheckWitness, SumClaim
from zorch.testkit.random_field import rand_ext_field, rand_field
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript

import fusegate

CHALLENGES = ChallengePolicy(EF)
VARIABLES = 8


def permutation():
    return CheapPermutation(width=16, dtype=F)


def hashers():
    same = permutation()
    sponge = Sponge(same, SpongeParams(rate=8, out=8))
    return sponge, Compression(same, CompressionParams(arity=2, chunk=8))


def transcript():
    return DuplexTranscript.new(permutation(), rate=8)


def observed(run, *args):
    """Figures of one warm run, after one that compiled; the results of both are the same bytes."""
    plain = run(*args)
    with fusegate.driver(
        "d", mode="warn", max_eager=1 << 30, max_reads=1 << 30, allow=["FG302", "FG102"]
    ):
        result = run(*args)
    for a, b in zip(
        jax.tree_util.tree_leaves(plain), jax.tree_util.tree_leaves(result), strict=True
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return fusegate.report().drivers["d"]


def tables(seed):
    return jnp.stack([rand_ext_field(seed + i, (1 << VARIABLES,), F, EF) for i in (0, 100)])


@fusegate.single_zone
def zone(state, t):
    messages = []
    for _ in range(VARIABLES):
        message = summand_evals(state, operator.mul, natural_domain(2, state.dtype))
        t, challenge = CHALLENGES.observe_and_sample(t, message)
        state = fold(state, challenge)
        messages.append(message)
    return jnp.stack(messages)


def test_a_single_zone_is_one_launch():
    figures = observed(zone, tables(1), transcript())
    assert (figures.launches, figures.eager) == (1, 0)


def test_the_sumcheck_prover():
    state = tables(1)
    claim = jnp.sum(state[0] * state[1])

    def prove(state, claim, t):
        prover = SumcheckProver(StandardRound(ProductSummand(2), challenges=CHALLENGES))
        return prover.prove(SumClaim(claim, VARIABLES), SumcheckWitness(state), t).reduction_proof

    figures = observed(prove, state, claim, transcript())
    assert figures.launches == 148  # the tracer: 180, with 16 items unpacked and 8 conversions


def test_the_whir_prover():
    polynomials = [rand_field(i, (64,), F) for i in range(2)]
    point = rand_ext_field(5, (6,), F, EF)

    def prove(polynomials, point, t):
        code = ReedSolomon(message_len=64, blowup=2, dtype=F)
        params = WhirParams(
            k_whir=2, num_queries=(3,) * 3, mu_pow_bits=6, folding_pow_bits=6, query_pow_bits=6
        )
        prover = WhirProver(code, StridedMerkleTree(*hashers(), 4), params)
        root, data = prover.commit(polynomials)
        return prover.prove(
            OpeningClaim(root, [point]), OpeningWitness(data), t
        ).reduction_proof.values

    figures = observed(prove, polynomials, point, transcript())
    assert figures.launches == 109


def lookup(n=32, rows=16):
    rng = np.random.default_rng(1)
    queries = rng.integers(0, rows, n)
    counts = np.bincount(queries, minlength=rows)
    shift = rand_ext_field(77, (), F, EF)
    pad = jnp.zeros((n - rows,), F)
    numerators = jnp.concatenate([jnp.ones((n,), F), -jnp.array(counts, F), pad]).astype(EF)
    values = jnp.concatenate([jnp.array(queries, F), jnp.array(np.arange(rows), F), pad])
    denominators = shift - values.astype(EF)
    return numerators[0::2], numerators[1::2], denominators[0::2], denominators[1::2]


def test_the_logup_prover():
    def prove(n0, n1, d0, d1, t):
        layer = GkrLayer(n0, n1, d0, d1, 1)
        out = extract_outputs(build_pyramid(layer)[-1])
        proved = LogUpGkrProver(CHALLENGES).prove(
            LogUpOutputClaim(out, layer.num_row_variables), layer, t
        )
        return proved.reduced_claim.numerator

    figures = observed(prove, *lookup(), transcript())
    assert figures.launches == 872  # the tracer: 1184


@fusegate.island
def pyramid(n0, n1, d0, d1):
    return [
        (one.numerator_0, one.numerator_1, one.denominator_0, one.denominator_1)
        for one in build_pyramid(GkrLayer(n0, n1, d0, d1, 1))
    ]


@fusegate.island
def head(numerator, denominator, t):
    return bind_output(LogUpGkrOutput(numerator, denominator), t, CHALLENGES)


# One large program per layer: what is counted is its launch, so it need not be compiled well.
@fusegate.island(
    compiler_options={
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
)
def one_layer(claim, t, *layer):
    claim, t, proof = GkrLayerRound(GkrLayer(*layer, 1), CHALLENGES)(claim, t)
    return claim, t, proof.round_polys


def test_logup_with_one_island_per_layer():
    def prove(n0, n1, d0, d1, t):
        layers = pyramid(n0, n1, d0, d1)
        out = extract_outputs(GkrLayer(*layers[-1], 1))
        claim, t = head(out.numerator, out.denominator, t)
        for layer in reversed(layers[:-1]):
            claim, t, _ = one_layer(claim, t, *layer)
        return claim[0]

    figures = observed(prove, *lookup(), transcript())
    assert (figures.launches, figures.eager) == (14, 8)  # the tracer: 18, with 4 conversions


@fusegate.island(static_argnums=0)
def open_batch(tree, matrix, layers, indices):
    return jax.vmap(lambda i: tree.open(matrix, layers, i))(indices)


@pytest.mark.parametrize("how", ["loop", "eager vmap", "island"])
def test_merkle_openings(how):
    matrix = rand_field(1, (128, 4), F)
    tree = MerkleTree(*hashers())
    _, layers = jax.jit(tree.commit)(matrix)
    indices = jnp.arange(64, dtype=jnp.int32)
    runs = {
        "loop": lambda: [tree.open(matrix, layers, i).row for i in range(64)],
        "eager vmap": lambda: jax.vmap(lambda i: tree.open(matrix, layers, i))(indices).row,
        "island": lambda: open_batch(MerkleTree(*hashers()), matrix, layers, indices).row,
    }
    figures = observed(runs[how])
    assert figures.launches == {"loop": 1024, "eager vmap": 126, "island": 1}[how]


def instance(rows=16):
    rng = np.random.default_rng(3)
    witness = [int(rng.integers(2, 99)), int(rng.integers(2, 99))]
    for i in range(8):
        witness.append(witness[i] * witness[i + 1] % 2130706433)
    a, b, c = (np.zeros((rows, 2 * rows), np.int64) for _ in range(3))
    for i in range(8):
        a[i, i] = b[i, i + 1] = c[i, i + 2] = 1
    c[8, rows + 1] = a[8, 9] = b[8, rows] = 1
    public = jnp.array([witness[9]], F)
    return (
        tuple(jnp.array(one, F) for one in (a, b, c)),
        public,
        assignment(jnp.array(witness, F), public, rows, 1),
    )


def test_spartan_over_basefold():
    (a, b, c), public, z = instance()
    challenges = ChallengePolicy(F)

    def prove(a, b, c, public, z, t):
        code = ReedSolomon(message_len=16, blowup=2, dtype=F)
        pcs = BasefoldProver(code, MerkleTree(*hashers()), num_queries=4)
        claim = SpartanClaim(R1CS(a, b, c, 1), public)
        proved = SpartanProver(pcs, challenges=challenges).prove(claim, SpartanWitness(z), t)
        return proved.reduction_proof.commitment

    figures = observed(prove, a, b, c, public, z, transcript())
    assert figures.launches == 804  # the tracer: 1034, with 195 conversions
