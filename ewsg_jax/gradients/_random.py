"""The gradient of a random potential: ∇V̂(θ; ζ) with E V̂ = V, with another ζ in every step.

V̂ may be a particle or an ensemble filter's estimate, a doubly stochastic likelihood, or a sum over
rows that the function draws itself. The target is exp(−V/T) with V = E V̂, the mean over keys. An
unbiased estimate of a likelihood, L̂, does not give an unbiased log L̂: with V̂ = −log L̂ the target
is exp(E log L̂), which is lower if L̂ varies more. As with minibatches, the variance of ∇V̂ adds to
the bias of a step, of order h, and `exponentially_weighted` chooses among keys: draws are
independent, and so exchangeable.

One evaluation of V̂ and its gradient a step, no memory.
"""

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, tracing
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Key, Memory, P
from ewsg_jax.gradients._protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    NoiseModel,
    OfRows,
    Weight,
)
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.posterior.random import (
    Keyed,
    OfKeyed,
    OfNoRow,
    RandomPotential,
    draw_words,
    flat_prior,
    key_of,
)
from ewsg_jax.rows._named import Rows, sampling_scheme
from ewsg_jax.rows._scheme import Order
from ewsg_jax.rows._view import Batch, Block, all_rows, fetched, num_rows, view

RandomFunction = Callable[[Key, Any, Data], Any]
RETURNS = ("potential", "gradient")
_TAKES = (
    "function must be a function (key, position, data) that returns a floating-point scalar, or a "
    "pytree like the position"
)


@module
class Random(GradientEstimator[P]):
    """The estimator of `random`.

    Attributes:
        function: `function(key, position, data)`, the potential or its gradient.
        returns: which of the two; None: by the shape of what it returns.
        num_evaluations: how many rows it evaluates; None for all.
        has_posterior: whether the posterior was given, and its prior is in the function already.
    """

    function: RandomFunction = static()
    returns: Literal["potential", "gradient"] | None = static(default=None)
    num_evaluations: int | None = static(default=None)
    has_posterior: bool = static(default=False)

    def check(self, position: P, data: Data) -> None:
        if self.has_posterior:
            self.posterior.check(position, data)
        checks.floating("position", position)
        checks.data(data)
        arguments = _key_shape(), checks.shapes(position), checks.shapes(view(data).tree)
        is_potential = self._is_potential(*arguments)
        tracing.check_same("function", self.function, *arguments, key="draw from its first one")
        if is_potential:
            key, at, rows = arguments
            tracing.differentiable(
                "function", lambda p, key, data: self.function(key, p, data), at, key, rows
            )

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Array:
        return draw_words(key)

    def propose(
        self, randomness: Array, memory: Memory, point: P, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        return Estimate(self._gradient(randomness, point, data), randomness), ()

    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        return self._gradient(estimate.batch, position, data)

    def evaluations(self, data: Data) -> Evaluations:
        count = all_rows(data) if self.num_evaluations is None else self.num_evaluations
        return Evaluations(count, count)

    def noise_model(self, data: Data) -> NoiseModel:
        # Measured by repeats: with other keys at one point.
        return NoiseModel(self, order=1.0)

    def _gradient(self, words: Array, position: P, data: Data) -> P:
        key, rows = key_of(words), view(data).tree
        if self._is_potential(key, position, rows):
            gradient = jax.grad(lambda p: jnp.asarray(self.function(key, p, rows)))(position)
        else:
            gradient = self.function(key, position, rows)
        if not self.has_posterior:
            gradient = pytrees.combine((1, self.posterior.prior_gradient(position)), (1, gradient))
        return pytrees.in_dtypes_of(position, gradient)

    def _is_potential(self, key: Key, position: P, data: Data) -> bool:
        """Return whether the function returns a scalar potential, and not its gradient.

        Raises:
            TypeError, ValueError: it returns neither, or it is not clear which.
        """
        arguments = key, *map(checks.shapes, (position, data))
        try:
            returned = jax.eval_shape(self.function, *arguments)
        except Exception as error:
            raise ValueError(f"{_TAKES}; it failed: {checks.reason(error)}") from error
        leaves = jax.tree.leaves(returned)
        is_scalar = len(leaves) == 1 and leaves[0].shape == ()
        like = jax.tree.leaves(arguments[1])
        is_like = jax.tree.structure(returned) == jax.tree.structure(position) and [
            x.shape for x in leaves
        ] == [x.shape for x in like]
        floats = leaves and all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves)
        if not floats or not (is_scalar or is_like):
            raise ValueError(f"{_TAKES}; it returned {checks.describe(returned)}")
        if self.returns is None and is_scalar and is_like:
            raise ValueError(
                "returns must be 'potential' or 'gradient' for a position of one number, whose "
                "potential and gradient look alike; got None"
            )
        expected = self.returns or ("potential" if is_scalar else "gradient")
        if not (is_scalar if expected == "potential" else is_like):
            raise ValueError(
                f"function must return a {expected}, as returns={expected!r} says; it returned "
                f"{checks.describe(returned)}"
            )
        return expected == "potential"


