"""Which part of a potential is not finite at a position, in words: the prior, or some rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Array, Data
from ewsg_jax.model_checks.precision import lost_to_rounding
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.rows._view import all_rows, sum_over_rows
from ewsg_jax.vectors.potential import PotentialSpec

MASKED = (
    ", though it is finite itself (jnp.where differentiates the branch that is not taken too: make "
    "its argument safe first)"
)


def not_finite(of: PotentialSpec, flat: np.ndarray, data: Data) -> str:
    """Return which part of a potential or of its gradient is not finite at a position, shape (d,),
    in words; an empty string if all are.
    """
    with of.precision():
        parts = jax.device_get(_parts(of, flat, data))
    prior, prior_gradient, minus, nan, plus, gradient = (np.asarray(x, np.float64) for x in parts)
    n, d, said = all_rows(data), len(flat), []
    ends = can_end(of.posterior, of.layout.tree(np.zeros(d)), data)
    # The prior first: if it is not finite nothing follows from the rows.
    if not np.isfinite(prior):
        said.append(f"log_prior is {float(prior):.4g}" + _why(ends[0], float(prior)))
    elif prior_gradient:
        said.append(
            f"{int(prior_gradient)} of {d} derivatives of log_prior are not finite" + MASKED
        )
    if nan == n:
        rounded = lost_to_rounding(of.posterior, of.layout.tree(flat), data)
        if rounded:
            return "; ".join([*said, str(rounded[0])])
    for count, name in ((minus, "-inf"), (plus, "inf"), (nan, "NaN")):
        if count:
            why = _why(ends[1], float(name))
            said.append(f"log_likelihood is {name} for {int(count):,} of {n:,} rows{why}")
    # A value that is not finite explains its gradient.
    if gradient and not (minus or nan or plus):
        said.append(f"{int(gradient)} of {d} derivatives of log_likelihood are not finite" + MASKED)
    return "; ".join(said)


def _why(can_end: bool, value: float) -> str:
    """Return why a value is not finite, in parentheses; an empty string if that is not known."""
    if value == -np.inf:
        return (
            " (the density is 0 there: start where it is positive)"
            if can_end
            else " (a number that is too large: start nearer, or rescale the parameters or the "
            "data)"
        )
    return " (outside its domain, or NaN in data that it does not mask)" if np.isnan(value) else ""


@functools.partial(jax.jit, static_argnums=0)
def _parts(of: PotentialSpec, flat: Array, data: Data) -> tuple[Array, ...]:
    """Return log_prior, and the numbers of its derivatives, of rows at −inf, NaN and inf, and of
    the likelihood's derivatives that are not finite.
    """

    def of_rows(rows: Data) -> tuple[Array, ...]:
        rows = of.rows(rows)
        values = of.posterior.log_likelihoods(of.position(flat), rows)
        counts = [
            jnp.sum(jnp.asarray(x, jnp.int32))
            for x in (values == -jnp.inf, jnp.isnan(values), values == jnp.inf)
        ]
        return (*counts, of.row_gradient(flat, rows))

    minus, nan, plus, gradient = sum_over_rows(of_rows, data, of.chunk_size)
    prior = jnp.asarray(of.posterior.log_prior(of.position(flat)))
    return (
        prior,
        jnp.sum(~jnp.isfinite(of.prior_gradient(flat))),
        minus,
        nan,
        plus,
        jnp.sum(~jnp.isfinite(gradient)),
    )
