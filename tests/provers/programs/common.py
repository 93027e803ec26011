"""What the provers of this folder share: hashes, transcripts, compiler options, and forged proofs.

Every prover is a module of the same form:

- `instance(seed)` gives a true statement and its witness;
- `prove(statement, witness)` gives a proof, with a fresh transcript and fresh hashes for each call;
- `accepts(statement, proof)` is the verifier's verdict, as a Python bool;
- `programs(statement, witness)` gives (name, boundary, arguments) for each program of the prover, in the
  order in which the protocol first comes to it.
"""

import frx
import numpy as np
from frx import tree_util
from zk_dtypes import koalabear_mont as F
from zorch.commit.merkle import MerkleTree
from zorch.commit.strided_merkle import StridedMerkleTree
from zorch.hash.compression import Compression, CompressionParams
from zorch.hash.sponge import Sponge, SpongeParams
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript

MODULUS = 2130706433

# The pinned figures are settled before LLVM starts; without its dear passes compiling takes half the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def permutation():
    """zorch's permutation for tests, a new object each time; it compares by value."""
    return CheapPermutation(width=16, dtype=F)


def transcript():
    """A fresh transcript."""
    return DuplexTranscript.new(permutation(), rate=8)


def hashes():
    """The leaf hash and the compression of a binary tree."""
    same = permutation()
    return Sponge(same, SpongeParams(rate=8, out=8)), Compression(
        same, CompressionParams(arity=2, chunk=8)
    )


def merkle():
    """A binary Merkle tree."""
    return MerkleTree(*hashes())


def strided_merkle(rows):
    """A Merkle tree that opens cosets of so many rows."""
    return StridedMerkleTree(*hashes(), rows)


def forgeries(proof):
    """Copies of a proof with one limb changed, each with the place of the change.

    Changed are the first, the middle and the last limb of every array, on the host: a forgery compiles
    nothing and has the form of the true proof.
    """
    leaves, structure = tree_util.tree_flatten_with_path(proof)
    arrays = [leaf for _, leaf in leaves]
    for position, (path, leaf) in enumerate(leaves):
        size = np.asarray(leaf).reshape(-1).view(np.uint32).size
        for place in sorted({0, size // 2, size - 1}):
            changed = np.array(leaf)
            limbs = changed.reshape(-1).view(np.uint32)
            limbs[place] = (limbs[place] + 1) % MODULUS
            forged = [*arrays[:position], frx.device_put(changed), *arrays[position + 1 :]]
            yield f"{tree_util.keystr(path)}[{place}]", structure.unflatten(forged)
