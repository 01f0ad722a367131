"""What is sampled: V = V₀ + Σᵢ Vᵢ, and its gradients over rows of data.

V₀ = −log prior, Vᵢ = −log likelihood of datum i, and a kernel of temperature T targets
exp(−V/T). This module is the only place where sums over rows are scaled to the whole data set.
"""

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, numeric, products, pytrees
from ewsg_jax.base.constants import constant_part, varying_part
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Data, P, Position, PyTree
from ewsg_jax.bijectors._protocol import Transform, transform
from ewsg_jax.bounds._protocol import Bound
from ewsg_jax.posterior import batched
from ewsg_jax.posterior.half_precision import in_parts
from ewsg_jax.posterior.linear import LinearPredictor, OfDatum, Residual, checked_residual
from ewsg_jax.posterior.shapes_and_indices import ModelCheck
from ewsg_jax.posterior.transformed import keeps_shapes, over_unconstrained
from ewsg_jax.rows._view import CHUNK_SIZE, Batch, fetched, num_rows, sum_over_rows, view

_LEFT_OUT: Any = None
"""A log likelihood that is left out, for it is set by a batched one."""


@dataclass(frozen=True, eq=False)
class Posterior(Generic[P]):
    """A prior and a likelihood of independent data.

    Args:
        log_likelihood: `log_likelihood(position, datum) -> scalar` for one datum (the data pytree
            without its leading axis); left out with a `batched_log_likelihood` alone. A constant
            that does not depend on the position changes no draw. Comparisons of densities need all
            constants (`diagnostics.log_predictive_density`, `samples.to_arviz` for leave-one-out,
            evidence by `potential`): a density of the observation, which integrates or sums to one.
        log_prior: `log_prior(position) -> scalar`; `lambda position: 0.0` for a flat one.
        predictor: how data enter through linear predictors; made by `Posterior.linear`.
        bound: a lower bound of the likelihood, one of `ewsg_jax.bounds`, for `flymc`.
        check_values: `check_values(position, data)` raises what is wrong with the numbers in the
            data, such as labels that the model does not know; `check` calls it unless data are
            traced, and once for the same arrays of JAX. By default `check` looks for indices out of
            bounds in `log_likelihood`, such as the label of a group that the position does not
            have, and for labels below 0, such as −1 for a missing one.
        name: what the posterior is printed as, such as the call that makes it.
        log_concave: whether `log_likelihood` is concave in the position for every datum, as for the
            built-in regressions: `check` then knows that no posterior is wider than a normal prior.
        normalised: whether `log_likelihood` is the log of a density with all its constants, such as
            −log σ − log(2π)/2 for a normal density. It is True for built-in models. With False,
            functions that compare densities refuse the posterior. Default None, unknown: they
            accept it.
        batched_log_likelihood: `batched_log_likelihood(position, rows) -> values`, the log
            likelihoods of b rows at once, shape (b,), for any b; a sum over rows calls it once.
            `log_likelihood` is by default this function of one row. Both are compared once: a layer
            or a mean over the batch makes its rows dependent. Default None: `log_likelihood`,
            vectorised by `jax.vmap`.

    Products of matrices in both functions, and in their derivatives, have the precision of their
    dtype on accelerators too, unless they or `jax_default_matmul_precision` say another one.

    Two are equal if their functions are: compiled programs are then shared. To a type checker the
    type of a position is that in the annotations of the functions, for the posterior and all that
    is made of it: `Kernel[Params]`. Data are of any type.

    Raises:
        TypeError: an argument has the wrong type or value.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> posterior = ewsg.Posterior(
        ...     lambda mean, x: -0.5 * jnp.sum((x - mean) ** 2),
        ...     lambda mean: -0.5 * jnp.sum(mean**2),
        ... )
        >>> posterior.gradient(jnp.zeros(1), jnp.array([[1.0], [3.0]]))
        Array([-4.], dtype=float32)
        >>> of_batches = ewsg.Posterior(
        ...     log_prior=lambda mean: -0.5 * jnp.sum(mean**2),
        ...     batched_log_likelihood=lambda mean, xs: -0.5 * jnp.sum((xs - mean) ** 2, axis=1),
        ... )
        >>> of_batches.gradient(jnp.zeros(1), jnp.array([[1.0], [3.0]]))
        Array([-4.], dtype=float32)
    """

    log_likelihood: Callable[[P, Data], Array] = _LEFT_OUT
    log_prior: Callable[[P], Array | float] = _LEFT_OUT
    predictor: LinearPredictor | None = None
    bound: Bound | None = None
    check_values: Callable[[P, Data], None] | None = None
    _: KW_ONLY
    name: str | None = None
    log_concave: bool = False
    normalised: bool | None = None
    batched_log_likelihood: Callable[[P, Data], Array] | None = None
    _model_check: ModelCheck = field(default_factory=ModelCheck, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.batched_log_likelihood is not None:
            of_batch = batched.in_full(self.batched_log_likelihood, self.predictor)
            object.__setattr__(self, "batched_log_likelihood", of_batch)
            if self.log_likelihood is None:
                object.__setattr__(self, "log_likelihood", batched.OneRow(of_batch))
        checks.function("log_likelihood", self.log_likelihood, "(position, datum) -> scalar")
        checks.function("log_prior", self.log_prior, "(position) -> scalar")
        if self.predictor is not None:
            checks.instance(
                "predictor", self.predictor, LinearPredictor, "made by ewsg_jax.Posterior.linear"
            )
        if self.bound is not None:
            checks.instance("bound", self.bound, Bound, "one of ewsg_jax.bounds")
        if self.check_values is not None:
            checks.function("check_values", self.check_values, "(position, data), or None")
        checks.boolean("log_concave", self.log_concave)
        if self.normalised is not None:
            checks.boolean("normalised", self.normalised)
        for name in ("log_likelihood", "log_prior"):
            object.__setattr__(self, name, products.in_full(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Posterior):
            return NotImplemented
        return self is other or all(map(products.is_equal, self._functions(), other._functions()))

    def __hash__(self) -> int:
        return hash(tuple(map(products.hash_of, self._functions())))

    def __repr__(self) -> str:
        if self.name is not None:
            return self.name
        named = [text(self.log_likelihood), text(self.log_prior)]
        if self.batched_log_likelihood is not None:
            named.append(f"batched_log_likelihood={text(self.batched_log_likelihood)}")
        if isinstance(getattr(self.log_likelihood, "function", None), batched.OneRow):
            named[:2] = [f"log_prior={named[1]}"]
        return f"Posterior({', '.join(named)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "varying"}

    def _functions(self) -> tuple[Any, ...]:
        known = self.log_likelihood, self.log_prior, self.predictor, self.bound, self.check_values
        return *known, self.batched_log_likelihood

    @classmethod
    def linear(
        cls: "type[Posterior]",
        log_likelihood: Callable[[Array, Data], Array],
        log_prior: Callable[[Array], Array | float],
        *,
        inputs: Callable[[Data], Array],
        residual: Callable[[Array, Data], Array] | None = None,
        bound: Bound | None = None,
        check_values: Callable[[Array, Data], None] | None = None,
        name: str | None = None,
        log_concave: bool = False,
        normalised: bool | None = None,
    ) -> "Posterior[Array]":
        """Declare a model whose data enter through linear predictors xᵢᵀW only.

        The position is the array W, shape (d,) or (d, k). Gradients are then two matrix products.

        Args:
            log_likelihood: `log_likelihood(predictor, datum) -> scalar`, the predictor xᵀW of shape
                () or (k,).
            log_prior: `log_prior(W) -> scalar`.
            inputs: `inputs(datum) -> x`, of shape (d,).
            residual: the closed-form derivative of `log_likelihood` by the predictor,
                `residual(predictors, rows)` for b rows at once. Default: automatic differentiation.
            bound: a lower bound of the likelihood, one of `ewsg_jax.bounds`, for `flymc`.
            check_values: as for `Posterior`.
            name: as for `Posterior`.
            log_concave: as for `Posterior`; it holds if `log_likelihood` is concave in the
                predictor.
            normalised: as for `Posterior`.

        Raises:
            TypeError: an argument has the wrong type or value.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> logistic = ewsg.Posterior.linear(
            ...     lambda s, row: jax.nn.log_sigmoid(jnp.where(row["y"] == 1, s, -s)),
            ...     lambda w: -0.05 * jnp.sum(w**2),
            ...     inputs=lambda row: row["x"],
            ... )
            >>> rows = {"x": jnp.array([[1.0, 2.0]]), "y": jnp.array([1])}
            >>> logistic.gradient(jnp.zeros(2), rows)
            Array([-0.5, -1. ], dtype=float32)
        """
        checks.function("log_likelihood", log_likelihood, "(predictor, datum) -> scalar")
        checks.function("log_prior", log_prior, "(W) -> scalar")
        checks.function("inputs", inputs, "(datum) -> x")
        if residual is not None:
            checks.function("residual", residual, "(predictors, rows) -> derivatives")
        density = products.in_full(log_likelihood)
        predictor = LinearPredictor(
            products.in_full(inputs),
            density,
            Residual(density) if residual is None else products.in_full(residual),
        )
        known = {"name": name, "log_concave": log_concave, "normalised": normalised}
        return cls(OfDatum(predictor), log_prior, predictor, bound, check_values, **known)

    def transformed(self, bijector: Transform) -> "Posterior":
        """Return this posterior over unconstrained u, for bounded θ = bijector.forward(u).

        Its density is that of θ times |det ∂θ/∂u|, so draws of u mapped forward are draws of θ.
        Chains start at a u, such as `bijector.inverse(θ)`; `ewsg_jax.sample(…,
        keep=bijector.forward)` keeps draws of θ. `ewsg_jax.check` takes draws of u, which
        `jax.vmap(jax.vmap(bijector.forward))(samples.draws)` maps afterwards.

        The result has no bound, even if this posterior has one, and no linear predictor unless the
        bijector is `bijectors.affine` and the position a vector: its gradients are automatic. The
        prior must be finite, up to its constant, for all values of `forward`. A kernel with a
        temperature T other than 1 tempers the determinant too: the distribution of θ is then not
        exp(−V/T).

        Args:
            bijector: one of `ewsg_jax.bijectors`, or any object with `forward(u) -> θ` and
                `log_det(u) -> log|det ∂θ/∂u|`, a scalar.

        Raises:
            TypeError: the bijector lacks one of the two methods.
            ValueError: when the result is used: `log_det` fails or does not return one
                floating-point scalar.

        Example:
            >>> import jax.numpy as jnp, ewsg_jax as ewsg
            >>> exponential = ewsg.Posterior(
            ...     lambda rate, x: jnp.log(rate) - rate * x, lambda rate: -rate
            ... )
            >>> unconstrained = exponential.transformed(ewsg.bijectors.positive())
            >>> unconstrained.gradient(jnp.array(0.0), jnp.array([1.0, 2.0])).round(4)
            Array(0.0573, dtype=float32)
        """
        transform("bijector", bijector)
        over_u = Posterior(**over_unconstrained(self, bijector))
        return self._model_check.also_for(over_u, self) if keeps_shapes(bijector) else over_u

    @functools.cached_property
    def varying(self) -> "Posterior[P]":
        """This posterior without its densities' known constants: the same gradients.

        For differences of potentials, whose float32 sums over many rows it would make larger.
        """
        log_likelihood, log_prior = self.log_likelihood, varying_part(self.log_prior)
        # A batched one, which is summed, has no constant that is known.
        if self.batched_log_likelihood is None:
            log_likelihood = varying_part(log_likelihood)
        if log_likelihood is self.log_likelihood and log_prior is self.log_prior:
            return self
        predictor = None if self.predictor is None else self.predictor.varying
        others = predictor, self.bound, self.check_values
        of_batch = self.batched_log_likelihood
        varying = Posterior(log_likelihood, log_prior, *others, batched_log_likelihood=of_batch)
        return self._model_check.also_for(varying, self)

    def prior_gradient(self, position: P) -> P:
        """Return ∇V₀, shaped like the position.

        Raises:
            TypeError, ValueError: as `check`, of the position and the prior.
        """
        self._model_check.check_prior(self, position)
        return jax.grad(self._prior_potential)(position)

    def batch_gradient(
        self, position: P, data: Data, batch: Array | Batch, weights: Array | None = None
    ) -> P:
        """Return (n/b) Σ_{i∈I} ∇Vᵢ, shaped like the position; with weights Σ_{i∈I} wᵢ ∇Vᵢ.

        Args:
            position: the position θ.
            data: all n rows; or one part of them, for which this and the methods below return the
                part's own sum.
            batch: the b row numbers I, int32, repeats allowed; or a `rows.Batch`, with its rows or
                without.
            weights: the wᵢ, how many rows each row of the batch stands for, shape (b,). Default:
                the batch's weights, or n/b for each row.

        Raises:
            TypeError, ValueError: as `check`; or the indices are not row numbers, or the weights
                not one number for each.
        """
        position, data = checks.position(position), numeric.native(data)
        checks.data(data)
        # Shapes are enough: a step gathers rows by numbers, and `init` has checked values.
        self.check(position, checks.shapes(data))
        batch = batch if isinstance(batch, Batch) else Batch(batch)
        checks.indices("batch", batch.indices, num_rows(data))
        if weights is not None:
            batch = batch._replace(weights=weights)
        if batch.weights is not None:
            checks.numbers("weights", batch.weights, batch.indices.shape)
        return pytrees.in_dtypes_of(position, self.batch_sum(position, data, batch))

    def gradient_on(self, position: P, data: Data, batch: Batch) -> P:
        """Return ∇V₀ + (n/b) Σ_{i∈I} ∇Vᵢ, or ∇V₀ + Σ wᵢ ∇Vᵢ with weights, like the position.

        For estimators: it does not check its arguments again, as the methods below.
        """
        return self.total(position, data, self.batch_sum(position, data, batch))

    def batch_sum(self, position: P, data: Data, batch: Batch) -> P:
        """Return (n/b) Σ ∇Vᵢ or Σ wᵢ ∇Vᵢ over the batch, in float32 or more: a part for `total`."""
        total = self._sum_of_gradients(position, fetched(batch, data).rows, batch.weights)
        if batch.weights is not None:
            return total
        # The one place, with `estimate_from_rows`, where a sum over b rows is scaled to all n.
        return pytrees.combine((view(data).number / batch.indices.shape[0], total))

    def row_gradients(self, position: P, rows: Data) -> PyTree:
        """Return the ∇Vᵢ of b rows in the smallest form, leading axis b.

        Returns:
            The derivative of each Vᵢ by its linear predictor, shape (b,) or (b, k), for a posterior
            made by `Posterior.linear`; else the gradients themselves, leaves (b, …).
            `sum_of_rows` adds them up.
        """
        seen = view(rows)
        if self.predictor is None:
            return seen.map_rows(jax.grad(lambda p, row: -self.log_likelihood(p, row)), position)
        # One number for each row and predictor determines its whole gradient.
        predictors = products.matmul(jax.vmap(self.predictor.inputs)(seen.tree), position)
        return seen.only_counted(-checked_residual(self.predictor.residual, predictors, seen.tree))

    def flat_row_gradients(self, position: P, rows: Data) -> Array:
        """Return ∇Vᵢ of each row as a matrix (b, d), the d parameters in `ravel_pytree` order."""
        return self.flat_rows(self.row_gradients(position, rows), rows)

    def flat_rows(self, row_gradients: PyTree, rows: Data) -> Array:
        """Return values of `row_gradients` as a matrix (b, d), at least in float32."""
        if self.predictor is not None:
            x = jax.vmap(self.predictor.inputs)(view(rows).tree)
            row_gradients = products.einsum("bi,b...->bi...", x, row_gradients)
        return jax.vmap(lambda one: ravel_pytree(pytrees.widened(one))[0])(row_gradients)

    def sum_of_rows(self, row_gradients: PyTree, rows: Data) -> Position:
        """Return Σᵢ ∇Vᵢ from values of `row_gradients`, or from linear combinations of such values.

        It is summed at least in float32, and left so.
        """
        if self.predictor is None:
            return jax.tree.map(lambda x: jnp.sum(x, axis=0), pytrees.widened(row_gradients))
        return products.sum_of_outer(
            jax.vmap(self.predictor.inputs)(view(rows).tree), row_gradients
        )

    def estimate_from_rows(
        self, row_gradients: PyTree, rows: Data, data: Data, weights: Array | None = None
    ) -> Position:
        """Return (n/b) Σ ∇Vᵢ, or Σ wᵢ ∇Vᵢ with weights of shape (b,), as `sum_of_rows` does."""
        if weights is None:
            share = view(data).number / num_rows(rows)
            return pytrees.combine((share, self.sum_of_rows(row_gradients, rows)))
        return self.sum_of_rows(pytrees.scaled_rows(pytrees.widened(row_gradients), weights), rows)

    def likelihood_gradient(
        self, position: P, data: Data, chunk_size: int = CHUNK_SIZE, *, widened: bool = False
    ) -> P:
        """Return Σᵢ ∇Vᵢ over all rows by `chunk_size`; `widened`: left at least in float32.

        Raises:
            TypeError, ValueError: as `check`; or `chunk_size` is not a positive whole number.
        """
        position = checks.position(position)
        self.check(position, data)
        checks.integer("chunk_size", chunk_size)
        total = sum_over_rows(lambda rows: self._sum_of_gradients(position, rows), data, chunk_size)
        return total if widened else pytrees.in_dtypes_of(position, total)

    def gradient(self, position: P, data: Data, chunk_size: int = CHUNK_SIZE) -> P:
        """Return ∇V = ∇V₀ + Σᵢ ∇Vᵢ, shaped like the position.

        Args:
            position: the position θ.
            data: all n rows.
            chunk_size: rows taken at once, which bounds the memory.

        Raises:
            TypeError, ValueError: as `check`; or `chunk_size` is not a positive whole number.
        """
        position, data = checks.position(position), numeric.native(data)
        self._model_check.check_prior(self, position)
        return self.total(
            position, data, self.likelihood_gradient(position, data, chunk_size, widened=True)
        )

    def total(self, position: P, data: Data, *parts: P) -> P:
        """Return ∇V₀ plus sums over rows, and add up the sums of several parts of the data.

        Args:
            position: the position θ.
            data: the rows that were summed over: all, or one of several parts, whose sums are then
                added over the parts, once.
            parts: the sums, pytrees like the position.
        """
        return pytrees.combine(
            (1, jax.grad(self._prior_potential)(position)),
            *((1, part) for part in view(data).added(*parts)),
        )

    def potential(self, position: P, data: Data, chunk_size: int = CHUNK_SIZE) -> Array:
        """Return V = −log prior − Σᵢ log likelihood, a scalar, summed at least in float32.

        It has the constants that both functions have: built-in models have all. For differences
        between positions, `varying.potential` has more digits.

        Raises:
            TypeError, ValueError: as `check`; or `chunk_size` is not a positive whole number.
        """
        data = numeric.native(data)
        # By the parts that vary, whose sums are smaller and lose fewer digits.
        if self.varying is not self:
            return self.varying.potential(position, data, chunk_size) - self.constants(
                position, data
            )
        self.check(position, data)
        checks.integer("chunk_size", chunk_size)
        total = sum_over_rows(
            lambda rows: jnp.sum(self.log_likelihoods(position, rows)), data, chunk_size
        )
        return -self.log_prior(position) - view(data).across(total)

    def constants(self, position: P, data: Data) -> Array | float:
        """Return the known constants of the prior and of all rows, by their shapes alone.

        They are `varying.potential` minus `potential`; 0 if none is known.
        """
        rows, of_prior = view(data), constant_part(self.log_prior, position)
        if self.batched_log_likelihood is not None:
            return of_prior
        datum = jax.tree.map(lambda x: np.zeros(x.shape[1:], jnp.result_type(x)), rows.tree)
        of_rows = rows.number * constant_part(self.log_likelihood, position, datum)
        return of_prior + rows.across(of_rows)

    def log_likelihoods(self, position: P, rows: Data) -> Array:
        """Return the log likelihood of each row, shape (b,), at least in float32."""
        if self.batched_log_likelihood is None:
            values = view(rows).map_rows(self.log_likelihood, position)
        else:
            values = batched.of_rows(self.batched_log_likelihood, position, rows)
        return values.astype(pytrees.wide(values.dtype))

    def check(self, position: P, data: Data) -> None:
        """Check that both functions give scalars for this position and one datum, and the data by
        `check_values`.

        Without `check_values`, data by which the log likelihood computes indices are checked: an
        index out of bounds is refused if JAX would take the nearest element for it, and so is a
        label below 0, if JAX would count it from the end and its element changes the value.

        Raises:
            TypeError, ValueError: the position or the data are not such pytrees, a function fails
                on them or does not return one floating-point scalar, or `check_values` refuses the
                data.
        """
        self._model_check.check(self, position, data)

    def check_gradient(self, position: P, data: Data) -> None:
        """Check that both functions have a gradient by this position, as estimators need.

        Raises:
            ValueError: one has none, such as a function with a `while_loop`.
        """
        self._model_check.check_gradient(self, position, data)

    def _prior_potential(self, position: P) -> Array:
        """V₀, an array even if `log_prior` returns a number."""
        return -jnp.asarray(self.log_prior(position))

    def _sum_of_gradients(self, position: P, rows: Data, weights: Array | None = None) -> P:
        """Σ wᵢ∇Vᵢ, at least in float32: the gradient of a sum, not a sum of gradients."""
        if self.predictor is not None:
            of_rows = self.row_gradients(position, rows)
            if weights is not None:
                of_rows = pytrees.scaled_rows(pytrees.widened(of_rows), weights)
            return pytrees.in_dtypes_of(pytrees.widened(position), self.sum_of_rows(of_rows, rows))
        # One backward pass for the sum: gradients of rows one by one would take b positions of
        # memory.
        gradient = functools.partial(jax.grad(self._weighted_potential), position)
        is_half = any(x.dtype.itemsize < 4 for x in jax.tree.leaves(position))
        return in_parts(gradient, rows, weights) if is_half else gradient(rows, weights)

    def _weighted_potential(self, position: P, rows: Data, weights: Array | None) -> Array:
        """Σ wᵢVᵢ over rows, without weights Σ Vᵢ."""
        values = self.log_likelihoods(position, rows)
        return -jnp.sum(values if weights is None else pytrees.scaled_rows(values, weights))


def check_posterior(posterior: object) -> None:
    """Check the argument `posterior`."""
    made_by = "ewsg_jax.Posterior(…) or one of ewsg_jax.models"
    checks.instance("posterior", posterior, Posterior, made_by)
