"""The one table of primitive classes: what each equation of a traced program means for fusion.

Covers frx 0.10.2 (with `ntt`, `msm`, `pairing_check`, `bit_reverse`) and jax 0.7.2 to 0.12. A primitive
that is not in the table is `UNKNOWN`: it is counted, looked into, and never a violation.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Kind(Enum):
    """What a primitive means for the one kernel that a round body should become."""

    # Asked once per equation: the hash that Enum defines in Python costs more than the lookup.
    __hash__ = object.__hash__

    ELEMENTWISE = "element-wise"
    STRUCTURAL = "structural"
    REDUCTION = "reduction"
    BREAKER = "breaker"
    CALLBACK = "callback"
    CALL = "call"
    CONTAINER = "container"
    COMPOSITE = "composite"
    UNKNOWN = "unknown"


_ELEMENTWISE: Final = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    bitcast_convert_type cbrt ceil clamp clz complex conj convert_element_type cos cosh digamma div
    eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le le_to lgamma
    log log1p log2 logistic lt lt_to max min mul mulhi ne neg nextafter not one_minus_square or
    polygamma polynomial population_count pow real reduce_precision rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor
    philox2x32 philox4x32 threefry4x32 zeta
"""
_STRUCTURAL: Final = """
    axis_index broadcast_in_dim broadcast_to concatenate copy copy_p create_token after_all
    device_put dim_as_value dimension_size empty empty2 from_edtype to_edtype expand_dims iota
    iota_2x32_shape layout_constraint mesh_cast name pad pvary random_unwrap random_wrap
    reduced_vary_cast reduced_vary_cast_p relayout reshape reshard rev shape_assertion
    sharding_constraint slice split squeeze stack stage stop_gradient tie tile transpose unstack
    vary_unreduced_cast vary_unreduced_cast_p with_memory_space_constraint zeros_like
"""
_REDUCTION: Final = """
    argmax argmin reduce reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
"""
# Loops and branches, moves by index, contractions, scans along an axis, kernels of their own,
# collectives, and what forbids fusion by definition. `threefry2x32` is a loop on CPU, `igamma` and
# its like lower to one.
_BREAKER: Final = """
    cond scan while
    dynamic_slice dynamic_update_slice gather scatter scatter-add scatter-apply scatter-max
    scatter-min scatter-mul scatter-sub scatter_add scatter_max scatter_min scatter_mul scatter_sub
    sort top_k approx_top_k
    conv_general_dilated dot_general ragged_dot_general scaled_dot scaled_matmul
    scaled_matmul_wrapper
    cumlogsumexp cummax cummin cumprod cumsum reduce_window reduce_window_max reduce_window_min
    reduce_window_sum select_and_gather_add select_and_scatter select_and_scatter_add
    cholesky cholesky_update custom_linear_solve eig eigh geqp3 geqrf hessenberg
    householder_product lu lu_pivots_to_permutation ormqr qr schur svd symmetric_product
    triangular_solve tridiagonal tridiagonal_solve
    fft ntt msm pairing_check bit_reverse
    igamma igamma_grad_a igammac random_gamma regularized_incomplete_beta
    random_bits random_clone random_fold_in random_seed random_split rng_bit_generator rng_uniform
    threefry2x32
    cudnn_fusion ffi_call pallas_call tpu_custom_call
    all_gather all_gather_invariant all_gather_reduced all_to_all pgather pmax pmin ppermute precv
    psend psum psum2 psum_invariant ragged_all_to_all reduce_scatter unreduced_psum
    unreduced_reduce_scatter
    optimization_barrier
"""
_CALLBACK: Final = "pure_callback io_callback debug_callback debug_print infeed outfeed"
_CONTAINER: Final = """
    call call_exported call_hi_primitive checkpoint closed_call core_call custom_jvp_call
    custom_jvp_call_jaxpr custom_partitioning custom_transpose_call custom_vjp_call
    custom_vjp_call_jaxpr custom_vmap_call eval_jaxpr linear_call named_call remat remat2 remat_call
    remat_opt run_state shard_map xla_call xla_pmap
"""

CLASSES: Final[dict[str, Kind]] = {
    name: kind
    for kind, names in (
        (Kind.ELEMENTWISE, _ELEMENTWISE),
        (Kind.STRUCTURAL, _STRUCTURAL),
        (Kind.REDUCTION, _REDUCTION),
        (Kind.BREAKER, _BREAKER),
        (Kind.CALLBACK, _CALLBACK),
        (Kind.CALL, "jit pjit"),
        (Kind.CONTAINER, _CONTAINER),
        (Kind.COMPOSITE, "composite"),
    )
    for name in names.split()
}
"""Primitive name -> its class."""

PLAIN: Final = frozenset(f"{_ELEMENTWISE} {_STRUCTURAL}".split())
"""Names of the arithmetic and layout that no rule speaks of."""

LOOPS: Final = frozenset({"scan", "while"})
"""Breakers that repeat a program."""

BRANCHES: Final = frozenset({"cond"})
"""Breakers that run one of several programs."""

INDEXED: Final = {"dynamic_slice": 1, "dynamic_update_slice": 2}
"""Breakers that are plain slices where every start index is known at trace time -> its first index."""

DESCENDED: Final = LOOPS | BRANCHES | {"custom_linear_solve"}
"""Breakers whose programs run as part of the boundary; the scalar program of a `scatter` does not."""

SITED: Final = frozenset({Kind.REDUCTION, Kind.BREAKER, Kind.CALLBACK, Kind.UNKNOWN})
"""Classes whose equations are kept with their lines."""

ENTERED: Final = frozenset({Kind.CALL, Kind.CONTAINER, Kind.COMPOSITE, Kind.UNKNOWN})
"""Classes whose programs run as part of the boundary, beside `DESCENDED`."""

HOST_EFFECTS: Final = frozenset(
    {"IOEffect", "OrderedIOEffect", "DebugEffect", "OrderedDebugEffect"}
)
"""Effects by which a primitive that is not in the table is known to call the host."""


def classify(name: str) -> Kind:
    """The class of a primitive.

    Args:
        name: Its name in a jaxpr.

    Example:
        >>> (
        ...     classify("reduce_sum").value,
        ...     classify("scatter-add").value,
        ...     classify("warp_drive").value,
        ... )
        ('reduction', 'breaker', 'unknown')
    """
    return CLASSES.get(name, Kind.UNKNOWN)
