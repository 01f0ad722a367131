"""Compiled sums over all rows: the potential of a vector, its gradient and its Hessian."""

import contextlib
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits, products
from ewsg_jax.base.compiling import QUICK, in_float64
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.posterior.linear import checked_residual
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import all_rows, num_rows, sum_over_rows, view
from ewsg_jax.vectors import differences
from ewsg_jax.vectors.layout import Layout

HESSIAN_BLOCK = 16
"""Products of the Hessian with vectors that are computed at once, which bounds the memory. Set by
hand."""
QUICKLY_COMPILED_NUMBERS = 2**24
"""Rows times parameters up to which programs are compiled with fewer optimisations. Set by hand."""


class PotentialSpec(NamedTuple):
    """A potential and the precision and chunks that it is computed in; hashable, for `jit`.

    Attributes:
        posterior: the target.
        layout: the layout of its positions.
        chunk_size: rows taken at once.
        wide: whether the model is given float64, or the dtypes of its positions and data.
    """

    posterior: Posterior
    layout: Layout
    chunk_size: int
    wide: bool

    def precision(self) -> contextlib.AbstractContextManager:
        """Return the context in which the programs run."""
        return in_float64() if self.wide else contextlib.nullcontext()

    def position(self, flat: Array) -> Position:
        """Return the position that the model is given."""
        return self.layout.tree(flat, flat.dtype if self.wide else None)

    def rows(self, rows: Data) -> Data:
        """Return the rows that the model is given."""

        def widened(x: Array) -> Array:
            return x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x

        return jax.tree.map(widened, rows) if self.wide else rows

    def prior_gradient(self, flat: Array) -> Array:
        """Return ∇V₀, a vector."""
        return _flat(self.posterior.prior_gradient(self.position(flat)), flat)

    def row_gradient(self, flat: Array, rows: Data) -> Array:
        """Return Σ ∇Vᵢ over these rows, a vector."""
        return _flat(
            self.posterior.likelihood_gradient(self.position(flat), rows, num_rows(rows)), flat
        )


class Compiled:
    """`program(of, flat, …, data)`, compiled with fewer optimisations if a call is short."""

    def __init__(self, program: Callable[..., Any]) -> None:
        self.program = program
        self.quick, self.thorough = (
            jax.jit(program, static_argnums=0, compiler_options=o) for o in (QUICK, None)
        )
        functools.update_wrapper(self, program)

    def suited(self, of: PotentialSpec, data: Data) -> Any:
        """Return the compiled program that is run for these data."""
        numbers = all_rows(data) * sum(math.prod(shape) for shape in of.layout.shapes)
        return self.quick if numbers <= QUICKLY_COMPILED_NUMBERS else self.thorough

    def __call__(self, of: PotentialSpec, *arguments: object) -> Any:
        if any(map(checks.is_traced, jax.tree.leaves(arguments))):
            return self.program(of, *arguments)  # a part of a larger program
        return self.suited(of, arguments[-1])(of, *arguments)


@functools.lru_cache(maxsize=256)
def of_potential(
    posterior: Posterior,
    layout: Layout,
    chunk_size: int,
    structure: object,
    leaves: tuple[Any, ...],
    as_of: Hashable,
) -> tuple[PotentialSpec, bool]:
    """Return a potential's spec, in float64 if the model accepts it, else in its own dtypes; and
    whether JAX can differentiate the model twice.

    Args:
        posterior: the target.
        layout: the layout of its positions.
        chunk_size: rows taken at once.
        structure: the structure of the data.
        leaves: shapes and dtypes of the data's leaves.
        as_of: what stands for the values that functions read now: the answer is remembered for it.
    """
    of = PotentialSpec(posterior, layout, chunk_size, True)
    shapes = jax.tree.unflatten(structure, leaves)
    size = sum(int(np.prod(shape)) for shape in layout.shapes)

    def can(of: PotentialSpec, function: Callable[[PotentialSpec, Any, Data], object]) -> bool:
        dtype = np.float64 if of.wide else np.result_type(np.float32, *layout.dtypes)
        try:
            with of.precision():
                function(of, jax.ShapeDtypeStruct((size,), dtype), shapes)
        except Exception:
            # Such as a scan whose carry is declared float32, or a function with a first derivative
            # alone.
            return False
        return True

    def twice(of: PotentialSpec, flat: Any, data: Data) -> object:
        if size > limits.MAX_DENSE_DIMENSION:
            return jax.eval_shape(functools.partial(_product, of), flat, data, flat)
        # The program that will be run: JAX remembers what it traced.
        return derivatives.suited(of, data).eval_shape(of, flat, data)

    def once(of: PotentialSpec, flat: Any, data: Data) -> object:
        return jax.eval_shape(functools.partial(gradient_at, of), flat, data)

    if can(of, twice):
        return of, True
    if can(of, once):
        return of, False
    of = of._replace(wide=False)
    return of, can(of, twice)


def product_with(of: PotentialSpec, flat: Array, data: Data) -> Callable[[Array], Array]:
    """Return v → ∇²V v.

    In reverse mode twice, which most custom reverse rules allow; else by differences of gradients.
    """

    def product(v: Array) -> Array:
        try:
            return _product(of, flat, data, v)
        except Exception:
            gradient = functools.partial(gradient_at, of, data=data)
            return differences.product(gradient, flat, v, differences.part_of(flat.dtype))

    return product


