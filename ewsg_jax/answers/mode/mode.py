"""A mode, with the curvature there: starts, standard deviations and an inverse mass.

With the covariance of the normal approximation for an inverse mass every direction has the standard
deviation 1, and step sizes are in that unit.
"""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.spectrum import CurvatureOfMany
from ewsg_jax.answers.mode.start import Start
from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.factors import LowRank, check_not_tiny, variances
from ewsg_jax.base.typing import Array, Key, P
from ewsg_jax.draws.ensemble import Ensemble
from ewsg_jax.kernels.protocol import Origin, are_others
from ewsg_jax.vectors.layout import Layout


class Mode(NamedTuple, Generic[P]):
    """A mode of the posterior, or the point at which the search for one ended.

    Its covariance, standard deviations, starts and inverse mass are those of the normal
    approximation N(mode, (∇²V)⁻¹) at temperature 1, and as good as the posterior is normal.

    Attributes:
        position: the point, a pytree like the start.
        converged: whether the distance is at most the tolerance, ∇²V positive definite and the
            potential a parabola on the way from there to the mode, and a little way along its
            weakest direction.
        distance: √(∇Vᵀ (∇²V)⁻¹ ∇V) at the point: how many posterior standard deviations (at
            temperature 1) the mode is away; infinite if ∇²V is not positive definite, or if there
            seems to be no mode. In more than 1,000 dimensions it comes from products of ∇²V with
            vectors, and includes the error that their residual leaves.
        potential: V at the point, with the constants of prior and likelihood, as
            `Posterior.potential` has it.
        gradient_norm: ‖∇V‖ at the point.
        num_steps: steps of L-BFGS and of Newton's method.
        data_passes: passes over the data that the whole search cost: one for each gradient and for
            each product of ∇²V with a vector. If rows enter through linear predictors, all of ∇²V
            comes with a gradient.
        curvature: ∇²V at the point, factorised: a matrix up to 1,000 dimensions, above that its
            directions of largest curvature (`rank` of `find_mode`); None if these were not asked
            for.
        origin: what stands for the rows and the likelihood that it is a mode of, as digests; those
            of other rows are refused by `plan` and `forecast`.
    """

    position: P
    converged: bool
    distance: float
    potential: float
    gradient_norm: float
    num_steps: int
    data_passes: float
    curvature: Curvature | CurvatureOfMany | None = None
    origin: Origin = Origin()

    @property
    def covariance(self) -> np.ndarray | LowRank:
        """(∇²V)⁻¹ over the d parameters of the position in `ravel_pytree` order.

        A matrix (d, d) in float64 up to 1,000 dimensions; above that a `dynamics.LowRank`, in which
        all directions but those of largest curvature have one standard deviation, in units of the
        coordinates.

        Raises:
            ValueError: ∇²V is not positive definite there, or was not computed.
        """
        curvature = self._checked_curvature()
        if isinstance(curvature, CurvatureOfMany):
            return curvature.covariance
        assert curvature.inverse is not None
        return curvature.inverse / curvature.scale / curvature.scale[:, None]

    @property
    def sd(self) -> P:
        """Standard deviations of the coordinates, a pytree like the position.

        Raises:
            ValueError: as `covariance`.
        """
        return self._tree(np.sqrt(variances(self.covariance)))

    @property
    def inverse_mass(self) -> Array | LowRank:
        """`covariance` as a kernel's `inverse_mass=` takes it, in the position's precision.

        Raises:
            ValueError: as `covariance`; or a variance is too small for that precision.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> model, data = ewsg.models.gaussian_location(), jnp.array([[1.0], [3.0]])
            >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
            >>> kernel = ewsg.ld(
            ...     model, 0.1, inverse_mass=mode.inverse_mass
            ... )  # a tenth of the widths squared
        """
        dtype = jnp.result_type(float, *(x.dtype for x in jax.tree.leaves(self.position)))
        check_not_tiny(variances(self.covariance), "mode must have variances")
        return pytrees.placed(self.covariance, dtype)

    @property
    def start(self) -> Start[P]:
        """Draws from around the mode, a function of a key: `ewsg_jax.sample(key, kernel,
        mode.start, …)` starts so.

        They have 1.5 times the standard deviations of the posterior, so that R-hat shows chains
        that do not mix; those of `mode.start(key, width)` have `width` times as large ones.

        Raises:
            ValueError: as `covariance`.
        """
        return Start(self.position, self.inverse_mass)

    def draws(self, key: Key, num_draws: int) -> Ensemble[P]:
        """Return draws of the normal approximation N(mode, (∇²V)⁻¹), leading axes (1, draw).

        They predict as samples do. `ewsg_jax.check(key, mode.draws(…).draws, posterior, data)`
        judges them.

        Args:
            key: a typed PRNG key.
            num_draws: how many.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value; or as `covariance`.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> model, data = ewsg.models.gaussian_location(), jnp.array([[1.0], [3.0]])
            >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
            >>> mode.draws(jax.random.key(1), 100)
            Ensemble(num_chains=1, num_draws=100)
        """
        checks.integer("num_draws", num_draws)
        start = Start(self.position, self.inverse_mass, width=1.0)
        drawn = start.of_keys(rng.split(checks.key(key), (1, num_draws)))
        return Ensemble(jax.device_get(drawn))

    def check_origin(self, origin: Origin) -> None:
        """Check that this is a mode of these rows and this likelihood, as far as is known.

        Raises:
            ValueError: it is one of others.
        """
        for what, one, other in (
            ("rows of data", self.origin.rows, origin.rows),
            ("log_likelihood", self.origin.likelihood, origin.likelihood),
        ):
            if are_others(one, other):
                raise ValueError(
                    "mode must be one of this posterior and these data, in their order; got one of "
                    f"other {what}: find_mode(key, posterior, mode.position, data) finds theirs"
                )

    def _checked_curvature(self) -> Curvature | CurvatureOfMany:
        if self.curvature is None:
            raise ValueError(
                "mode must have its curvature for its widths; got one of more than 1,000 numbers "
                "that was searched for with rank=0, or is no mode"
            )
        if isinstance(self.curvature, Curvature) and self.curvature.inverse is None:
            raise ValueError(
                "mode must be one for its widths; got a point at which the potential is "
                f"{self.curvature.shape.value}"
            )
        return self.curvature

    def _tree(self, flat: np.ndarray) -> P:
        return jax.device_put(Layout.of(self.position).tree(flat))
