"""zorch 0.2.0 through the walk: the counts of its functions, and the verdicts that they deserve.

The counts are those measured by a plain recursive walk over the same functions. Two differences are
explained here and nowhere else: `dot_general` is a breaker, not a reduction, so a function that holds one
has one reduction less; and composites inside a name-routed composite are counted too, so `composites` is
what stands outside of one.
"""

import dataclasses

import jax
import numpy as np
import pytest

if jax.__name__ != "frx":
    pytest.skip("needs FRX", allow_module_level=True)
zorch = pytest.importorskip("zorch")

import jax.numpy as jnp
from zk_dtypes import koalabear_mont as F, koalabearx4_mont as EF
from zorch.challenge import ChallengePolicy
from zorch.coding.reed_solomon import ReedSolomon
from zorch.commit.merkle import MerkleTree
from zorch.commit.strided_merkle import StridedMerkleTree
from zorch.hash.compression import Compression, CompressionParams
from zorch.hash.poseidon2.params import Poseidon2Params
from zorch.hash.poseidon2.poseidon2 import Poseidon2
from zorch.hash.sponge import Sponge, SpongeParams
from zorch.logup_gkr.circuit import GkrLayer, build_pyramid, extract_outputs
from zorch.logup_gkr.prover import LogupSumcheckRound
from zorch.logup_gkr.stage import LogUpGkrProver, LogUpOutputClaim
from zorch.pcs.basefold.prover import BasefoldProver
from zorch.pcs.fold import FoldState, PreFoldPairCommitRound
from zorch.pcs.fri.config import FriParams
from zorch.pcs.fri.prover import FriProver
from zorch.pcs.stage import OpeningClaim, OpeningWitness
from zorch.pcs.whir import prover as whir
from zorch.pcs.whir.config import WhirParams
from zorch.sumcheck import prover as sumcheck
from zorch.sumcheck.domain import fold, natural_domain, summand_evals
from zorch.testkit.random_field import rand_ext_field, rand_field
from zorch.testkit.transcript import CheapPermutation
from zorch.transcript import DuplexTranscript

from fusegate.config import Thresholds
from fusegate.judge import donation, fusion
from fusegate.observe.jaxpr import program_facts
from fusegate.runtime import arrays, jaxprs

MOVES = {"gather", "scatter", "scatter-add", "dynamic_slice", "dynamic_update_slice", "sort"}
LOOPS = {"scan", "while", "cond"}


@dataclasses.dataclass
class Subject:
    name: str
    role: str = "round body"
    defined: None = None


def poseidon2():
    rng = np.random.default_rng(7)
    internal = np.zeros((20, 16), np.int64)
    internal[:, 0] = rng.integers(0, 1 << 30, 20)

    def constants(*shape):
        return jnp.array(rng.integers(2, 1 << 30, shape), dtype=F)

    return Poseidon2(
        Poseidon2Params(
            width=16, dtype=F, alpha=3, external_rounds=4, internal_rounds=20,
            external_constants_initial=constants(4, 16), external_constants_terminal=constants(4, 16),
            internal_constants=jnp.array(internal, dtype=F), internal_diag=constants(16),
        )
    )  # fmt: skip


def cheap():
    return CheapPermutation(width=16, dtype=F)


def hashes(permutation):
    return Sponge(permutation, SpongeParams(rate=8, out=8)), Compression(
        permutation, CompressionParams(arity=2, chunk=8)
    )


def transcript(permutation=None):
    return DuplexTranscript.new(permutation or cheap(), rate=8)


BASE = jnp.stack([rand_field(1, (64,), F), rand_field(2, (64,), F)])
EXTENSION = jnp.stack([rand_ext_field(1, (64,), F, EF), rand_ext_field(2, (64,), F, EF)])
WIDE = rand_ext_field(1, (16,), F, EF)
POLICY = ChallengePolicy(EF)
STANDARD = sumcheck.StandardRound(sumcheck.ProductSummand(2), challenges=POLICY)
CODE = ReedSolomon(message_len=16, blowup=2, dtype=F)


def whir_prover(pow_bits=0):
    bits = dict.fromkeys(("mu_pow_bits", "folding_pow_bits", "query_pow_bits"), pow_bits)
    tree = StridedMerkleTree(*hashes(cheap()), 4)
    return whir.WhirProver(CODE, tree, WhirParams(k_whir=2, num_queries=(3, 3), **bits))


def standard_call(permutation):
    claim = sumcheck.initial_claim(EXTENSION, EXTENSION[0, 0], 6)
    return lambda c, t: STANDARD(c, t), claim, transcript(permutation)


