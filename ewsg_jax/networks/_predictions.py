"""What draws of a network's weights say of new observations: moments, intervals and scores."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import Key, PyTree
from ewsg_jax.draws.ensemble import Ensemble
from ewsg_jax.networks._likelihoods import check_predicts, checked_draw
from ewsg_jax.networks._model import NetworkModel, checked_inputs
from ewsg_jax.run.batches import even_batches
from ewsg_jax.run.samples import Samples


class NewObservations(NamedTuple):
    """What the posterior says of new observations at b rows of inputs.

    Attributes:
        mean: their means, shape (b, …); None if the likelihood knows no mean.
        sd: their standard deviations: the noise of an observation and what is not known of its
            mean; None if the likelihood knows no standard deviation.
        mean_sd: the standard deviation of the mean over draws, the part that more rows would
            lower; None as `mean`.
        probabilities: those of the classes, shape (b, classes); None without classes.
    """

    mean: np.ndarray | None
    sd: np.ndarray | None
    mean_sd: np.ndarray | None
    probabilities: np.ndarray | None


@dataclass(frozen=True, eq=False, repr=False)
class NetworkPredictions:
    """Predictions of a network by draws of its weights, as `ewsg_jax.networks.predictions` makes.

    Attributes:
        model: the network with its likelihood and prior.
        samples: the draws.
        row: shapes and dtypes of one row of data["x"]; None if they are not known.
    """

    model: NetworkModel
    samples: Samples | Ensemble
    row: PyTree | None

    def __repr__(self) -> str:
        """Return one line: the model and the draws."""
        return f"NetworkPredictions({self.model!r}, {self.samples!r})"

    def predict(self, x: PyTree) -> NewObservations:
        """Return means, standard deviations and class probabilities of new observations.

        Args:
            x: inputs like data["x"], leading axis b.

        Raises:
            TypeError, ValueError: x is not like data["x"], or the likelihood knows neither means
                nor probabilities.
        """
        x = self._check(x)
        check_predicts(self.model.likelihood)

        # Sums of squares around one draw's means: those of means far from 0 would round to nothing.
        # Without a chain that stayed finite all is NaN, as of `Samples.predict`.
        finite = self.samples.finite_draws
        has_one = len(jax.tree.leaves(finite)[0]) > 0
        draws = finite if has_one else self.samples.position
        first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), draws)
        center = self.model.predict(first, x, self._key).mean
        averages = self._over_draws(self._moments, (x, center))
        shift, square, variance = (averages.get(name) for name in ("shift", "square", "variance"))
        mean = None if shift is None else np.asarray(center) + shift
        between = None if shift is None else np.maximum(square - shift**2, 0)
        return NewObservations(
            mean=mean,
            sd=None if variance is None else np.sqrt(variance + between),
            mean_sd=None if between is None else np.sqrt(between),
            probabilities=averages.get("probabilities"),
        )

    def quantiles(self, x: PyTree, probabilities: Any, *, key: Key | None = None) -> np.ndarray:
        """Return quantiles of new observations, which are drawn, shape (quantile, b, …).

        Args:
            x: inputs like data["x"], leading axis b.
            probabilities: numbers between 0 and 1, shape (quantile,).
            key: a typed PRNG key, of the new observations. Default: the same at each call.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value, or the likelihood knows
                no new observations or has classes, whose probabilities `predict` has.
        """
        x = self._check(x)
        chosen = np.atleast_1d(np.asarray(probabilities, np.float64))
        if chosen.ndim != 1 or not ((chosen >= 0) & (chosen <= 1)).all():
            raise ValueError(
                "probabilities must be numbers between 0 and 1, shape (quantile,); got "
                f"{checks.describe(probabilities)}"
            )
        if self.model.likelihood.probabilities is not None:
            raise ValueError(
                f"likelihood={self.model.likelihood.name!r} has classes, without quantiles: take "
                "predict(x).probabilities"
            )
        checked_draw(self.model.likelihood)
        key = jax.random.key(0) if key is None else key
        shape = jax.eval_shape(self._observations, self.model.position, x, key).shape[1:]

        # Some rows after the other: the draws of all may be more than memory holds.
        numbers = self.samples.num_chains * self.samples.num_draws * self._repeats
        size = max(1, limits.NUMBERS_AT_ONCE // (numbers * math.prod(shape[1:])))
        values = np.empty((len(chosen), *shape))
        parts = even_batches(shape[0], size) if shape[0] else []
        # A key that is split is used for nothing else.
        keys = [key] if len(parts) == 1 else jax.random.split(key, len(parts))
        for part_key, (first, end) in zip(keys, parts, strict=True):
            rows = jax.tree.map(lambda leaf, part=slice(first, end): leaf[part], x)
            drawn = self.samples.predict(self._observations, rows, key=part_key, keep_draws=True)
            # A row's draws side by side, which are sorted in half of the time.
            drawn = np.ascontiguousarray(drawn.reshape(math.prod(drawn.shape[:3]), -1).T)
            of_rows = np.quantile(drawn.astype(np.float64), chosen, axis=1)
            values[:, first:end] = of_rows.reshape(len(chosen), end - first, *shape[1:])
        return values

    def interval(self, x: PyTree, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals that hold a new observation with a probability.

        As much lies below an interval as above it.

        Args:
            x: inputs like data["x"], leading axis b.
            probability: between 0 and 1; by default 0.9.

        Raises:
            TypeError, ValueError: as `quantiles`.
        """
        checks.fraction("probability", probability)
        low, high = self.quantiles(x, [(1 - probability) / 2, (1 + probability) / 2])
        return low, high

    def log_scores(self, x: PyTree, y: Any, **others: Any) -> np.ndarray:
        """Return the log posterior-predictive density of each row, log mean_θ p(y | x, θ),
        shape (b,).

        Args:
            x: inputs like data["x"], leading axis b.
            y: observations like data["y"], leading axis b.
            **others: what else of a row a likelihood of your own reads, by its name in the data,
                such as `exposure=…`, leading axis b.

        Raises:
            TypeError, ValueError: an argument is not like that of the data.
        """
        x = self._check(x)
        for name, value in {"y": y, **others}.items():
            checks.held(name, value)
        rows = {"x": x, "y": jnp.asarray(y)} | jax.tree.map(jnp.asarray, others)
        count = jax.tree.leaves(x)[0].shape[0]
        for name in ("y", *others):
            if any(leaf.shape[:1] != (count,) for leaf in jax.tree.leaves(rows[name])):
                raise ValueError(
                    f"{name} must have an observation for each of {count} rows of x; got "
                    f"{checks.describe(rows[name])}"
                )
        self.model._assembly.check_values(self.model.position, rows)
        try:
            jax.eval_shape(self._densities, self.model.position, rows, self._key)
        except Exception as error:
            raise ValueError(
                f"likelihood must have what it reads of a row; it failed: {checks.reason(error)} "
                f"({checks.listed('row', checks.datum(rows))}): give more than x and y by name, as "
                "log_score(x, y, exposure=…)"
            ) from error
        return self._over_draws(self._densities, rows, log=True)

    def log_score(self, x: PyTree, y: Any, **others: Any) -> float:
        """Return the mean of `log_scores` over rows: higher is better, and its negative is the NLL.

        Args:
            x: inputs like data["x"], leading axis b.
            y: observations like data["y"], leading axis b.
            **others: as for `log_scores`.

        Raises:
            TypeError, ValueError: an argument is not like that of the data.
        """
        return float(np.mean(self.log_scores(x, y, **others), dtype=np.float64))

    # Methods, not functions made in a call, so that each is compiled once.

    def _moments(self, position: PyTree, inputs: PyTree, key: Key | None = None) -> dict[str, Any]:
        """Return what `predict` averages at one draw, as far as the likelihood knows it."""
        x, center = inputs
        prediction = self.model.predict(position, x, key)
        moments: dict[str, Any] = {"probabilities": prediction.probabilities}
        if prediction.mean is not None:
            moments["shift"] = prediction.mean - center
            moments["square"] = moments["shift"] ** 2
            moments["variance"] = None if prediction.sd is None else prediction.sd**2
        return {name: value for name, value in moments.items() if value is not None}

    def _observations(self, position: PyTree, x: PyTree, key: Key) -> Any:
        keys = jax.random.split(key, self._repeats)
        return jax.vmap(lambda key: self.model.draw(key, position, x))(keys)

    @property
    def _repeats(self) -> int:
        """How many observations are drawn at each draw: some thousand in all, whose quantiles have
        an error of some percent of an sd.
        """
        return math.ceil(4_000 / max(1, self.samples.num_chains * self.samples.num_draws))

    def _densities(self, position: PyTree, rows: PyTree, key: Key | None = None) -> Any:
        return self.model.log_density(position, rows, key)

    def _over_draws(self, function: Any, inputs: PyTree, log: bool = False) -> Any:
        """Return the mean over draws of a function (position, inputs, key)."""
        return self.samples.predict(function, inputs, key=self._key, log=log)

    @property
    def _key(self) -> Key | None:
        """The key by which a network that takes one predicts."""
        return jax.random.key(0) if self.model.takes_key else None

    def _check(self, x: PyTree) -> PyTree:
        """Check inputs against those of the data, as far as these are known; return them as arrays
        of JAX.
        """
        if self.row is None:
            return checked_inputs(self.model, x)
        shapes = jax.tree.map(lambda leaf: np.shape(leaf)[1:], x)
        expected = jax.tree.map(lambda leaf: leaf.shape, self.row)
        if jax.tree.structure(x) != jax.tree.structure(self.row) or shapes != expected:
            raise ValueError(
                f"x must be like data['x'], a leading axis of rows and then {expected}; got "
                f"{checks.listed('x', x)}"
            )
        return checks.arrays("x", x)


