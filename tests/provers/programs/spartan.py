"""A whole small SNARK: Spartan over a BaseFold commitment of the witness, as one zone.

Nothing in it needs the host, so commitment, both sumchecks and the opening share a program. The phases are
zorch's; the composition is of this module, on both sides.
"""

from typing import Any

import frx.numpy as fnp
import numpy as np
from zk_dtypes import koalabear_mont as F
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.pcs.basefold.prover import BasefoldProver
from zorch.pcs.basefold.verifier import BasefoldVerifier
from zorch.spartan.lincheck import (
    InnerProof,
    InnerProver,
    InnerVerifier,
    LincheckClaim,
    LincheckWitness,
    batch_claims,
)
from zorch.spartan.pcs_glue import (
    WitnessOpeningWitness,
    WitnessOpenProof,
    WitnessOpenProver,
    WitnessOpenVerifier,
    witness_opening_claim,
)
from zorch.spartan.r1cs import R1CS, assignment
from zorch.spartan.zerocheck import (
    OuterProof,
    OuterProver,
    OuterVerifier,
    ZerocheckClaim,
    ZerocheckWitness,
)

import fusegate
from tests.provers.programs.common import MODULUS, QUICK, merkle, transcript

SIZE, QUERIES = 2, 2
CHALLENGES = ChallengePolicy(F)


@fusegate.state
class Circuit:
    """The matrices of an R1CS instance, stacked, with its public inputs."""

    matrices: Any
    public: Any

    def r1cs(self):
        """The instance, as zorch has it."""
        a, b, c = (self.matrices[i] for i in range(3))
        return R1CS(a, b, c, num_io=self.public.shape[0])

    def absorbed(self, commitment, t):
        """The statement and the commitment, bound to the transcript."""
        return t.observe(fnp.concatenate([self.matrices.reshape(-1), self.public, commitment]))


@fusegate.state
class Proof:
    """The commitment, then what each phase sends."""

    commitment: Any
    outer: Any
    row_values: Any
    inner: Any
    opened: Any
    opening: Any


@fusegate.single_zone(
    static_argnames=("pcs",), max_traces=1, max_compiles=1, compiler_options=QUICK
)
def prove_all(pcs, circuit, z, t):
    """The whole proof."""
    r1cs = circuit.r1cs()
    commitment, kept = pcs.commit([z[:SIZE]])
    t = circuit.absorbed(commitment, t)
    outer = OuterProver(challenges=CHALLENGES).prove(
        ZerocheckClaim(r1cs.s_x), ZerocheckWitness(*r1cs.matvecs(z)), t
    )
    row = outer.reduced_claim
    batch, t = batch_claims(row.values, outer.transcript, CHALLENGES)
    inner = InnerProver(challenges=CHALLENGES).prove(
        LincheckClaim(r1cs, row, batch), LincheckWitness(z), t
    )
    last = witness_opening_claim(commitment, r1cs, circuit.public, row, batch, inner.reduced_claim)
    opened = WitnessOpenProver(pcs).prove(last, WitnessOpeningWitness(kept), inner.transcript)
    return Proof(
        commitment,
        outer.reduction_proof.sumcheck,
        outer.reduction_proof.claims,
        inner.reduction_proof.sumcheck,
        opened.reduction_proof.values,
        opened.reduction_proof.pcs_proof,
    )


@fusegate.island(static_argnames=("pcs",), max_traces=1, max_compiles=1, compiler_options=QUICK)
def check(pcs, circuit, proof, t):
    """Every phase's own verdict."""
    r1cs = circuit.r1cs()
    t = circuit.absorbed(proof.commitment, t)
    outer = OuterVerifier(challenges=CHALLENGES).verify(
        ZerocheckClaim(r1cs.s_x), OuterProof(proof.outer, proof.row_values), t
    )
    row = outer.reduced_claim
    batch, t = batch_claims(row.values, outer.transcript, CHALLENGES)
    inner = InnerVerifier(challenges=CHALLENGES).verify(
        LincheckClaim(r1cs, row, batch), InnerProof(proof.inner), t
    )
    last = witness_opening_claim(
        proof.commitment, r1cs, circuit.public, row, batch, inner.reduced_claim
    )
    opened = WitnessOpenVerifier(pcs).verify(
        last, WitnessOpenProof(proof.opened, proof.opening), inner.transcript
    )
    return outer.ok & inner.ok & opened.ok


def pcs_of(side):
    """One side of the commitment scheme, built anew: it is a static argument, compared by value."""
    return side(ReedSolomon(message_len=SIZE, blowup=2, dtype=F), merkle(), num_queries=QUERIES)


def instance(seed):
    """That the prover knows a square root of the public output: w0 * w0 = w1, and w1 is the output."""
    root = int(np.random.default_rng(seed).integers(2, 1 << 30))
    wires = [root, root * root % MODULUS]
    a, b, c = matrices = np.zeros((3, SIZE, 2 * SIZE), np.int64)
    a[0, 0] = b[0, 0] = c[0, 1] = 1
    one, output = SIZE, SIZE + 1
    a[1, 1] = b[1, one] = c[1, output] = 1
    public = fnp.array(wires[-1:], F)
    circuit = Circuit(fnp.array(matrices, F), public)
    return circuit, assignment(fnp.array(wires, F), public, SIZE, 1)


def prove(circuit, z):
    """Proves that the circuit can be satisfied."""
    return prove_all(pcs_of(BasefoldProver), circuit, z, transcript())


def accepts(circuit, proof):
    """The verdict on a proof for this circuit."""
    return bool(check(pcs_of(BasefoldVerifier), circuit, proof, transcript()))


def programs(circuit, z):
    """The one program."""
    yield "prove", prove_all, (pcs_of(BasefoldProver), circuit, z, transcript())
