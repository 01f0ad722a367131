"""A dynamics in an optax loop makes the steps of the kernel, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ewsg_jax as ewsg

N, BATCH = 40, 8
DYNAMICS = {
    "langevin": lambda: ewsg.dynamics.langevin(1e-3, temperature=0.5),
    "semi_implicit": lambda: ewsg.dynamics.semi_implicit(
        lambda step: 1e-2 / (1 + step), friction=2.0
    ),
    "sgnht": lambda: ewsg.dynamics.thermostat(1e-2, friction=1.0),
    "psgld": lambda: ewsg.dynamics.preconditioned(1e-3),
    "adaptive": lambda: ewsg.dynamics.adaptive_mass(
        ewsg.dynamics.semi_implicit(1e-2, friction=1.0), burn_in=2, decay=0.5
    ),
    "in a metric": lambda: ewsg.dynamics.semi_implicit(
        1e-2, friction=1.0, inverse_mass={"b": np.ones(2), "w": np.full((3, 2), 0.25)}
    ),
}


def outputs(params, x):
    return jnp.tanh(x @ params["w"]) + params["b"]


# The mean of squares of psgld is of the likelihood's gradient alone, which needs the prior apart.
CASES = [(name, 0.5) for name in DYNAMICS] + [("sgnht", None)]


@pytest.mark.usual_parameters("sgnht-None", "adaptive-0.5", "semi_implicit-0.5")
@pytest.mark.parametrize(("name", "prior"), CASES)
def test_steps_are_those_of_the_kernel(name, prior):
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=(N, 3)), "y": rng.normal(size=(N, 2))}
        params = {"w": jnp.asarray(rng.normal(size=(3, 2))), "b": jnp.zeros(2)}
        model = ewsg.Posterior(
            lambda p, row: -0.5 * jnp.sum((row["y"] - outputs(p, row["x"])) ** 2),
            lambda p: -0.5 / 0.25 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p)),
        )
        dynamics, key = DYNAMICS[name](), jax.random.key(3)
        kernel = ewsg.kernel(dynamics, ewsg.gradients.uniform(model, batch_size=BATCH))
        chain = ewsg.networks.as_gradient_transformation(dynamics, N, key, prior=prior)

        def loss(params, batch):
            likelihood = 0.5 * jnp.sum((batch["y"] - outputs(params, batch["x"])) ** 2, axis=1)
            own = 0.0 if prior else -model.log_prior(params) / N
            return jnp.mean(likelihood) + own

        first, steps = jax.random.split(key)
        state, chain_state = kernel.init(first, params, data), chain.init(params)
        for step in range(4):
            step_key = jax.random.fold_in(steps, step)
            drawn = kernel.draw(step_key, state, data).batch
            batch = ewsg.rows.fetched(drawn, data).rows
            updates, chain_state = chain.update(jax.grad(loss)(params, batch), chain_state, params)
            params = optax.apply_updates(params, updates)
            state, _ = kernel.step(step_key, state, data)
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12),
                params,
                state.position,
            )


@pytest.mark.parametrize(
    ("dynamics", "why"),
    [
        (ewsg.dynamics.preconditioned(1e-3, correction=True, damping=1.0), "asks for another one"),
        (ewsg.dynamics.splitting_scheme("ABOBA", 1e-3, friction=1.0), "takes it at another point"),
        (ewsg.dynamics.noise_corrected(1e-3, friction=1.0), "needs the covariance of gradients"),
    ],
)
def test_what_needs_more_than_one_gradient_is_refused(dynamics, why):
    with pytest.raises(ValueError, match=f"dynamics must take one gradient a step.*{why}"):
        ewsg.networks.as_gradient_transformation(dynamics, 10, jax.random.key(0)).init(jnp.zeros(2))


def test_update_says_what_is_missing():
    langevin = ewsg.dynamics.langevin(1e-3)
    chain = ewsg.networks.as_gradient_transformation(langevin, 10, jax.random.key(0))
    state = chain.init(jnp.zeros(2))
    with pytest.raises(ValueError, match="params must be given to update"):
        chain.update(jnp.zeros(2), state)
    with pytest.raises(ValueError, match="gradients must be like params"):
        chain.update(jnp.zeros(3), state, jnp.zeros(2))


def test_a_prior_may_be_a_distribution_in_a_compiled_loop():
    class Normal:
        scale = 0.5

        def log_prob(self, x):
            return -0.5 * (x / self.scale) ** 2

    params, chains = jnp.arange(3.0), []
    for prior in (0.5, Normal()):
        chain = ewsg.networks.as_gradient_transformation(
            ewsg.dynamics.langevin(1e-3), 10, jax.random.key(0), prior=prior
        )
        updates, _ = jax.jit(chain.update)(jnp.ones(3), chain.init(params), params)
        chains.append(updates)
    np.testing.assert_allclose(*chains, rtol=1e-6)


@pytest.mark.full
def test_keys_under_vmap_make_chains():
    """Of V = 50 x²/2, from one start: each chain has its own noise, and each step."""

    def draws(key):
        dynamics = ewsg.dynamics.langevin(1e-3)
        chain = ewsg.networks.as_gradient_transformation(dynamics, 50, key)

        def step(carry, _):
            x, state = carry
            updates, state = chain.update(x, state, x)
            return (optax.apply_updates(x, updates), state), updates + 0.05 * x

        x = jnp.zeros(1)
        return jax.lax.scan(step, (x, chain.init(x)), length=50)[1]

    noise = np.ravel(jax.vmap(draws)(jax.random.split(jax.random.key(0), 20)))
    assert len(np.unique(noise.round(7))) > 990
    assert abs(np.mean(noise**2) / 2e-3 - 1) < 5 * np.sqrt(2 / 1000)  # five standard errors
