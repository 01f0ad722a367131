"""What may be run: any of these dynamics with any of these estimators, and rows drawn in either
way.
"""

from collections.abc import Collection
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp

from ewsg_jax import dynamics, gradients
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import checks
from ewsg_jax.base.typing import Data
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.kernels.pair import Pair, kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.kernels.record import METHODS, Method
from ewsg_jax.methods.underdamped import Integrator, underdamped
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import view

DYNAMICS = ("splitting", "langevin", "semi_implicit", "exact", "BAOAB")
"""Whose law near a mode is linear, each direction of the mass by itself. Not ABOBA, exact there: on
tails it is off at large steps, which nothing here shows; BAOAB is not."""
ESTIMATORS = ("full", "control_variate", "svrg", "saga", "uniform")
"""Without weights, whose noise is that of rows at a distance from where they are anchored."""
RowsBy = Literal["all", "random", "leverage"]


class Way(NamedTuple):
    """A dynamics, an estimator and how rows are drawn.

    Attributes:
        dynamics: by name.
        estimator: by name.
        rows: all, at random or by leverage.
    """

    dynamics: str
    estimator: str
    rows: RowsBy

    @property
    def has_friction(self) -> bool:
        """Whether it has a momentum."""
        return self.dynamics != "langevin"

    def dynamics_of(self, step_size: Any, friction: Any, inverse_mass: Any = 1.0) -> Dynamics:
        """Return the dynamics."""
        if not self.has_friction:
            return dynamics.langevin(step_size, inverse_mass=inverse_mass)
        return underdamped(
            cast(Integrator, self.dynamics), step_size, friction, inverse_mass=inverse_mass
        )

    def estimator_of(
        self, posterior: Posterior, batch_size: int, frame: Frame, rows: Rows
    ) -> GradientEstimator:
        """Return the estimator."""
        if self.estimator == "full":
            return gradients.full(posterior)
        if self.estimator not in ESTIMATORS:
            return _of_method(METHODS[self.estimator], posterior, batch_size)
        options = {"center": frame.center} if self.estimator == "control_variate" else {}
        return getattr(gradients, self.estimator)(
            posterior, batch_size=batch_size, rows=rows, **options
        )

    def kernel_of(
        self,
        posterior: Posterior,
        step_size: float,
        friction: float,
        batch_size: int,
        frame: Frame,
        rows: Rows,
    ) -> Kernel:
        """Return the kernel."""
        return kernel(
            self.dynamics_of(step_size, friction, frame.inverse_mass),
            self.estimator_of(posterior, batch_size, frame, rows),
        )

    def __str__(self) -> str:
        return f"{self.dynamics} + {self.estimator}" + (
            ", by leverage" if self.rows == "leverage" else ""
        )


def ways(
    posterior: Posterior, methods: Collection[str] | None, by_leverage: bool = True
) -> list[Way]:
    """Return all ways that a posterior allows, or those of the methods that are named; by leverage
    or without.

    Raises:
        ValueError: a name is none, or that of a method which cannot be planned.
    """
    found = []
    for pair in _pairs(methods):
        if pair[1] == "full":
            found.append(Way(*pair, "all"))
            continue
        found.append(Way(*pair, "random"))
        takes_leverage = pair[1] in ESTIMATORS and pair[1] != "saga"
        if by_leverage and posterior.predictor is not None and takes_leverage:
            found.append(Way(*pair, "leverage"))
    return found


def plannable() -> list[str]:
    """Return the names of the methods that are among the ways."""
    return [
        name
        for name, method in METHODS.items()
        if (method.estimator in ESTIMATORS or _is_custom(method))
        and set(method.dynamics) & set(DYNAMICS)
    ]


def _pairs(methods: Collection[str] | None) -> list[tuple[str, str]]:
    every = [(d, e) for d in DYNAMICS for e in ESTIMATORS]
    if methods is None:
        return every
    named = set()
    custom = []
    for name in methods:
        method = METHODS[name]
        if method.estimator not in ESTIMATORS and _is_custom(method):
            custom += [(d, name) for d in method.dynamics if d in DYNAMICS]
        named |= {(d, method.estimator) for d in method.dynamics}
    return [pair for pair in every if pair in named] + custom


def _is_custom(method: Method) -> bool:
    """Return whether a method is a user's, whose estimator may say its noise (`noise_model`)."""
    return not method.build.__module__.startswith("ewsg_jax.")


def _of_method(method: Method, posterior: Posterior, batch_size: int) -> GradientEstimator:
    """Return the estimator of a user's method."""
    built = method.build(posterior, 1.0, **{**method.example, "batch_size": batch_size})
    if not isinstance(built, Pair):
        raise ValueError(
            f"methods must name kernels of a dynamics and an estimator; got {method.name!r}"
        )
    return built.estimator


def bytes_kept(kernel: Kernel, frame: Frame, data: Data) -> int:
    """Return how many bytes a chain's state takes."""
    rows = checks.shapes(view(data).tree)
    state = jax.eval_shape(
        lambda key, rows: kernel.init(key, frame.center, rows), jax.random.key(0), rows
    )
    kept = [x for x in jax.tree.leaves(state) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    return sum(x.size * x.dtype.itemsize for x in kept)
