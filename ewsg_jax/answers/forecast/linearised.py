"""A kernel near a mode: its law, the noise at the law's points, and what both say together."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast import batches, stability, stationary
from ewsg_jax.answers.forecast.batches import Noise, anchor_ages, known
from ewsg_jax.answers.forecast.step import (
    MOVING,
    NUM_POINTS,
    AffineStep,
    Scheme,
    Weight,
    as_reported,
    maps,
    state_at,
    weight_terms,
)
from ewsg_jax.answers.forecast.target import Target
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base.optional import root_between
from ewsg_jax.base.typing import Data
from ewsg_jax.dynamics._mass import with_step_size, without_metric
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.gradients._covariance import Congruent, Covariance
from ewsg_jax.gradients._protocol import NoiseModel
from ewsg_jax.gradients._svrg import SVRG
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.layout import Layout, vector

MOST_EVALUATIONS = 2**20
"""∇Vᵢ that batches may take, at each round."""
MOST_POINTS, MOST_NUMBERS, MOST_LISTED = 2**14, 2**22, 64
"""Points at which batches are compared, and numbers of their gradients; batches that are evaluated
one by one.
"""
MOST_KEPT = 2**25
"""Numbers of gradients of all batches at the fewest points, for full weights."""
MOST_ROUNDS, SETTLED = 6, 0.01
"""Rounds of law and noise, and the relative change of a variance that ends them."""
SMALL = 1e-4
"""Part of a step at which there is no bias."""
CANDIDATES = 8
"""Batches at a point for each that an index chain visits."""


class Near:
    """A kernel near a mode, in coordinates y = D (θ − mode) with D² the diagonal of ∇²V."""

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

    def settled(self) -> tuple[np.ndarray | None, np.ndarray, Noise, bool]:
        """Return the law's covariance with A and noise there, and whether both have settled.

        The noise is that of points from the law, which is made by the noise.
        """
        d = self.d
        # From the target's own law on.
        rest = self.temperature * np.eye(len(self.scale))
        covariance = rest.copy()
        covariance[:d, :d] = self.target.covariance
        noise = Noise(np.zeros((d, d)), np.zeros(d), np.zeros((d, len(self.scale))))
        matrix, _ = self.linear(noise, covariance)
        change = np.inf
        # Noise depends on the law that it widens: both in turn, until they agree.
        for _ in range(MOST_ROUNDS):
            noise = self.noise(covariance, matrix, noise)
            found, matrix = self.law(noise, covariance)
            if found is None:
                return None, matrix, noise, True
            change = float(np.max(np.abs(np.diag(found) / np.diag(covariance) - 1)))
            covariance = found
            if change < SETTLED:
                break
        return covariance, matrix, noise, change < SETTLED

    def against_target(self, covariance: np.ndarray) -> np.ndarray:
        """Return P of the position where the target's covariance is I, shape (d, d)."""
        still = self.target.covariance
        # Dynamics that depend on where they are have a drift of their own: compared at a tiny step.
        if not self.is_linear:
            # A map that is averaged over draws has what these take for the target.
            slow = Constant(value=SMALL * self.step_size)
            kernel = dataclasses.replace(self.kernel, dynamics=with_step_size(self.dynamics, slow))
            near = Near(kernel, self.mode, self.curvature, self.data, self.step)
            near.noise_model = NoiseModel()
            found = near.settled()[0]
            still = self.target.covariance if found is None else found[: self.d, : self.d]
        inverse = np.linalg.inv(stationary.root(still))
        return inverse @ covariance[: self.d, : self.d] @ inverse

    def noise(self, covariance: np.ndarray, matrix: np.ndarray, before: Noise) -> Noise:
        """Return what batches add at points of the law."""
        model, estimator = self.noise_model, self.noise_model.measured_on
        if estimator is None:
            return before
        ages, length = anchor_ages(model), model.chain_length
        fewest = max(2 * len(self.scale) + 2, 64)
        # All batches where they are few enough to be listed, else two independent ones a point.
        # Full weights choose among all of them.
        is_full = length is not None and not np.isfinite(length)
        limit = MOST_KEPT // (fewest * self.d) if is_full else MOST_LISTED
        listed = 0
        if ages is None:
            listed = batches.num_listed(estimator, self.data, limit)
        if is_full and not listed:
            raise ValueError(
                f"kernel must have at most {limit:,} batches with chain_length=math.inf for a "
                f"forecast of {self.d} parameters; take a finite chain_length, or run it for some "
                "steps instead"
            )
        count = 2
        if length is not None:
            count = listed if is_full else CANDIDATES * (int(length) + 1)
        # As many points as evaluations, memory and the law's own numbers allow.
        evaluations = estimator.evaluations(self.data)
        each = evaluations.per_step * (max(MOST_LISTED, listed) if listed else count)
        most = min(MOST_EVALUATIONS // each, MOST_NUMBERS // (count * self.d), MOST_POINTS)
        points = max(most, fewest)
        wanted, then = self.linear_step(before).wanted, None
        # Points of the law; with an anchor, pairs of now and as long ago as its age.
        if ages is None:
            draws = stationary.normal(11, points, len(self.scale)) @ stationary.root(covariance)
        else:
            draws, then = stationary.pairs(matrix, covariance, ages, points)
        gradients = batches.estimates(
            estimator,
            self.mode.position,
            jnp.asarray(draws @ wanted.T / self.unit, jnp.float32),
            None if then is None else jnp.asarray(then @ wanted.T / self.unit, jnp.float32),
            None if listed else count,
            self.data,
        )
        slope = (self.hessian + self.target.seen(covariance).bend) @ wanted
        whole = np.asarray(gradients, float) / self.unit
        made = batches.noise_of(whole, draws, self.weight(before), length, slope, not listed)
        # Rows of SAGA have anchors of unlike ages: what single rows add to the mean of all.
        if model.anchor != "table":
            return made
        of_rows = wanted @ stationary.own_anchors(matrix, covariance, model.rate) @ wanted.T
        # A row has its own anchor in common with itself.
        assert isinstance(estimator, SVRG)
        share = (1 - 1 / num_rows(self.data)) / estimator.batch_size
        more = share * self.hessian @ of_rows @ self.hessian
        return made._replace(covariance=made.covariance + more)

    def weight(self, noise: Noise) -> Weight | None:
        """Return the log weight of exponential weights, None where there are none."""
        if self.noise_model.chain_length is None:
            return None
        # In float64: differences of exponents of float32 would be lost in their size.
        with jax.enable_x64(True):
            terms = weight_terms(self.scheme(noise, None), self.noise_model.frozen_noise)
            return Weight(*(np.asarray(term, float) for term in terms)).scaled(self.scale)

    def scheme(self, noise: Noise, thermostat: float | None) -> Scheme:
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

    def linear_step(self, noise: Noise) -> AffineStep:
        """Return the step at the mode."""
        return self.steps(noise, None, None)[0]

    def steps(
        self, noise: Noise, draws: np.ndarray | None, thermostat: float | None
    ) -> list[AffineStep]:
        """Return the step at the mode or at points of the law; once, where nothing changes it."""
        is_fixed = draws is None and not needs_covariance(self.dynamics)
        if is_fixed and thermostat in self.fixed_steps:
            # A linear step is the same everywhere, so it is worked out once.
            return self.fixed_steps[thermostat]
        points = np.zeros((1, len(self.scale) + self.d))
        if draws is not None:
            points = np.concatenate(
                [draws / self.scale, draws[:, : self.d] @ self.hessian * self.unit], axis=1
            )
        with jax.enable_x64(True):
            made = maps(self.scheme(noise, thermostat), points)
            parts = [np.asarray(part, float) for part in made]
        found = [AffineStep(*each).scaled(self.scale) for each in zip(*parts, strict=True)]
        if is_fixed:
            self.fixed_steps[thermostat] = found
        return found

    def linear(
        self, noise: Noise, covariance: np.ndarray, thermostat: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return A and Q, averaged over the law where the step depends on the position."""
        draws = None
        if not self.is_linear:
            draws = stationary.normal(
                13, max(NUM_POINTS, 2 * len(self.scale) + 2), len(self.scale)
            ) @ stationary.root(covariance)
        # The curvature that the law sees, which bends away from that at the mode.
        hessian = self.hessian + self.target.seen(covariance).bend
        matrices, noises = [], []
        for step in self.steps(noise, draws, thermostat):
            slope = hessian @ step.wanted + noise.force
            matrices.append(step.matrix + step.gradient @ slope)
            noises.append(
                step.noise @ step.noise.T + step.gradient @ noise.covariance @ step.gradient.T
            )
        return np.mean(matrices, axis=0), np.mean(noises, axis=0)

    def law(self, noise: Noise, covariance: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the stationary covariance, None where there is none, and A."""
        if "thermostat" not in self.state._fields:
            matrix, heat = self.linear(noise, covariance)
            return stationary.stationary(matrix, heat), matrix
        # The thermostat settles where the mean kinetic energy is that of the temperature.
        (still, heat), (damped, _) = (self.linear(noise, covariance, value) for value in (0.0, 1.0))

        def at(value: float) -> np.ndarray:
            return still + value * (damped - still)

        def excess(value: float) -> float:
            found = stationary.stationary(at(value), heat)
            return (
                np.inf
                if found is None
                else float(np.mean(np.diag(found)[self.d :])) - self.temperature
            )

        # From the given friction, which a thermostat has, on, doubled or halved until the kinetic
        # energy is between.
        low = high = float(self.dynamics.friction(jnp.int32(self.step)))  # type: ignore[attr-defined]
        while excess(high) > 0 and high < 1e6 * low:
            high *= 2
        while excess(low) < 0 and low > 1e-6 * high:
            low /= 2
        if not (np.isfinite(excess(low)) and excess(low) > 0 > excess(high)):
            return None, at(high)
        value = root_between(excess, low, high, 1e-6 * low)
        return stationary.stationary(at(value), heat), at(value)

    def mean_shift(self, covariance: np.ndarray, matrix: np.ndarray, noise: Noise) -> np.ndarray:
        """Return how far the mean of the law is from the target's."""
        # The mean moves by the bend of the force over the law, and by what weights prefer.
        slope = self.target.seen(covariance).mean - self.target.own.mean
        by_weights = np.linalg.solve(
            np.eye(len(matrix)) - matrix, self.linear_step(noise).gradient @ noise.shift
        )
        return by_weights[: self.d] - self.target.covariance @ slope / self.temperature

    def largest_step(self, noise: Noise) -> float:
        """Return the largest stable step, NaN where it depends on the position."""
        if not self.dynamics.translates:
            return np.nan
        heat, (plain, mass) = 0.0, without_metric(self.dynamics)
        given: Covariance | Congruent | None = getattr(plain, "covariance", None)
        matrix = self.unit[:, None] * noise.covariance * self.unit
        if given is not None:
            # A covariance that is given stands in place of the noise's own.
            plain = dataclasses.replace(plain, covariance=None)  # pyright: ignore[reportCallIssue]
            factor = given.covariance if isinstance(given, Congruent) else given
            matrix = np.asarray(self.layout.mapped(factor.times, jnp.eye(self.d)), float)
        if needs_covariance(plain):
            # The largest of it beside the largest curvature, though their directions may differ: on
            # the safe side.
            heat = stability.in_mass(mass, matrix, self.layout)
        return stability.largest_step(plain, self.step, self.target.steepest(mass), heat)
