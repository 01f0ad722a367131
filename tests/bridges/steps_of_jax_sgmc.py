"""Steps of jax-sgmc with their batches and noise, which a test makes again with our kernels.

python -m venv jax-sgmc
jax-sgmc/bin/python -m pip install jax-sgmc==0.1.5 jax==0.4.25 jaxlib==0.4.25 "numpy<2" "scipy<1.13"
jax-sgmc/bin/python tests/bridges/steps_of_jax_sgmc.py > tests/bridges/steps_of_jax_sgmc.json
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax_sgmc import data, integrator, potential, scheduler
from jax_sgmc.data import numpy_loader

jax.config.update("jax_enable_x64", True)
ROWS, BATCH, STEPS = 6, 2, 4
STEP_SIZE, FRICTION, TEMPERATURE = 0.01, 3.0, 0.5
generator = np.random.default_rng(0)
X, Y = generator.normal(size=(ROWS, 2)), generator.normal(size=ROWS)
START = jnp.array([0.3, -0.2])


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights, row):
    return -0.5 * jnp.square(row["y"] - row["x"] @ weights)


def batches():
    loader = numpy_loader.DeviceNumpyDataLoader(x=X, y=Y)
    return data.random_reference_data(loader, 1, BATCH)


def potential_of(temperature=1.0):
    return potential.minibatch_potential(
        log_prior, log_likelihood, strategy="vmap", temperature=temperature
    )


def parameters(temperature=1.0):
    return scheduler.schedule(
        step_size=STEP_SIZE, temperature=temperature, burn_in=1.0, accept=True
    )


def batch_of(get, data_state):
    """The next batch, as a loader of ours yields it, and the state after it."""
    data_state, (rows, _) = get(data_state, information=True)
    return {name: np.asarray(value).tolist() for name, value in rows.items()}, data_state


def langevin(target, schedule):
    """Steps, each a batch, the noise and the position after it."""
    drawn = batches()
    init, update, _ = integrator.langevin_diffusion(target, drawn)
    state, steps = init(START, key=jax.random.PRNGKey(1)), []
    for _ in range(STEPS):
        batch, _ = batch_of(drawn[1], state.data_state)
        noise = integrator.random_tree(jax.random.split(state.key)[1], START)
        state = update(state, schedule)
        steps.append([batch, noise.tolist(), state.latent_variables.tolist()])
    return steps


def leapfrog():
    """One call of several steps, whose momentum is drawn first."""
    drawn = batches()
    init, update, _ = integrator.friction_leapfrog(
        potential_of(), drawn, steps=STEPS, friction=FRICTION
    )
    state = init(START, key=jax.random.PRNGKey(1))
    key, split = jax.random.split(state.key)
    first = integrator.random_tree(split, START)
    data_state, steps = state.data_state, []
    for _ in range(STEPS):
        batch, data_state = batch_of(drawn[1], data_state)
        key, split = jax.random.split(key)
        steps.append([batch, integrator.random_tree(split, START).tolist()])
    state = update(state, parameters())
    ends = {"position": state.positions.tolist(), "momentum_after": state.momentum.tolist()}
    return {"momentum": first.tolist(), "steps": steps} | ends


print(
    json.dumps(
        {
            "rows": ROWS,
            "start": START.tolist(),
            "step_size": STEP_SIZE,
            "friction": FRICTION,
            "temperature": TEMPERATURE,
            "sgld": langevin(potential_of(), parameters()),
            "sgld at a temperature": langevin(potential_of(), parameters(TEMPERATURE)),
            "potential at a temperature": langevin(potential_of(TEMPERATURE), parameters()),
            "sghmc": leapfrog(),
        }
    )
)
