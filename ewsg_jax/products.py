"""Products of matrices and vectors in the precision of their dtype.

JAX's default lets an accelerator see float32 numbers through 8 or 11 bits (bfloat16 passes on TPUs,
TF32 on GPUs): a position at a relative spacing of 2⁻¹⁰, as wide as the posterior of 10⁷ rows. A CPU
has one precision.
"""

import functools

import jax
import jax.numpy as jnp

from ewsg_jax._types import Array

matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
einsum = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
tensordot = functools.partial(jnp.tensordot, precision=jax.lax.Precision.HIGHEST)


def sum_of_outer(x: Array, y: Array) -> Array:
    """Return Σᵢ xᵢ ⊗ yᵢ over the leading axis, at least in float32."""
    dtype = jnp.result_type(x, y)
    # Not x.T @ y, which XLA may carry out with a transposed copy of x.
    return tensordot(
        x.astype(dtype),
        y.astype(dtype),
        axes=(0, 0),
        preferred_element_type=jnp.promote_types(dtype, jnp.float32),
    )
