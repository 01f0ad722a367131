"""A model from elsewhere: what the library samples, and its draws in the model's own names.

A bridge makes one of plain functions. Nothing here knows which package the model is from.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Data, Key, Position, PyTree
from ewsg_jax.draws.coordinates import in_arviz
from ewsg_jax.draws.likelihoods import LIKELIHOOD_ROWS, check_density, of_rows
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.samples import Samples

Sites = dict[str, Any]
"""Values by the names that the model gives them."""


@dataclass(frozen=True, eq=False, repr=False)
class BridgedModel:
    """A model that another package describes, as this library takes it.

    `ewsg_jax.from_numpyro` makes one. `posterior`, `position` and `data` are the arguments of
    `ewsg_jax.plan`, `sample` and `check`.

    Args:
        posterior: the target, over unconstrained positions, with the Jacobian of the model's own
            transforms: its potential is the model's.
        position: a start, a dictionary of unconstrained arrays by the names of the model's sites.
        data: a pytree of the model's arrays, the n rows on the leading axis.
        sites: `sites(position) -> values`, of one position: a dictionary of arrays, the sites on
            their own supports and what the model computes from them. It is traced by JAX.
        predictive: `predictive(key, values, *arguments, **keywords) -> predictions`, of the values
            of sites with the leading axes (chain, draw), which the predictions have too.
        dims: the names of the axes of each site behind chain and draw.
        coords: the labels along such axes.
        observed: the observed values by name, NumPy arrays.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the position is no dictionary, or the data do not fit it.
    """

    posterior: Posterior
    position: Position
    data: Data
    sites: Callable[[Position], Sites]
    predictive: Callable[..., Sites]
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    coords: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_posterior(self.posterior)
        checks.function("sites", self.sites, "(position) -> values by name")
        checks.function("predictive", self.predictive, "(key, values, …) -> predictions by name")
        checks.instance("position", self.position, dict, "of unconstrained arrays by site")
        self.posterior.check(self.position, self.data)

    def __repr__(self) -> str:
        """Return one line: the sites of a position, and how many rows there are."""
        shapes = ", ".join(
            f"{name} {tuple(x.shape)}" if x.shape else name for name, x in self.position.items()
        )
        return f"BridgedModel({shapes}; {num_rows(self.data):,} rows)"

    def constrain(self, draws: Samples | PyTree) -> Sites:
        """Return draws of the position as values of the model's sites.

        Args:
            draws: a run, of which the chains that did not diverge are taken; or positions, leaves
                like those of `position` with any leading axes, or none for one position.

        Returns:
            A dictionary of arrays by name, with the same leading axes: the sites on their own
            supports, and the deterministic ones.

        Raises:
            ValueError: the draws are no such positions.

        Example:
            >>> import jax.numpy as jnp, ewsg_jax as ewsg
            >>> from ewsg_jax.bridges import BridgedModel
            >>> model = BridgedModel(
            ...     ewsg.Posterior(
            ...         lambda p, y: p["log_rate"] - jnp.exp(p["log_rate"]) * y, lambda p: 0.0
            ...     ),
            ...     {"log_rate": jnp.zeros(())},
            ...     jnp.ones(3),
            ...     sites=lambda position: {"rate": jnp.exp(position["log_rate"])},
            ...     predictive=lambda key, values: values,
            ... )
            >>> model.constrain({"log_rate": jnp.zeros((4, 100))})["rate"].shape
            (4, 100)
        """
        draws = self._draws_of(draws) if isinstance(draws, Samples) else draws
        leading = self._leading_axes(draws)
        flat = jax.tree.map(
            lambda x, one: jnp.reshape(x, (math.prod(leading), *jnp.shape(one))),
            draws,
            self.position,
        )
        values = self.sites(draws) if not leading else jax.vmap(self.sites)(flat)
        return {
            name: jnp.reshape(x, (*leading, *x.shape[1:])) if leading else x
            for name, x in values.items()
        }

    def to_arviz(self, samples: Samples, *, log_likelihood: bool = False, **options: Any) -> Any:
        """Return a run's draws as ArviZ takes them, in the model's names, dims and coords.

        The group `posterior` has the values of `constrain`, and `observed_data` what was observed.
        Chains that diverged are left out, and a RuntimeWarning names them: `sample_stats` says of
        no draw that it diverges.

        Args:
            samples: a run of this model's posterior that kept positions.
            log_likelihood: whether there is a group `log_likelihood` too, of each row at each draw,
                for `arviz.loo` and `arviz.compare`; `sample_stats` then has `lp`, the log density
                of each draw of the position.
            options: further arguments, passed on to `arviz.from_dict`.

        Raises:
            ImportError: ArviZ is not installed.
            TypeError, ValueError: the samples are no run of this model, or all chains diverged.
        """
        checks.boolean("log_likelihood", log_likelihood)
        draws = self._draws_of(samples)
        samples._warn_of_left_out("to_arviz()")
        groups: dict[str, dict[str, np.ndarray]] = {}
        dims = {name: list(axes) for name, axes in self.dims.items()}
        stats = {"diverging": np.zeros(jax.tree.leaves(draws)[0].shape[:2], bool)}
        groups["sample_stats"] = stats
        if self.observed:
            groups["observed_data"] = {name: np.asarray(x) for name, x in self.observed.items()}
        if log_likelihood:
            posterior = check_density(self.posterior)
            # One observed variable whose leading axis counts the rows has their names.
            counted = [
                name
                for name, values in self.observed.items()
                if values.shape[:1] == (num_rows(self.data),)
            ]
            name = counted[0] if len(self.observed) == len(counted) == 1 else "log_likelihood"
            rows = of_rows(draws, posterior, self.data, LIKELIHOOD_ROWS)
            groups["log_likelihood"] = {name: rows}
            log_priors = jax.vmap(jax.vmap(self.posterior.log_prior))(draws)
            stats["lp"] = np.asarray(log_priors) + rows.sum(axis=2)
            dims.setdefault(name, ["row"])
        coords = {"chain": np.flatnonzero(samples.is_finite)} | dict(self.coords)
        options = {"dims": dims, "coords": coords} | options
        values = {name: np.asarray(x) for name, x in self.constrain(draws).items()}
        return in_arviz(values, {}, groups, **options)

    def predict(self, key: Key, samples: Samples, *arguments: Any, **keywords: Any) -> Sites:
        """Draw new observations from the model at each draw of a run.

        Args:
            key: a typed PRNG key.
            samples: a run of this model's posterior that kept positions.
            arguments: arguments of the model, such as new inputs. Default: those that it was given,
                with nothing observed.
            keywords: keyword arguments of the model.

        Returns:
            A dictionary of NumPy arrays by the names of what was observed and of deterministic
            sites, leading axes (chain, draw) of the chains that did not diverge.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """
        checks.key(key)
        values = self.constrain(self._draws_of(samples))
        predictions = self.predictive(key, values, *arguments, **keywords)
        return {name: np.asarray(x) for name, x in predictions.items()}

    def _draws_of(self, samples: Samples) -> PyTree:
        """Check that a run kept positions of this model, and return those that count."""
        checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns")
        if not samples.keeps_positions or samples.draws is None:
            raise ValueError(
                "samples must hold positions of the model; got a run that kept something else "
                "(draws that are kept by keep=model.constrain have the model's names already)"
            )
        draws = samples.finite_draws
        self._leading_axes(draws)
        return draws

    def _leading_axes(self, draws: PyTree) -> tuple[int, ...]:
        """Return the axes of draws in front of a position's own, which all leaves share."""
        takes = f"draws must be positions like {checks.listed('position', self.position)}"
        if jax.tree.structure(draws) != jax.tree.structure(self.position):
            raise ValueError(f"{takes}; got {checks.describe(draws)}")
        leaves, ones = jax.tree.leaves(draws), jax.tree.leaves(self.position)
        split = [
            (jnp.shape(x)[: jnp.ndim(x) - jnp.ndim(one)], jnp.shape(x)[-jnp.ndim(one) :])
            if jnp.ndim(one)
            else (jnp.shape(x), ())
            for x, one in zip(leaves, ones, strict=True)
        ]
        fits = all(shape == jnp.shape(one) for (_, shape), one in zip(split, ones, strict=True))
        if not fits or len({leading for leading, _ in split}) != 1:
            raise ValueError(f"{takes}; got {checks.listed('draws', checks.shapes(draws))}")
        return split[0][0]
