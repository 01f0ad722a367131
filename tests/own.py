"""Parts as users write them, from public names alone, for tests of what is said of such parts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg


class State(NamedTuple):
    """A position and the step."""

    position: Any
    step: jax.Array


class MomentumState(NamedTuple):
    """A position, a momentum and the step."""

    position: Any
    momentum: Any
    step: jax.Array


@ewsg.module
class Plain(ewsg.dynamics.Dynamics):
    """θ' = θ − h g + √(2hT) ξ."""

    step_size: Any
    temperature: Any

    def init(self, key, position):
        return State(position, jnp.int32(0))

    def apply(self, noise, prepared, estimate, gradient_at):
        h, t = self.step_size(prepared.step), self.temperature(prepared.step)
        moved = prepared.position - h * self.force(estimate.gradient) + jnp.sqrt(2 * h * t) * noise
        return State(moved, prepared.step + 1)

    def force(self, g):
        return g


@ewsg.module
class Momentum(ewsg.dynamics.Dynamics):
    """p' = (1 − γh) p − h g + √(2γhT) ξ₁, θ' = θ + h p' − hα g + √(2hαT) ξ₂ (HFHR, Li, Zha &
    Tao 2022).
    """

    step_size: Any
    temperature: Any
    friction: Any
    alpha: float

    def init(self, key, position):
        return MomentumState(position, jnp.zeros_like(position), jnp.int32(0))

    def draw(self, key, state):
        keys = jax.random.split(key)
        return tuple(jax.random.normal(each, state.position.shape) for each in keys)

    def apply(self, noise, prepared, estimate, gradient_at):
        s = prepared.step
        h, t, c = self.step_size(s), self.temperature(s), self.friction(s)
        a, g = self.alpha, estimate.gradient
        p = (1 - c * h) * prepared.momentum - h * g + jnp.sqrt(2 * c * h * t) * noise[0]
        x = prepared.position + h * p - h * a * g + jnp.sqrt(2 * a * h * t) * noise[1]
        return MomentumState(x, p, s + 1)


@ewsg.module
class Averaged(ewsg.gradients.OfRows):
    """The mean of this step's gradient and the last one's."""

    def init(self, key, position, data):
        return jax.tree.map(jnp.zeros_like, position)

    def propose(self, randomness, memory, point, data, weight):
        batch = ewsg.rows.fetched(randomness, data)
        new = self.posterior.gradient_on(point, data, batch)
        mean = jax.tree.map(lambda a, b: (a + b) / 2, new, memory)
        return ewsg.gradients.Estimate(mean, batch), new

    def commit(self, update, memory):
        return update

    def evaluations(self, data):
        return ewsg.gradients.Evaluations(self.batch_size, self.batch_size)


def plain(step_size, cls=Plain, **fields):
    """A dynamics of one's own without a momentum."""
    return cls(**ewsg.hyperparameters(step_size=step_size, temperature=1.0), **fields)


def momentum(step_size, friction, alpha=0.0):
    """One with a momentum; without α that of `semi_implicit`."""
    numbers = ewsg.hyperparameters(step_size=step_size, temperature=1.0, friction=friction)
    return Momentum(**numbers, alpha=alpha)


def of_rows(cls, posterior, batch_size=5, law=None, **fields):
    """An estimator of one's own."""
    law = ewsg.rows.row_law(batch_size, True, "random") if law is None else law
    return cls(posterior=posterior, law=law, **fields)