def random(
    function: RandomFunction,
    *,
    log_prior: Callable[[P], Array | float] | None = None,
    posterior: Posterior[P] | None = None,
    returns: Literal["potential", "gradient"] | None = None,
    num_evaluations: int | None = None,
) -> Random[P]:
    """Estimate ∇V by a function of a key: a random potential V̂ with E V̂ = V, or its gradient.

    The target is exp(−V/T) of the mean V, over keys; each step has a new one. Of V̂ = −log L̂ with an
    unbiased likelihood L̂ (a particle filter's) the mean is not −log E L̂: the target then has the
    density exp(E log L̂), which differs by the variance of log L̂.

    Args:
        function: `function(key, position, data)` returns V̂, a scalar, or ∇V̂, a pytree like the
            position, unbiased over keys. All that is random in it comes from the key. `data` are
            all rows, as they were given.
        log_prior: `log_prior(position) -> scalar`, whose negative is added to V̂. Default: it is in
            V̂ already.
        posterior: the posterior whose potential is the mean of V̂, prior included, if it can be
            evaluated: `forecast` takes the kernel then, with a mode of this posterior, and measures
            the noise by repeats; a run evaluates its densities. Default: not known.
        returns: `"potential"` or `"gradient"`. Default: by the shape of what is returned.
        num_evaluations: how many rows one call evaluates, by which data passes are counted.
            Default: all n.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, what the function
            returns, or that it draws from other keys.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def potential(key, mean, data):  # two of the rows, drawn by the function itself
        ...     few = jax.random.choice(key, data, (2,))
        ...     return 0.5 * jnp.sum(mean**2) + len(data) / 2 * 0.5 * jnp.sum((few - mean) ** 2)
        >>> estimator = ewsg.gradients.random(potential, num_evaluations=2)
        >>> kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), jnp.ones((8, 1)), 100)
        >>> samples.data_passes
        25.0
    """
    checks.function("function", function, "(key, position, data) -> potential or gradient")
    check_arguments(function, 3, "(key, position, data)")
    if log_prior is not None:
        checks.function("log_prior", log_prior, "(position) -> scalar, or None")
    if posterior is not None:
        check_posterior(posterior)
        if log_prior is not None:
            raise ValueError(
                "log_prior must be None with a posterior, whose prior is in the function's values; "
                f"got {checks.describe(log_prior)}"
            )
    if returns is not None:
        checks.one_of("returns", returns, RETURNS)
    if num_evaluations is not None:
        checks.integer("num_evaluations", num_evaluations)
    return Random(
        posterior=posterior or RandomPotential(OfNoRow(function, returns), log_prior or flat_prior),
        function=function,
        returns=returns,
        num_evaluations=num_evaluations,
        has_posterior=posterior is not None,
    )


class KeyedDraw(NamedTuple):
    """A batch, and the words of a key for each of its rows, shape (b, 2)."""

    batch: Batch | Block
    words: Array


