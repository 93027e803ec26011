"""A Fiat-Shamir transcript as a state: what a permutation that compares by identity costs.

    fusegate run examples/06_state.py

A transcript carries its permutation as metadata, and every proof builds both anew. If the permutation
compares by identity, each proof is a new program: traced and compiled again, with the same result. The
first table shows it for a plain registered dataclass, for four proofs each. `@state` refuses such a
permutation when the transcript is constructed, and names the part that it is about, also where a wrapper
hides it. The second table shows numbers as metadata: the runtime's own comparison takes 2 for 2.0 and
serves the other one's program.

Runs on FRX (CPython 3.11), CPU.
"""

import time
from dataclasses import dataclass
from typing import Any

import frx
import frx.numpy as fnp
from frx.tree_util import register_dataclass
from zk_dtypes import koalabear_mont as F
from zorch.commit.merkle import MerkleTree
from zorch.hash.compression import Compression, CompressionParams
from zorch.hash.sponge import Sponge, SpongeParams
from zorch.testkit.random_field import rand_field
from zorch.testkit.transcript import CheapPermutation

import fusegate

WIDTH, ROUNDS, PROOFS = 16, 6, 4


class IdentityPermutation(CheapPermutation):
    """zorch's permutation as it was once written: without value equality."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


# ---- the transcript, twice ----------------------------------------------------------------------
@dataclass(frozen=True)
class PlainTranscript:
    """Registered by the runtime's own means: metadata compares as it may."""

    lanes: Any
    permutation: Any
    rate: int = 8


register_dataclass(PlainTranscript, data_fields=["lanes"], meta_fields=["permutation", "rate"])


@fusegate.state
class Transcript:
    """The same as a state: metadata compares by value, or is refused."""

    lanes: Any
    permutation: Any = fusegate.meta()
    rate: int = fusegate.meta(default=8)


def absorb(transcript, message):
    """Overwrites the rate part of the sponge with a message and permutes."""
    lanes = fnp.concatenate([message, transcript.lanes[transcript.rate :]])
    return type(transcript)(
        transcript.permutation.permute(lanes), transcript.permutation, transcript.rate
    )


# ---- what is counted ----------------------------------------------------------------------------
class Count:
    """Traces and compiles since it was made."""

    traces = compiles = 0

    @classmethod
    def listen(cls, event, _seconds, **_):
        cls.compiles += event == "/jax/core/compile/backend_compile_duration"


frx.monitoring.register_event_duration_secs_listener(Count.listen)


def prove(transcript_class, permutation_class):
    """Some proofs, each with a transcript of its own; (traces, compiles, seconds of the last)."""

    @frx.jit
    def challenge(transcript, messages):
        """Absorbs every message and squeezes a challenge."""
        Count.traces += 1
        for message in messages:
            transcript = absorb(transcript, message)
        return transcript.lanes[0]

    messages = rand_field(7, (ROUNDS, 8), F)
    starts = [fnp.zeros(WIDTH, F) for _ in range(PROOFS)]
    before = Count.traces, Count.compiles
    drawn, spent = [], 0.0
    for lanes in starts:
        start = time.perf_counter()
        transcript = transcript_class(lanes, permutation_class(width=WIDTH, dtype=F))
        drawn.append(frx.block_until_ready(challenge(transcript, messages)))
        spent = time.perf_counter() - start
    # Before the results are looked at: comparing them compiles as well.
    counted = Count.traces - before[0], Count.compiles - before[1]
    assert all((value == drawn[0]).item() for value in drawn)
    return *counted, spent


def compile_counts():
    print(f"{PROOFS} proofs, a transcript and a permutation built for each\n")
    print(f"  {'':44} traces  compiles  last proof")
    for title, transcript_class, permutation_class in (
        ("register_dataclass, permutation by identity", PlainTranscript, IdentityPermutation),
        ("register_dataclass, permutation by value", PlainTranscript, CheapPermutation),
        ("@state, permutation by value", Transcript, CheapPermutation),
    ):
        traces, compiles, spent = prove(transcript_class, permutation_class)
        print(f"  {title:44} {traces:6}  {compiles:8}  {spent * 1e3:7.1f} ms")


# ---- what is refused ----------------------------------------------------------------------------
class LinearHash(Sponge):
    """A leaf hasher of a user, the one link of the tree that compares by identity."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def tree():
    permutation = CheapPermutation(width=WIDTH, dtype=F)
    return MerkleTree(
        LinearHash(permutation, SpongeParams(rate=8, out=8)),
        Compression(permutation, CompressionParams(arity=2, chunk=8)),
    )


@fusegate.state
class Opening:
    """A committed matrix and the tree that committed it."""

    matrix: Any
    tree: Any = fusegate.meta()


def refusals():
    print("\nwhat @state refuses, at the line that constructs it\n")
    with fusegate.mode("strict"):
        for build in (
            lambda: Transcript(fnp.zeros(WIDTH, F), IdentityPermutation(width=WIDTH, dtype=F)),
            lambda: Opening(rand_field(1, (8, 4), F), tree()),
            lambda: Opening(rand_field(1, (8, 4), F), [1, 2]),
        ):
            try:
                build()
            except fusegate.Violation as violation:
                print(f"  {violation}\n".replace("\n", "\n  "))


# ---- what would be wrong ------------------------------------------------------------------------
@dataclass(frozen=True)
class PlainScale:
    """A factor as plain metadata."""

    factor: Any


register_dataclass(PlainScale, data_fields=[], meta_fields=["factor"])


@fusegate.state
class Scale:
    """A factor as metadata of a state."""

    factor: Any = fusegate.meta()


def wrong_results():
    print(
        "numbers as metadata: a warm program is called with an equal number of another type or sign\n"
    )
    print(f"  {'':24} {'eager':>8}  {'register_dataclass':>18}  {'@state':>8}")
    for title, operation, first, second, show in (
        ("i32 * 2.0, then * 2", lambda w, m: w * m, 2.0, 2, lambda out: str(out.dtype)),
        ("1 / 0.0, then / -0.0", lambda w, m: w / m, 0.0, -0.0, lambda out: f"{float(out[1]):+}"),
        (
            "m = 1, then m = True",
            lambda w, m: w if m is True else -w,
            1,
            True,
            lambda out: f"{int(out[1])}",
        ),
    ):
        w = fnp.arange(3)
        shown = [show(operation(w, second))]
        for holder in (PlainScale, Scale):
            scaled = frx.jit(lambda s, w, operation=operation: operation(w, s.factor))
            scaled(holder(first), w)
            shown.append(show(scaled(holder(second), w)))
        print(f"  {title:24} {shown[0]:>8}  {shown[1]:>18}  {shown[2]:>8}")


def main():
    compile_counts()
    refusals()
    wrong_results()


if __name__ == "__main__":
    main()
