"""Objects of real programs as metadata: value-comparing ones pass, identity-comparing ones are named."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from fusegate.config import mode
from fusegate.errors import StateViolation
from fusegate.state.bind import stable
from fusegate.state.declare import meta, state
from tests.conftest import frx_only


@state
class Held:
    w: Any
    m: Any = meta()


def traces(values):
    """How many programs states with these metadata values cost."""
    runs = []

    @jax.jit
    def body(held):
        runs.append(1)
        return held.w

    with mode("strict"):
        for value in values:
            body(Held(jnp.ones(2), value))
    return len(runs)


def refused(value):
    """Code and path of the violation that a metadata value raises."""
    with mode("strict"), pytest.raises(StateViolation) as caught:
        Held(jnp.ones(2), value)
    return caught.value.code, caught.value.cause.path


def test_an_optimizer_made_anew_is_named():
    optax = pytest.importorskip("optax")
    assert refused(optax.adam(1e-3)) == ("FG401", "m.init")
    assert refused(optax.sgd(0.1)) == ("FG401", "m.init")


def test_a_stable_optimizer_costs_one_program():
    optax = pytest.importorskip("optax")
    assert traces(stable(optax.adam)(1e-3) for _ in range(3)) == 1


def test_library_functions_pass():
    functions = [jax.nn.relu, jax.nn.gelu, jnp.tanh, jnp.add, jax.lax.add]
    assert traces(functions * 3) == len(functions)


def test_a_lambda_activation_is_named():
    assert refused(lambda x: x * 2) == ("FG401", "m")
    assert refused((1, lambda x: x * 2)) == ("FG401", "m[1]")


class Block(eqx.Module):
    width: int = eqx.field(static=True)
    act: Any = eqx.field(static=True)


def test_an_equinox_module_without_arrays_is_a_value():
    assert traces(Block(4, jax.nn.relu) for _ in range(3)) == 1
    assert traces([Block(2, jax.nn.relu), Block(2.0, jax.nn.relu)]) == 2


def test_an_equinox_module_with_a_lambda_is_named():
    assert refused(Block(4, lambda x: x)) == ("FG401", "m.act")


def test_an_equinox_module_with_arrays_is_an_array():
    assert refused(eqx.nn.Linear(2, 2, key=jax.random.key(0))) == ("FG403", "m")


def test_shardings_and_types_pass():
    device = jax.devices()[0]
    values = lambda: [  # noqa: E731
        jax.sharding.PartitionSpec("x"),
        jax.sharding.SingleDeviceSharding(device),
        jax.ShapeDtypeStruct((2,), jnp.float32),
        jax.lax.Precision.HIGHEST,
        jnp.dtype("bfloat16"),
        device,
        jax.tree.structure((1, [2])),
    ]
    assert traces(values() + values()) == len(values())


@frx_only
class TestZorch:
    def test_a_permutation_is_a_value(self):
        from zk_dtypes import koalabear_mont as F
        from zorch.testkit.transcript import CheapPermutation

        assert traces(CheapPermutation(width=16, dtype=F) for _ in range(3)) == 1
        assert (
            traces([CheapPermutation(width=16, dtype=F), CheapPermutation(width=8, dtype=F)]) == 2
        )

    def test_a_merkle_tree_is_a_value_down_to_its_hasher(self):
        assert traces(merkle_tree() for _ in range(3)) == 1

    def test_the_one_identity_equal_link_is_named(self):
        from zorch.hash.sponge import Sponge

        class LinearHash(Sponge):
            def __eq__(self, other):
                return self is other

            __hash__ = object.__hash__

        assert refused(merkle_tree(LinearHash)) == ("FG401", "m._leaf_hasher")
        with mode("strict"), pytest.raises(StateViolation, match="LinearHash"):
            Held(jnp.ones(2), merkle_tree(LinearHash))

    def test_poseidon2_is_a_value(self):
        from zorch.hash.poseidon2.poseidon2 import Poseidon2

        assert traces(Poseidon2(poseidon2_params()) for _ in range(2)) == 1


def merkle_tree(hasher=None):
    from zk_dtypes import koalabear_mont as F
    from zorch.commit.merkle import MerkleTree
    from zorch.hash.compression import Compression, CompressionParams
    from zorch.hash.sponge import Sponge, SpongeParams
    from zorch.testkit.transcript import CheapPermutation

    permutation = CheapPermutation(width=16, dtype=F)
    return MerkleTree(
        (hasher or Sponge)(permutation, SpongeParams(rate=8, out=8)),
        Compression(permutation, CompressionParams(arity=2, chunk=8)),
    )


def poseidon2_params():
    from zk_dtypes import koalabear_mont as F
    from zorch.hash.poseidon2.params import Poseidon2Params

    width, external, internal = 16, 8, 20
    lane0 = (jnp.arange(width) == 0).astype(jnp.int32)
    return Poseidon2Params(
        width=width,
        dtype=F,
        alpha=3,
        external_rounds=external // 2,
        internal_rounds=internal,
        external_constants_initial=jnp.ones((external // 2, width), jnp.int32).astype(F),
        external_constants_terminal=jnp.ones((external // 2, width), jnp.int32).astype(F),
        internal_constants=jnp.tile(lane0, (internal, 1)).astype(F),
        internal_diag=(jnp.arange(width) + 2).astype(F),
    )