@module
class RandomLikelihood(OfRows[P]):
    """The estimator of `random_likelihood`."""

    needs = frozenset({Need.ONE_PLACE})

    def check(self, position: P, data: Data) -> None:
        checks.data(data)
        rows = view(data).tree
        words = jax.eval_shape(lambda: draw_words(jax.random.key(0), num_rows(data)))
        if checks.are_known(data):
            words = jnp.zeros(words.shape, words.dtype)
        keyed = Keyed(rows, words)
        self.posterior.check(position, keyed)
        self.posterior.check_gradient(position, keyed)
        self.law.check(data)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> KeyedDraw:
        of_rows, of_words = jax.random.split(key)
        words = draw_words(of_words, self.batch_size)
        return KeyedDraw(super().draw(of_rows, data, order), words)

    def propose(
        self, randomness: KeyedDraw, memory: Memory, point: P, data: Data, weight: Weight
    ) -> tuple[Estimate, tuple[()]]:
        batch = fetched(randomness.batch, data)
        keyed = batch._replace(rows=Keyed(batch.rows, randomness.words))
        return Estimate(self.posterior.gradient_on(point, data, keyed), keyed), ()

    def noise_model(self, data: Data) -> NoiseModel:
        return NoiseModel(self, order=1.0)


def random_likelihood(
    log_likelihood: Callable[[P, Data, Key], Array],
    log_prior: Callable[[P], Array | float],
    *,
    batch_size: int,
    replace: bool = True,
    rows: Rows = "random",
) -> RandomLikelihood[P]:
    """Estimate ∇V from b rows by a log likelihood that takes a key: dropout, augmentation, an
    estimate of a row's likelihood.

    Each row of each step has a key of its own. The target is exp(−V/T) with V = −log p₀ − Σᵢ E log
    L̂ᵢ, the mean over keys. By Jensen's inequality exp(E log L̂ᵢ) is at most E L̂ᵢ, the likelihood
    of a mixture over masks or augmentations: the two are different posteriors.

    Args:
        log_likelihood: `log_likelihood(position, datum, key) -> scalar` of one row.
        log_prior: `log_prior(position) -> scalar`.
        batch_size: b, the number of rows in a batch.
        replace: as in `uniform`.
        rows: as in `uniform`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def dropout(weights, row, key):
        ...     kept = jax.random.bernoulli(key, 0.9, row["x"].shape) / 0.9
        ...     return -0.5 * (row["y"] - (kept * row["x"]) @ weights) ** 2
        >>> estimator = ewsg.gradients.random_likelihood(
        ...     dropout, lambda w: -0.5 * jnp.sum(w**2), batch_size=2
        ... )
        >>> kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
        >>> data = {"x": jnp.ones((8, 3)), "y": jnp.ones(8)}
        >>> ewsg.sample(jax.random.key(0), kernel, jnp.zeros(3), data, 100).data_passes
        25.0
    """
    checks.function("log_likelihood", log_likelihood, "(position, datum, key) -> scalar")
    check_arguments(log_likelihood, 3, "(position, datum, key)", "log_likelihood")
    checks.function("log_prior", log_prior, "(position) -> scalar")
    return RandomLikelihood(
        posterior=RandomPotential(OfKeyed(log_likelihood), log_prior),
        law=sampling_scheme(batch_size, replace, rows),
    )


def fresh(posterior: RandomPotential[P], batch_size: int) -> GradientEstimator[P]:
    """Return an estimator of a random potential's gradient.

    Args:
        posterior: what stands for the potential.
        batch_size: the rows of a batch, if it is a sum over rows with keys.
    """
    of_rows: Any = getattr(posterior.log_likelihood, "function", None)
    if isinstance(of_rows, OfNoRow):
        return Random(posterior=posterior, function=of_rows.function, returns=of_rows.returns)
    return RandomLikelihood(posterior=posterior, law=sampling_scheme(batch_size, True, "random"))


def check_arguments(
    function: Callable[..., Any], count: int, takes: str, name: str = "function"
) -> None:
    """Raise TypeError unless a function takes this number of arguments by position."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # it says nothing of its arguments
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a function {takes}; got one that takes {signature}"
        ) from error


def _key_shape() -> Any:
    """Return the shape of a key that functions are given."""
    return jax.eval_shape(lambda: key_of(draw_words(jax.random.key(0))))