def _product(of: PotentialSpec, flat: Array, data: Data, v: Array) -> Array:
    def of_rows(rows: Data) -> Array:
        return jax.vjp(lambda w: of.row_gradient(w, of.rows(rows)), flat)[1](v)[0]

    return jax.vjp(of.prior_gradient, flat)[1](v)[0] + sum_over_rows(of_rows, data, of.chunk_size)


def gradient_at(of: PotentialSpec, flat: Array, data: Data) -> Array:
    """Return ∇V."""
    total = sum_over_rows(lambda rows: of.row_gradient(flat, of.rows(rows)), data, of.chunk_size)
    return total + of.prior_gradient(flat)


@Compiled
def differences_along(
    of: PotentialSpec, flat: Array, directions: Array, part: Array, first: Array, data: Data
) -> Array:
    """∇²V v for each row v of `directions`, by differences of gradients; `part` and `first` are
    arguments of `differences.product`.
    """
    gradient = functools.partial(gradient_at, of, data=data)

    def along(v: Array) -> Array:
        return differences.product(gradient, flat, v, part, first)

    blocks = directions.reshape(-1, min(HESSIAN_BLOCK, len(directions)), directions.shape[1])
    return jax.lax.map(jax.vmap(along), blocks).reshape(directions.shape)


@Compiled
def hessian_product(of: PotentialSpec, flat: Array, v: Array, data: Data) -> Array:
    """∇²V v."""
    return product_with(of, flat, data)(v)


@Compiled
def value_and_gradient(of: PotentialSpec, flat: Array, data: Data) -> tuple[Array, Array]:
    """V up to a constant, and ∇V."""

    def of_rows(rows: Data) -> tuple[Array, Array]:
        rows = of.rows(rows)
        return _value(of, flat, rows), of.row_gradient(flat, rows)

    value, gradient = sum_over_rows(of_rows, data, of.chunk_size)
    value -= of.posterior.varying.log_prior(of.position(flat))
    return value, gradient + of.prior_gradient(flat)


@Compiled
def derivatives(of: PotentialSpec, flat: Array, data: Data) -> tuple[Array, Array, Array]:
    """V up to a constant, ∇V and ∇²V."""

    # All three in one loop over rows: they share most of the work.
    def of_rows(rows: Data) -> tuple[Array, Array, Array]:
        rows = of.rows(rows)
        if of.posterior.predictor is None:
            return _value(of, flat, rows), *_twice(lambda w: of.row_gradient(w, rows), flat)
        hessian = _linear_hessian(of, flat, rows).astype(flat.dtype)
        return _value(of, flat, rows), of.row_gradient(flat, rows), hessian

    value, gradient, hessian = sum_over_rows(of_rows, data, of.chunk_size)
    of_prior, bent = _twice(of.prior_gradient, flat)
    value -= of.posterior.varying.log_prior(of.position(flat))
    return value, gradient + of_prior, hessian + bent


def _value(of: PotentialSpec, flat: Array, rows: Data) -> Array:
    """Return Σ Vᵢ over these rows, up to a constant."""
    values = of.posterior.varying.log_likelihoods(of.position(flat), rows)
    return -jnp.sum(values).astype(flat.dtype)


def _twice(gradient: Callable[[Array], Array], flat: Array) -> tuple[Array, Array]:
    """Return a gradient and its derivative, by blocks of its rows."""
    d = flat.shape[0]
    value, product = jax.vjp(gradient, flat)
    if d <= HESSIAN_BLOCK:
        return value, jax.vmap(product)(jnp.eye(d, dtype=flat.dtype))[0]
    # Padded to full blocks: one program for all.
    basis = jnp.eye(-(-d // HESSIAN_BLOCK) * HESSIAN_BLOCK, d, dtype=flat.dtype)
    blocks = basis.reshape(-1, HESSIAN_BLOCK, d)
    return value, jax.lax.map(lambda block: jax.vmap(product)(block)[0], blocks).reshape(-1, d)[:d]


def _linear_hessian(of: PotentialSpec, flat: Array, rows: Data) -> Array:
    """Return Σ ∇²Vᵢ = Σ xᵢxᵢᵀ ⊗ (the second derivative by the predictor)."""
    predictor, weights = of.posterior.predictor, of.position(flat)
    assert predictor is not None
    seen = view(rows)
    rows = seen.tree
    x = jax.vmap(predictor.inputs)(rows)
    predictors = products.matmul(x, weights)
    x = x.astype(predictors.dtype)
    _, product = jax.vjp(lambda s: -checked_residual(predictor.residual, s, rows), predictors)
    if predictors.ndim == 1:
        (second,) = product(jnp.ones_like(predictors))
        return products.sum_of_outer(x, seen.only_counted(second[:, None] * x))

    def by_one(unit: Array) -> Array:
        (second,) = product(jnp.broadcast_to(unit, predictors.shape))
        return products.sum_of_outer(x, seen.only_counted(x[:, :, None] * second[:, None, :]))

    blocks = jax.lax.map(by_one, jnp.eye(predictors.shape[1], dtype=predictors.dtype))
    return blocks.transpose(1, 0, 2, 3).reshape(flat.shape[0], -1)


def _flat(tree: Position, like: Array) -> Array:
    return jnp.concatenate([x.astype(like.dtype).ravel() for x in jax.tree.leaves(tree)])
