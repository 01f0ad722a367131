"""What may be run (`Candidate`): a dynamics, an estimator and a scheme by which rows are drawn; and
what is predicted of it (`CandidateForecast`).
"""

from collections.abc import Collection
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp

from ewsg_jax import dynamics, gradients
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import checks, pytrees
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

PLANNED_DYNAMICS = ("splitting", "langevin", "semi_implicit", "exact", "BAOAB")
"""Those that can be planned: they are linear on a normal posterior, in each direction of the mass
by itself.
"""
UNBIASED_DYNAMICS = ("BAOAB",)
"""Those that are compared if no methods are named: with full gradients they are exact on a normal
posterior of any curvature. The others make each stiff direction a little too wide or too narrow,
and a scale that many effects share feels the product of these errors. They would save 3 % of the
cost at most after a warm-up, and for a posterior near normal 3 % in the median, 26 % at most
(`docs/plan_measured.md`). ABOBA is exact there as well, but biased at large steps if the tails are
not normal, which nothing here would show. BAOAB is not.
"""
PLANNED_ESTIMATORS = ("full", "control_variate", "svrg", "saga", "uniform")
"""Those without weights. Their noise is that of rows at a distance from a reference point."""
RowScheme = Literal["all", "random", "leverage"]


class Candidate(NamedTuple):
    """A dynamics, an estimator and a scheme of rows.

    Attributes:
        dynamics: its name.
        estimator: its name.
        rows: how rows are drawn: all, at random or by leverage.
    """

    dynamics: str
    estimator: str
    rows: RowScheme

    @property
    def has_friction(self) -> bool:
        """Whether the dynamics has a momentum."""
        return self.dynamics != "langevin"

    def make_dynamics(self, step_size: Any, friction: Any, inverse_mass: Any = 1.0) -> Dynamics:
        """Return the dynamics at a step size and a friction."""
        if not self.has_friction:
            return dynamics.langevin(step_size, inverse_mass=inverse_mass)
        return underdamped(
            cast(Integrator, self.dynamics), step_size, friction, inverse_mass=inverse_mass
        )

    def make_estimator(
        self, posterior: Posterior, batch_size: int, whitening: Whitening, rows: Rows
    ) -> GradientEstimator:
        """Return the estimator; control variates have the center of the whitening."""
        if self.estimator == "full":
            return gradients.full(posterior)
        if self.estimator not in PLANNED_ESTIMATORS:
            return _estimator_of_method(METHODS[self.estimator], posterior, batch_size)
        options = {"center": whitening.center} if self.estimator == "control_variate" else {}
        return getattr(gradients, self.estimator)(
            posterior, batch_size=batch_size, rows=rows, **options
        )

    def make_kernel(
        self,
        posterior: Posterior,
        *,
        step_size: float,
        friction: float,
        batch_size: int,
        whitening: Whitening,
        rows: Rows,
    ) -> Kernel:
        """Return the kernel, whose inverse mass is the covariance of the whitening."""
        return kernel(
            self.make_dynamics(step_size, friction, whitening.inverse_mass),
            self.make_estimator(posterior, batch_size, whitening, rows),
        )

    def __str__(self) -> str:
        return f"{self.dynamics} + {self.estimator}" + (
            ", by leverage" if self.rows == "leverage" else ""
        )


class CandidateForecast(NamedTuple):
    """What is predicted of a candidate at the batch and the step size at which it costs least.

    Attributes:
        candidate: the dynamics, the estimator and the scheme of rows.
        batch_size: rows of a step; 0 if nothing fits.
        step_size: in units in which the posterior has sd 1.
        friction: in the same units; 0 if the dynamics has none.
        sd_error: the largest relative error of a standard deviation; NaN if nothing fits.
        mean_error: the largest error of a mean, in standard deviations.
        time: autocorrelation time: steps of a chain that one effective draw takes.
        passes: passes over the data of all chains, for all effective draws that are required.
        cost: the same in rows, with what a step itself costs.
        why_not: why nothing fits, in words; empty if something does.
        seconds: the seconds of the run on this machine; NaN if no step was measured.
    """

    candidate: Candidate
    batch_size: int = 0
    step_size: float = float("nan")
    friction: float = float("nan")
    sd_error: float = float("nan")
    mean_error: float = float("nan")
    time: float = float("nan")
    passes: float = float("nan")
    cost: float = float("inf")
    why_not: str = ""
    seconds: float = float("nan")

    @property
    def way(self) -> Candidate:
        """The candidate, by its former name."""
        return self.candidate


def candidates_for(
    posterior: Posterior, methods: Collection[str] | None, by_leverage: bool = True
) -> list[Candidate]:
    """Return the candidates that a posterior allows.

    Args:
        posterior: the target.
        methods: names of the methods to which they are restricted; None for BAOAB with all
            estimators.
        by_leverage: whether rows may be drawn by leverage; False if they are on several devices.
    """
    candidates = []
    for dynamics_name, estimator in _pairs(methods):
        if estimator == "full":
            candidates.append(Candidate(dynamics_name, estimator, "all"))
            continue
        candidates.append(Candidate(dynamics_name, estimator, "random"))
        takes_leverage = estimator in PLANNED_ESTIMATORS and estimator != "saga"
        if by_leverage and posterior.predictor is not None and takes_leverage:
            candidates.append(Candidate(dynamics_name, estimator, "leverage"))
    return candidates


def plannable_methods() -> list[str]:
    """Return the names of the methods that are among the candidates."""
    return [
        name
        for name, method in METHODS.items()
        if (method.estimator in PLANNED_ESTIMATORS or _is_custom(method))
        and set(method.dynamics) & set(PLANNED_DYNAMICS)
    ]


def _pairs(methods: Collection[str] | None) -> list[tuple[str, str]]:
    """Return the names of dynamics and estimators: the unbiased dynamics, or those of some methods;
    a user's method stands for its estimator.
    """
    if methods is None:
        return [(d, e) for d in UNBIASED_DYNAMICS for e in PLANNED_ESTIMATORS]
    pairs = [(d, e) for d in PLANNED_DYNAMICS for e in PLANNED_ESTIMATORS]
    allowed, custom = set(), []
    for name in methods:
        method = METHODS[name]
        if method.estimator not in PLANNED_ESTIMATORS and _is_custom(method):
            custom += [(d, name) for d in method.dynamics if d in PLANNED_DYNAMICS]
        allowed |= {(d, method.estimator) for d in method.dynamics}
    return [pair for pair in pairs if pair in allowed] + custom


def _is_custom(method: Method) -> bool:
    """Return whether a method is a user's, whose estimator may say its noise (`noise_model`)."""
    return not method.build.__module__.startswith("ewsg_jax.")


def _estimator_of_method(
    method: Method, posterior: Posterior, batch_size: int
) -> GradientEstimator:
    """Return the estimator of a user's method."""
    built = method.build(posterior, 1.0, **{**method.example, "batch_size": batch_size})
    if not isinstance(built, Pair):
        raise ValueError(
            f"methods must name kernels of a dynamics and an estimator; got {method.name!r}"
        )
    return built.estimator


def state_bytes(kernel: Kernel, whitening: Whitening, data: Data) -> int:
    """Return how many bytes the state of a chain takes, its PRNG keys left out."""
    rows = checks.shapes(view(data).tree)
    state = jax.eval_shape(
        lambda key, rows: kernel.init(key, whitening.center, rows), jax.random.key(0), rows
    )
    leaves = [x for x in jax.tree.leaves(state) if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]
    return pytrees.num_bytes(leaves)