def predictions(model: NetworkModel, draws: Samples | Ensemble) -> NetworkPredictions:
    """Make predictions, intervals and scores of a network from draws of its weights.

    From a run, or from the baselines: `networks.ensemble(members)`,
    `networks.swag(iterates).draws(key, 200)`, `networks.laplace(…).draws(key, 200)`. They are those
    of `networks.fit`, so methods are compared by one number, `log_score(x, y)` on held-out rows.

    Args:
        model: what `networks.posterior` returned.
        draws: positions of this model, what `ewsg_jax.sample` or one of these returned.

    Raises:
        TypeError, ValueError: an argument has the wrong type, or draws are no positions of the
            model.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> from ewsg_jax import networks
        >>> data = {"x": jnp.arange(8.0)[:, None], "y": jnp.arange(8.0)}
        >>> model = networks.posterior(
        ...     lambda params, x: x @ params,
        ...     jnp.ones(1),
        ...     data,
        ...     likelihood=networks.normal(scale=1.0),
        ... )
        >>> fitted = networks.laplace(model.posterior, model.position, data)
        >>> by_laplace = networks.predictions(model, fitted.draws(jax.random.key(0), 1_000))
        >>> by_laplace.predict(jnp.array([[2.0]])).mean.round(1)
        array([2.], dtype=float32)
    """
    checks.instance("model", model, NetworkModel, "what ewsg_jax.networks.posterior returns")
    if not isinstance(draws, Samples | Ensemble):
        raise TypeError(
            "draws must be samples of a run, or what networks.ensemble(…) or .draws(key, …) of "
            f"networks.swag and networks.laplace returns; got {checks.describe(draws)}"
        )
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), draws.position)
    takes = "draws must hold positions of the model"
    checks.same_tree(takes, "draws", one, model.position, dtypes=False)
    return NetworkPredictions(model, draws, None)
