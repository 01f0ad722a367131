"""A kernel linearised at a mode: its stationary distribution, and the noise of batches at points of
it.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast import batch_noise, settings, stability, stationary
from ewsg_jax.answers.forecast.batch_noise import BatchNoise, anchor_ages, known
from ewsg_jax.answers.forecast.dynamics_step import (
    MOVING,
    AffineStep,
    QuadraticWeight,
    Scheme,
    affine_maps,
    as_reported,
    state_at,
    weight_terms,
)
from ewsg_jax.answers.forecast.target import Target
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import limits
from ewsg_jax.base.compiling import in_float64
from ewsg_jax.base.optional import root_between
from ewsg_jax.base.typing import Array, Data
from ewsg_jax.dynamics._mass import with_step_size, without_metric
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.gradients._covariance import Congruent, Covariance
from ewsg_jax.gradients._protocol import GradientEstimator, NoiseModel
from ewsg_jax.gradients._svrg import SVRG
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.layout import Layout, vector


class LinearisedKernel:
    """A kernel near a mode, in coordinates y = D (θ − mode) with D² the diagonal of ∇²V.

    z is y, followed by the momentum if there is one.

    Args:
        kernel: the kernel.
        mode: the mode.
        curvature: ∇²V at the mode.
        data: the rows.
        step: the number of the step at which schedules are read.
    """

    def __init__(
        self, kernel: Pair, mode: Mode, curvature: Curvature, data: Data, step: int
    ) -> None:
        self.kernel, self.mode, self.data, self.step = kernel, mode, data, step
        self.dynamics, self.noise_model = kernel.dynamics, known(kernel.estimator, data)
        self.layout, self.curvature = Layout.of(mode.position), curvature
        temperature = getattr(self.dynamics, "temperature", Constant(value=1.0))
        self.temperature = float(temperature(jnp.int32(step)))
        self.fixed_steps: dict[float | None, list[AffineStep]] = {}
        self.target = Target(kernel.estimator.posterior, mode, curvature, self.temperature, data)
        # In units of curvature all directions are of one size, and matrices well conditioned.
        self.unit = self.target.unit
        self.hessian = self.target.hessian
        self.d = len(self.target.unit)
        self.step_size = float(self.dynamics.step_size(jnp.int32(step)))
        self.state = state_at(self.dynamics, mode.position, step, None)
        self.parts = len([name for name in MOVING if name in self.state._fields])
        self.scale = np.concatenate([self.unit, np.ones((self.parts - 1) * self.d)])
        self.is_linear = self.dynamics.translates

    def settled(self) -> tuple[np.ndarray | None, np.ndarray, BatchNoise, bool]:
        """Return the stationary covariance of z, A and the noise at it, and whether they converged.

        The covariance is None if there is no stationary distribution.
        """
        d = self.d
        # The first guess is the covariance of the target.
        covariance = self.temperature * np.eye(len(self.scale))
        covariance[:d, :d] = self.target.covariance
        noise = BatchNoise(np.zeros((d, d)), np.zeros(d), np.zeros((d, len(self.scale))))
        matrix, _ = self.linear(noise, covariance)
        change = np.inf
        # Noise depends on the distribution that it widens: both in turn, until they agree.
        for _ in range(6):
            noise = self.noise(covariance, matrix, noise)
            widened, matrix = self.stationary_covariance(noise, covariance)
            if widened is None:
                return None, matrix, noise, True
            change = float(np.max(np.abs(np.diag(widened) / np.diag(covariance) - 1)))
            covariance = widened
            if change < settings.CONVERGED_CHANGE:
                break
        return covariance, matrix, noise, change < settings.CONVERGED_CHANGE

    def against_target(self, covariance: np.ndarray) -> np.ndarray:
        """Return the covariance of the position in coordinates in which that of the target is I,
        shape (d, d).
        """
        target = self.target.covariance
        # A dynamics that depends on the position has a drift of its own, and its map is averaged
        # over draws: it is compared with itself at a tiny step without noise of batches.
        if not self.is_linear:
            tiny = Constant(value=settings.TINY_STEP * self.step_size)
            kernel = dataclasses.replace(self.kernel, dynamics=with_step_size(self.dynamics, tiny))
            unbiased = LinearisedKernel(kernel, self.mode, self.curvature, self.data, self.step)
            unbiased.noise_model = NoiseModel()
            reached = unbiased.settled()[0]
            target = self.target.covariance if reached is None else reached[: self.d, : self.d]
        inverse = np.linalg.inv(stationary.root(target))
        return inverse @ covariance[: self.d, : self.d] @ inverse

    def noise(self, covariance: np.ndarray, matrix: np.ndarray, before: BatchNoise) -> BatchNoise:
        """Return the noise of batches at points of a stationary distribution.

        Args:
            covariance: the covariance of z, shape (m, m).
            matrix: A, shape (m, m).
            before: the noise of the last round, by which weights are set.

        Raises:
            ValueError: full weights have too many batches to list.
        """
        model, estimator = self.noise_model, self.noise_model.measured_on
        if estimator is None:
            return before
        num_listed = self._num_listed(estimator)
        num_drawn = self._num_drawn(num_listed)
        num_points = self._num_points(estimator, num_listed, num_drawn)

        # Points z of the distribution; with an anchor that moves, each with the z at which the
        # anchor was set. Gradients are evaluated at W z.
        ages = anchor_ages(model)
        if ages is None:
            normals = stationary.normal(11, num_points, len(self.scale))
            points, at_anchors = normals @ stationary.root(covariance), None
        else:
            points, at_anchors = stationary.pairs(matrix, covariance, ages, num_points)
        wanted = self.step_at_mode(before).wanted

        def positions(z: np.ndarray) -> Array:
            return jnp.asarray(z @ wanted.T / self.unit, jnp.float32)

        gradients = batch_noise.estimates(
            estimator,
            self.mode.position,
            positions(points),
            None if at_anchors is None else positions(at_anchors),
            None if num_listed else num_drawn,
            self.data,
        )

        hessian = (self.hessian + self.target.averages(covariance).curvature_change) @ wanted
        scaled = np.asarray(gradients, float) / self.unit
        noise = batch_noise.noise_of(
            scaled, points, self.weight(before), model.chain_length, hessian, not num_listed
        )
        if model.anchor != "table":
            return noise
        # Rows of SAGA have anchors of different ages: what they add to the noise around their mean,
        # less what a row has in common with itself.
        of_rows = (
            wanted @ stationary.covariance_of_own_anchors(matrix, covariance, model.rate) @ wanted.T
        )
        assert isinstance(estimator, SVRG)
        share = (1 - 1 / num_rows(self.data)) / estimator.batch_size
        more = share * self.hessian @ of_rows @ self.hessian
        return noise._replace(covariance=noise.covariance + more)

    @property
    def _min_points(self) -> int:
        """The least number of points, of which a covariance of z can be estimated."""
        return max(2 * len(self.scale) + 2, settings.MIN_POINTS)

    def _num_listed(self, estimator: GradientEstimator) -> int:
        """Return the number of all batches if these are few enough to be listed, and are all
        evaluated at each point; 0 if batches are drawn.

        Raises:
            ValueError: full weights choose among all batches, and these are too many.
        """
        has_full_weights = self.noise_model.chain_length == np.inf
        limit = settings.MAX_LISTED_BATCHES
        if has_full_weights:
            limit = settings.MAX_FULL_WEIGHT_NUMBERS // (self._min_points * self.d)
        num_listed = 0
        # With anchors that move batches are drawn.
        if anchor_ages(self.noise_model) is None:
            num_listed = batch_noise.num_listed(estimator, self.data, limit)
        if has_full_weights and not num_listed:
            raise ValueError(
                f"kernel must have at most {limit:,} batches with chain_length=math.inf for a "
                f"forecast of {self.d} parameters; take a finite chain_length, or run it for some "
                "steps and check the draws instead"
            )
        return num_listed

    def _num_drawn(self, num_listed: int) -> int:
        """Return the number of batches at a point if they are drawn: two, whose difference shows
        the noise, or some for each that an index chain visits. Full weights take all that are
        listed.
        """
        length = self.noise_model.chain_length
        if length is None:
            return 2
        if length == np.inf:
            return num_listed
        return settings.CANDIDATES_PER_PROPOSAL * (int(length) + 1)

    def _num_points(self, estimator: GradientEstimator, num_listed: int, num_drawn: int) -> int:
        """Return the number of points: as many as evaluations and memory allow."""
        num_batches = max(settings.MAX_LISTED_BATCHES, num_listed) if num_listed else num_drawn
        evaluations = estimator.evaluations(self.data).per_step * num_batches
        most = min(
            settings.MAX_EVALUATIONS // evaluations,
            limits.NUMBERS_AT_ONCE // (num_drawn * self.d),
            2**14,
        )
        return max(most, self._min_points)

    def weight(self, noise: BatchNoise) -> QuadraticWeight | None:
        """Return the log weight of exponential weights, None without weights."""
        if self.noise_model.chain_length is None:
            return None
        # In float64: differences of exponents of float32 would be lost in their size.
        with in_float64():
            terms = weight_terms(self.scheme(noise, None), self.noise_model.frozen_noise)
            arrays = (np.asarray(term, float) for term in terms)
            return QuadraticWeight(*arrays).scaled(self.scale)

    def scheme(self, noise: BatchNoise, thermostat: float | None) -> Scheme:
        """Return the dynamics at the mode in float64, with what estimates report."""
        position = self.layout.tree(vector(self.mode.position), np.float64)
        covariance = ()
        if needs_covariance(self.dynamics):
            matrix = self.unit[:, None] * noise.covariance * self.unit
            covariance = as_reported(matrix, self.noise_model.structure or "dense")
        return Scheme(
            dynamics=self.dynamics,
            posterior=self.kernel.estimator.posterior,
            state=state_at(self.dynamics, position, self.step, thermostat),
            covariance=covariance,
            data=self.data,
        )

    def step_at_mode(self, noise: BatchNoise) -> AffineStep:
        """Return the step at the mode."""
        return self.steps(noise, None, None)[0]

    def steps(
        self, noise: BatchNoise, draws: np.ndarray | None, thermostat: float | None
    ) -> list[AffineStep]:
        """Return the step at each of some points.

        Args:
            noise: the noise of batches, which a dynamics may compensate for.
            draws: points z, shape (count, m); None for the mode.
            thermostat: the thermostat of the state; None for the first one.
        """
        is_fixed = draws is None and not needs_covariance(self.dynamics)
        if is_fixed and thermostat in self.fixed_steps:
            # A linear step is the same everywhere, so it is computed once.
            return self.fixed_steps[thermostat]
        points = np.zeros((1, len(self.scale) + self.d))
        if draws is not None:
            points = np.concatenate(
                [draws / self.scale, draws[:, : self.d] @ self.hessian * self.unit], axis=1
            )
        with in_float64():
            stacks = [
                np.asarray(stack, float)
                for stack in affine_maps(self.scheme(noise, thermostat), points)
            ]
        steps = [AffineStep(*m).scaled(self.scale) for m in zip(*stacks, strict=True)]
        if is_fixed:
            self.fixed_steps[thermostat] = steps
        return steps

    def linear(
        self, noise: BatchNoise, covariance: np.ndarray, thermostat: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return A and Q, averaged over the distribution if the step depends on the position."""
        draws = None
        if not self.is_linear:
            count = max(settings.MIN_POINTS, 2 * len(self.scale) + 2)
            draws = stationary.normal(13, count, len(self.scale)) @ stationary.root(covariance)
        hessian = self.hessian + self.target.averages(covariance).curvature_change
        matrices, noises = [], []
        for step in self.steps(noise, draws, thermostat):
            gradient = hessian @ step.wanted + noise.force
            matrices.append(step.matrix + step.gradient @ gradient)
            noises.append(
                step.noise @ step.noise.T + step.gradient @ noise.covariance @ step.gradient.T
            )
        return np.mean(matrices, axis=0), np.mean(noises, axis=0)

    def stationary_covariance(
        self, noise: BatchNoise, covariance: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the stationary covariance of z, None if there is none, and A."""
        if "thermostat" not in self.state._fields:
            matrix, added = self.linear(noise, covariance)
            return stationary.stationary(matrix, added), matrix
        # A thermostat settles at the value for which the mean kinetic energy is that of the
        # temperature.
        free, added = self.linear(noise, covariance, 0.0)
        damped, _ = self.linear(noise, covariance, 1.0)

        def at(value: float) -> np.ndarray:
            return free + value * (damped - free)

        def excess(value: float) -> float:
            reached = stationary.stationary(at(value), added)
            if reached is None:
                return np.inf
            return float(np.mean(np.diag(reached)[self.d :])) - self.temperature

        # From the friction of the dynamics, doubled and halved until the kinetic energies of both
        # values enclose that of the temperature. Only a dynamics with a friction has a thermostat.
        widest = 1e6
        low = high = float(self.dynamics.friction(jnp.int32(self.step)))  # type: ignore[attr-defined]
        while excess(high) > 0 and high < widest * low:
            high *= 2
        while excess(low) < 0 and low > high / widest:
            low /= 2
        if not (np.isfinite(excess(low)) and excess(low) > 0 > excess(high)):
            return None, at(high)
        value = root_between(excess, low, high, 1e-6 * low)
        return stationary.stationary(at(value), added), at(value)

    def mean_shift(
        self, covariance: np.ndarray, matrix: np.ndarray, noise: BatchNoise
    ) -> np.ndarray:
        """Return the stationary mean of the position less that of the target, shape (d,)."""
        # The mean moves with the average gradient over the distribution, and with what weights add.
        change = self.target.averages(covariance).gradient - self.target.at_target.gradient
        by_weights = np.linalg.solve(
            np.eye(len(matrix)) - matrix, self.step_at_mode(noise).gradient @ noise.shift
        )
        return by_weights[: self.d] - self.target.covariance @ change / self.temperature

    def largest_step(self, noise: BatchNoise) -> float:
        """Return the largest stable step, NaN if the step depends on the position."""
        if not self.dynamics.translates:
            return np.nan
        largest, (plain, mass) = 0.0, without_metric(self.dynamics)
        fixed: Covariance | Congruent | None = getattr(plain, "covariance", None)
        matrix = self.unit[:, None] * noise.covariance * self.unit
        if fixed is not None:
            # The dynamics uses this covariance instead of the one that estimates report.
            plain = dataclasses.replace(plain, covariance=None)  # pyright: ignore[reportCallIssue]
            factor = fixed.covariance if isinstance(fixed, Congruent) else fixed
            matrix = np.asarray(self.layout.mapped(factor.times, jnp.eye(self.d)), float)
        if needs_covariance(plain):
            # Together with the largest curvature, though their directions may differ: on the safe
            # side.
            largest = stability.in_mass(mass, matrix, self.layout)
        curvature = self.target.largest_curvature(mass)
        return stability.largest_step(plain, self.step, curvature, largest)
