"""Whether one's own likelihood is a log density of one row: its sign and its size.

With lᵢ(η) the log density of row i at its output η, in a right model at good weights

    Σ ‖∇lᵢ‖² ≈ −Σ tr ∇²lᵢ        (Bartlett's second identity)

A likelihood that is divided by n makes the left side n times too small compared with the right
one, and a loss makes the right one negative. Weights that are not trained make the left side
larger, and a division by n may then not show.
"""

import functools

import jax
import jax.numpy as jnp

from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.likelihood_size import ODD_FACTOR
from ewsg_jax.networks._model import Assembly
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.row_subsets import evenly, take_rows


def odd_size(assembly: Assembly, position: Position, rows: Data) -> list[Finding]:
    """Return a finding if a likelihood looks like a loss or a mean over rows, or none.

    Args:
        assembly: the parts of the model.
        position: a position.
        rows: the rows {"x": inputs, "y": observations}.

    Raises:
        ValueError: it, or its derivative by the output, is not finite.
    """
    n = num_rows(rows)
    # Some of the rows show a factor of n; all would take a Hessian of each.
    subset = take_rows(rows, evenly(n, 64))
    squares, curvatures = map(jnp.asarray, _squares_and_curvatures(assembly, position, subset))
    if not_finite := int(jnp.sum(~jnp.isfinite(squares))):
        raise ValueError(
            "likelihood must be finite at params, and its derivative by the output; it is not on "
            f"{not_finite} of {len(squares)} rows: keep what it takes the logarithm or the root of "
            "above 0, as jax.nn.softplus does"
        )
    if bool(jnp.all(curvatures < 0)):
        text = "likelihood is curved upwards on all rows, as the negative of a log density is"
        return [Finding("size", "note", text, "is it a loss? Give its negative")]
    total = float(jnp.sum(curvatures))
    ratio = float(jnp.sum(squares)) / total if total > 0 else 1.0
    if not 0 < ratio < 1 / ODD_FACTOR:
        return []
    text = (
        f"gradients of likelihood vary over rows by {ratio:.1g} times what it is curved, in a "
        "right model about once"
    )
    cure = (
        f"it must be the log density of one row: is it divided by n, here {1 / n:.1g}, or its "
        "noise far larger than the data's?"
    )
    return [Finding("size", "note", text, cure)]


@functools.partial(jax.jit, static_argnums=0)
def _squares_and_curvatures(
    assembly: Assembly, position: Position, rows: Data
) -> tuple[Array, Array]:
    """Return ‖∇l‖² and −tr ∇²l by the output of each row, shape (b,)."""

    def of_row(row: Data) -> tuple[Array, Array]:
        output = assembly.output(position, row["x"])
        flat, shape = jnp.ravel(output), output.shape

        def density(x: Array) -> Array:
            return assembly.likelihood.log_density(x.reshape(shape), row)

        value, gradient = jax.value_and_grad(density)(flat)
        # A logarithm of a negative number is NaN, and has a derivative.
        square = jnp.where(jnp.isfinite(value), jnp.sum(gradient**2), jnp.nan)
        return square, -jnp.trace(jax.hessian(density)(flat))

    return jax.vmap(of_row)(rows)
