"""A WHIR opening on zorch as a driver over islands, with a proof-of-work grind between them.

    python examples/04_whir_islands.py

WHIR grinds before every challenge. The search ends when the host says so, so the opening cannot be one
program: it is a driver that orders islands, and the grind is a host op, declared with its reason. The
driver launches nothing but islands; the verifier accepts the proof, and zorch's own prover makes the same
one. Then come three copies with a fault each that changes no byte of the proof: a grind that nobody
declared, a witness that goes to the host and comes back with each launch, and an op left between islands.

Runs on FRX (CPython 3.11), CPU. The permutation is zorch's cheap one for tests.
"""

import contextlib
import os

# The verifier is one large program; without LLVM's dear passes it compiles in a fraction of the time.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import frx
import frx.numpy as fnp
import numpy as np
from frx import lax
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.coding.reed_solomon import ReedSolomon
from zorch.commit.strided_merkle import StridedMerkleTree
from zorch.hash.compression import Compression, CompressionParams
from zorch.hash.sponge import Sponge, SpongeParams
from zorch.pcs.stage import OpeningClaim, OpeningProof, OpeningWitness
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
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript, sample_challenge
from zorch.utils.bits import log2_strict_usize

import fusegate

VARIABLES, FOLDS, BITS, LIMBS = 4, 2, 3, 4
PARAMS = WhirParams(
    k_whir=FOLDS,
    num_queries=(3,) * (VARIABLES // FOLDS),
    mu_pow_bits=BITS,
    folding_pow_bits=BITS,
    query_pow_bits=BITS,
)


# ---- the islands ----------------------------------------------------------------------------------
@fusegate.island(static_argnames=("prover",))
def claimed(prover, data, z, t):
    """The values that the proof opens to, bound to the transcript with the commitment."""
    values = prover.scheme.claimed_values(data.mle, z)
    return values, prover.scheme.bind(t, data.digest_layers[-1][0], values)


@fusegate.island(static_argnames=("prover",))
def tables(prover, mle, z, t):
    """The sumcheck's two tables, after the combining challenge."""
    t, mu = sample_challenge(t, EF, LIMBS)
    return prover.scheme.combined_f_evals(mle, mu), prover.scheme.initial_weight(z), t


@fusegate.island(max_traces=lambda n: n.bit_length())
def message(f, w, t):
    """The round's message at the points 1 and 2, absorbed."""
    f0, f1, w0, w1 = f[0::2], f[1::2], w[0::2], w[1::2]
    s = fnp.stack([(f1 * w1).sum(), ((f1 + f1 - f0) * (w1 + w1 - w0)).sum()])
    return s, t.observe(s)


@fusegate.island(max_traces=lambda n: n.bit_length())
def bind(f, w, t):
    """Both tables, folded at the round's challenge."""
    t, alpha = sample_challenge(t, EF, LIMBS)
    return fold(f, alpha, msb=False), fold(w, alpha, msb=False), t


@fusegate.island(static_argnames=("prover", "r"))
def commit_folded(prover, r, f, t):
    """The folded table as a fresh codeword, committed, and its value at a point outside the domain."""
    coeffs = mle_evals_to_coeffs(f)
    code = round_code(prover.code, r + 1, FOLDS, rate_increase=prover.params.rate_increase)
    codeword = lax.bitcast_convert_type(code.encode(coeffs), prover.code.dtype)
    root, layers = prover.tree.commit(codeword)
    t, z0 = sample_challenge(t.observe(root), EF, LIMBS)
    y0 = eval_coeffs(coeffs, z0)
    return (root, codeword, layers), z0, y0, t.observe(y0)


@fusegate.island
def send_in_the_clear(f, t):
    """The last folded table's coefficients, absorbed."""
    coeffs = mle_evals_to_coeffs(f)
    return coeffs, t.observe(coeffs)


@fusegate.island(static_argnames=("prover", "r"))
def query(prover, r, codeword, layers, t):
    """The round's query positions, their openings in one batch, and the combining challenge."""
    code = round_code(prover.code, r, FOLDS, rate_increase=prover.params.rate_increase)
    t, positions = sample_query_positions(
        t, code.block_len >> FOLDS, prover.params.num_queries[r], prover.code.dtype
    )
    opened = frx.vmap(lambda i: prover.tree.open(codeword, layers, i))(positions)
    t, gamma = sample_challenge(t, EF, LIMBS)
    return opened, positions, gamma, t


@fusegate.island(static_argnames=("prover", "r"))
def reweigh(prover, r, w, gamma, z0, positions):
    """The weight table with the round's constraints folded in."""
    dim = log2_strict_usize(w.shape[0])
    code = round_code(prover.code, r, FOLDS, rate_increase=prover.params.rate_increase)
    roots = code.domain()[positions].astype(EF)
    queried = frx.vmap(lambda x: eq_table(pow2_powers(pow2_powers(x, FOLDS + 1)[-1], dim)))(roots)
    powers = query_gamma_powers(gamma, prover.params.num_queries[r])
    return w + gamma * eq_table(pow2_powers(z0, dim)) + (powers[:, None] * queried).sum(0)


# ---- the driver -----------------------------------------------------------------------------------
def grind(t, bits):
    """Searches a witness and looks at the verdict on the host: this is why the opening is a driver."""
    with fusegate.host_op("proof-of-work grind"):
        advanced, witness = t.grind(bits)
        _, found = t.check_witness(witness, pow_bits=bits)
        if not bool(found):
            raise RuntimeError("the proof-of-work search is exhausted")
    return advanced, witness


def opening(prover, data, z, t, grind):
    """All rounds: message, grind, fold; then commit, grind, query."""
    values, t = claimed(prover, data, z, t)
    t, mu_witness = grind(t, BITS)
    f, w, t = tables(prover, data.mle, z, t)
    proof = WhirProof(
        mu_pow_witness=mu_witness, sumcheck_polys=[], codeword_roots=[], ood_values=[],
        folding_pow_witnesses=[], query_pow_witnesses=[], initial_openings=[], codeword_openings=[],
        final_poly=f,
    )  # fmt: skip
    codeword, layers = data.codeword, data.digest_layers
    last = len(PARAMS.num_queries) - 1
    for r in range(last + 1):
        for _ in range(FOLDS):
            s, t = message(f, w, t)
            t, witness = grind(t, BITS)
            f, w, t = bind(f, w, t)
            proof.sumcheck_polys.append(s)
            proof.folding_pow_witnesses.append(witness)
        if r < last:
            (root, *following), z0, y0, t = commit_folded(prover, r, f, t)
            proof.codeword_roots.append(root)
            proof.ood_values.append(y0)
        else:
            final, t = send_in_the_clear(f, t)
        t, witness = grind(t, BITS)
        proof.query_pow_witnesses.append(witness)
        opened, positions, gamma, t = query(prover, r, codeword, layers, t)
        (proof.codeword_openings if r else proof.initial_openings).append(opened)
        if r < last:
            w = reweigh(prover, r, w, gamma, z0, positions)
            codeword, layers = following
    return values, WhirProof(**{**vars(proof), "final_poly": final})


@fusegate.driver(name="open")
def prove(prover, data, z, t):
    """The opening, with the grind declared."""
    return opening(prover, data, z, t, grind)


# ---- its three broken twins -----------------------------------------------------------------------
@fusegate.driver(name="open, grind undeclared", max_eager=100)
def prove_undeclared(prover, data, z, t):
    """The same grind, and nobody said that it is meant: its verdict is a read like any other."""

    def grind(t, bits):
        advanced, witness = t.grind(bits)
        _, found = t.check_witness(witness, pow_bits=bits)
        if not bool(found):  # the read
            raise RuntimeError("the proof-of-work search is exhausted")
        return advanced, witness

    return opening(prover, data, z, t, grind)


@fusegate.driver(name="open, state on the host")
def prove_from_host(prover, data, z, t):
    """Keeps the opening point as a numpy array, so that every launch that takes it uploads it."""
    with fusegate.host_op("load the point"):
        z = np.asarray(z)
    return opening(prover, data, z, t, grind)


@fusegate.driver(name="open, op between islands")
def prove_loose(prover, data, z, t):
    """Combines the columns eagerly, before the first island."""
    z = z + fnp.zeros_like(z)  # the loose op
    return opening(prover, data, z, t, grind)


# ---- inputs, and the checks of this program -------------------------------------------------------
def setting():
    """The code, the tree over a fresh permutation, and both sides of the scheme."""
    permutation = CheapPermutation(width=16, dtype=F)
    tree = StridedMerkleTree(
        Sponge(permutation, SpongeParams(rate=8, out=8)),
        Compression(permutation, CompressionParams(arity=2, chunk=8)),
        1 << FOLDS,
    )
    code = ReedSolomon(message_len=1 << VARIABLES, blowup=2, dtype=F)
    return WhirProver(code, tree, PARAMS), WhirVerifier(code, tree, PARAMS)


def transcript():
    """A fresh transcript over a fresh permutation."""
    return DuplexTranscript.new(CheapPermutation(width=16, dtype=F), rate=8)


@contextlib.contextmanager
def caught(code, words):
    """Checks that the block is stopped by a violation of this code."""
    found = None
    try:
        yield
    except fusegate.Violation as violation:
        found = violation
    assert found is not None, f"{code} did not come"
    assert found.code == code, found
    assert words in str(found), found
    print(f"caught {code} in {found.boundary}, at line {found.location.line}")


def main():
    """Proves, verifies, compares with zorch's own prover, then runs the twins to where they are stopped."""
    prover, verifier = setting()
    root, data = prover.commit([rand_field(i, (1 << VARIABLES,), F) for i in range(2)])
    z = rand_ext_field(50, (VARIABLES,), F, EF)
    claim = OpeningClaim(root, [z])
    with fusegate.mode("strict"):
        for _ in range(2):
            values, proof = prove(prover, data, z, transcript())
        seen = fusegate.report().drivers["open"]
        assert (seen.eager, seen.reads, seen.uploads) == (0, 0, 0), seen
        print(
            f"launches per proof: {seen.launches // 2}; outside of the grind, all of them islands"
        )
        print(f"host ops:           {dict(seen.host_ops)}")

        assert bool(verifier.verify(claim, OpeningProof(values, proof), transcript()).ok)
        print("proof verified:     yes")
        shipped = prover.prove(claim, OpeningWitness(data), transcript()).reduction_proof
        pairs = zip(
            frx.tree_util.tree_leaves((values, vars(proof))),
            frx.tree_util.tree_leaves((shipped.values, vars(shipped.proof))),
            strict=True,
        )
        assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
        print("zorch's own proof:  the same bytes")

        with caught("FG301", "device-to-host read 1"):
            prove_undeclared(prover, data, z, transcript())
        with caught("FG302", "`z` is a numpy array"):
            prove_from_host(prover, data, z, transcript())
        with caught("FG303", "eager launch 1"):
            prove_loose(prover, data, z, transcript())


if __name__ == "__main__":
    main()