def sampled(permutation):
    return lambda t, v: t.observe_and_sample(v, 4), transcript(permutation), BASE[0, :3]


def logup_round():
    layers = jnp.stack([rand_ext_field(i, (32,), F, EF) for i in range(5)])
    return lambda s, t: LogupSumcheckRound(s[0, 0], POLICY)(s, t)[0], layers, transcript()


def fri_round():
    tree = MerkleTree(*hashes(cheap()))
    word = CODE.encode(rand_field(1, (16,), F))
    return (
        lambda q, t: PreFoldPairCommitRound(CODE, tree)(FoldState(q), t)[0].codeword,
        word,
        transcript(),
    )


def island(name, *args, bound=False):
    fn = getattr(whir, name).__wrapped__
    return ((lambda *a: fn(whir_prover(), *a, 0)) if bound else fn), *args


def case(name, program, *, sums=0, moves=0, loops=0, library=0, zorch=(), composites=0, codes=()):
    want = (sums, moves, loops, library, tuple(sorted(zorch)), composites)
    return pytest.param(program, want, list(codes), id=name)


STANDARD_JITS = ("_fold_and_advance", "compute_lagrange_basis", "reinterpret_challenge")

TABLE = [
    case("round_poly", lambda: (STANDARD._round_poly, EXTENSION), sums=1),
    case("round_poly in the base field", lambda: (
        sumcheck.StandardRound(sumcheck.ProductSummand(2), challenges=ChallengePolicy(F))._round_poly,
        BASE), sums=1),
    case("fold", lambda: (fold, BASE, BASE[0, 0])),
    case("observe_and_sample", lambda: sampled(cheap()),
         sums=3, moves=8, loops=1, library=40, codes=["FG204", "FG205"]),
    # Measured with 7 reductions: its `dot_general` was one of them.
    case("StandardRound", lambda: standard_call(cheap()),
         sums=6, moves=9, loops=1, library=42, zorch=STANDARD_JITS, codes=["FG203", "FG204", "FG205"]),
    case("LogupSumcheckRound", logup_round, sums=4, moves=8, loops=1, library=40,
         zorch=["reinterpret_challenge"], codes=["FG203", "FG204", "FG205"]),
    case("PreFoldPairCommitRound", fri_round, sums=7, moves=11, loops=2, library=16,
         zorch=["_compress_groups"] * 4 + ["_hash_leaves"], codes=["FG203", "FG204", "FG205"]),
    case("poseidon2.permute", lambda: (poseidon2().permute, rand_field(1, (16,), F)), composites=1),
    case("whir island_round_poly", lambda: island("_island_round_poly", WIDE, WIDE),
         sums=2, codes=["FG205"]),
    case("whir island_fold", lambda: island("_island_fold", WIDE, WIDE, WIDE[0])),
    case("whir island_coeffs", lambda: island("_island_coeffs", WIDE), loops=1, codes=["FG204"]),
    case("whir island_ood", lambda: island("_island_ood", WIDE, WIDE[0]),
         sums=1, library=1, zorch=["eval_coeffs"], codes=["FG203"]),
    case("whir island_reencode", lambda: island("_island_reencode", WIDE[:4], bound=True), sums=4,
         moves=5, loops=1, library=2, zorch=["_compress_groups"], codes=["FG203", "FG204", "FG205"]),
    case("whir island_weight_update", lambda: island(
        "_island_weight_update", WIDE[:4], WIDE[0], WIDE[1], jnp.array([0, 1, 2], jnp.int32), bound=True),
        sums=1, moves=2, library=10, codes=["FG204"]),
]  # fmt: skip


def counted(facts):
    def total(sites, names):
        return sum(site.count for site in sites if site.primitive in names)

    own = facts.own
    jits = [
        call.name for call in own.calls if call.owner == "dependency" for _ in range(call.count)
    ]
    library = sum(call.count for call in own.calls if call.owner == "library")
    moves, loops = total(own.breakers, MOVES), total(own.breakers, LOOPS)
    composites = own.primitives.get("composite", 0)
    return (own.reduction_count, moves, loops, library, tuple(sorted(jits)), composites)


@pytest.mark.parametrize(("program", "want", "codes"), TABLE)
def test_counts_and_verdicts(program, want, codes):
    fn, *args = program()
    facts = program_facts(jax.make_jaxpr(fn)(*args))
    assert counted(facts) == want
    assert facts.own.unknown == facts.opaque.unknown == ()
    assert facts.callbacks == ()
    found = fusion.check_program(Subject("body"), fusion.Contract(1), facts, Thresholds())
    assert [finding.code for finding in found] == codes


def test_a_standard_round_is_told_with_its_lines():
    fn, *args = standard_call(cheap())
    facts = program_facts(jax.make_jaxpr(fn)(*args))
    found = fusion.check_program(Subject("round"), fusion.Contract(1), facts, Thresholds())
    (breaker,) = [finding for finding in found if finding.code == "FG204"]
    lines = breaker.evidence["lines"]
    assert any("transcript.py" in line for line in lines)
    assert any("univariate.py" in line for line in lines)
    assert breaker.evidence["primitives"]["dot_general"] == 1


def test_a_permutation_is_opaque_and_its_straight_line_is_no_loop():
    fn, *args = sampled(poseidon2())
    facts = program_facts(jax.make_jaxpr(fn)(*args))
    assert counted(facts) == (0, 0, 0, 0, (), 1)
    assert facts.equations > 30_000
    assert sum(call.count for call in facts.opaque.calls) == 40
    assert facts.repeats == ()
    assert fusion.check_program(Subject("fs"), fusion.Contract(0), facts, Thresholds()) == []


def arrays_of(value):
    """The traced leaves of a result that is no pytree."""
    if arrays.is_tracer(value):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in arrays_of(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in arrays_of(item)]
    return arrays_of(vars(value)) if hasattr(value, "__dict__") else []


def sumcheck_program():
    def prove(state, t):
        for _ in range(6):
            message = summand_evals(state, lambda a, b: a * b, natural_domain(2, state.dtype))
            t, r = POLICY.observe_and_sample(t, message)
            state = fold(state, r)
        return state

    return prove, EXTENSION, transcript()


def fri_commit():
    params = FriParams(code=CODE, tree=MerkleTree(*hashes(cheap())), num_rounds=4, num_queries=4)
    return lambda coeffs: FriProver(params).commit([coeffs]), rand_field(1, (16,), F)


def fri_open():
    params = FriParams(code=CODE, tree=MerkleTree(*hashes(cheap())), num_rounds=4, num_queries=4)
    prover = FriProver(params)
    roots, data = prover.commit([rand_field(1, (16,), F)])

    def prove(z, t):
        return prover.prove(OpeningClaim(roots, [z]), OpeningWitness(data), t)

    return prove, jnp.array(6, F), transcript()


def basefold_open():
    prover = BasefoldProver(CODE, MerkleTree(*hashes(cheap())), num_queries=4)
    root, data = prover.commit([rand_field(1, (16,), F)])

    def prove(z, t):
        return prover.prove(OpeningClaim(root, [z]), OpeningWitness(data), t)

    return prove, rand_field(5, (4,), F), transcript()


def whir_open():
    prover = whir_prover(pow_bits=4)
    root, data = prover.commit([rand_field(i, (16,), F) for i in range(2)])

    def prove(z, t):
        return prover.prove(OpeningClaim(root, [z]), OpeningWitness(data), t)

    return prove, rand_ext_field(50, (4,), F, EF), transcript()


def logup_gkr():
    def prove(*parts):
        layer = GkrLayer(*parts[:4], 1)
        outputs = extract_outputs(build_pyramid(layer)[-1])
        return LogUpGkrProver(POLICY).prove(
            LogUpOutputClaim(outputs, layer.num_row_variables), layer, parts[4]
        )

    return prove, *(rand_ext_field(i, (16,), F, EF) for i in range(4)), transcript()


def merkle_commit():
    return MerkleTree(*hashes(cheap())).commit, rand_field(3, (64, 4), F)


PROGRAMS = [
    sumcheck_program,
    fri_commit,
    fri_open,
    basefold_open,
    whir_open,
    logup_gkr,
    merkle_commit,
]


def jits_inside(program, seen):
    """The programs of all jits of zorch's own, at any depth."""
    for equation in jaxprs.equations(program):
        for inner in jaxprs.sub_programs(equation):
            if jaxprs.identity(inner) in seen:
                continue
            seen.add(jaxprs.identity(inner))
            defined = jaxprs.definition(inner)
            if equation.primitive.name == "jit" and defined and "zorch" in defined.file:
                yield inner
            yield from jits_inside(inner, seen)


def judged(program, role):
    facts = program_facts(program)
    spec = Subject("prover", role)
    found = fusion.check_program(spec, None, facts, Thresholds())
    return found + donation.check_nested_donation(spec, facts)


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_a_prover_is_clean_as_a_zone_and_its_jits_as_islands(build):
    fn, *args = build()
    program = jax.make_jaxpr(lambda *a: arrays_of(fn(*a)))(*args)
    assert judged(program, "single zone") == []
    for inner in jits_inside(program, set()):
        assert judged(inner, "island") == []
