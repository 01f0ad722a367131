"""Steps of SGMCMCJax on all rows, with their noise, which a test makes again with our kernels.

python -m venv sgmcmcjax
sgmcmcjax/bin/python -m pip install sgmcmcjax==0.2.13
sgmcmcjax/bin/python tests/bridges/steps_of_sgmcmcjax.py > tests/bridges/steps_of_sgmcmcjax.json
"""

import json
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np

# A module that JAX has removed, for its progress bar.
sys.modules["jax.experimental.host_callback"] = types.ModuleType("host_callback")
jax.experimental.host_callback = sys.modules["jax.experimental.host_callback"]

from sgmcmcjax import diffusions, kernels  # noqa: E402

jax.config.update("jax_enable_x64", True)
ROWS, STEPS = 6, 4
DT, ALPHA, EPS, GAMMA, TAU = 0.01, 0.1, 0.2, 3.0, 0.5
generator = np.random.default_rng(0)
X, Y = generator.normal(size=(ROWS, 2)), generator.normal(size=ROWS)
START = jnp.array([0.3, -0.2])
noises = []


def normal(key, shape):
    """Draw noise, and keep it."""
    noises.append(jax.random.normal(key, shape))
    return noises[-1]


diffusions.random = types.SimpleNamespace(normal=normal, split=jax.random.split)


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def flat(weights):
    return 0.0 * jnp.sum(weights)


def log_likelihood(weights, x, y):
    return -0.5 * jnp.square(y - x @ weights)


def steps(build, *arguments, prior=log_prior, calls=STEPS, **options):
    """All noise in the order in which it was drawn, and the leaves of the last state."""
    noises.clear()
    init, kernel, _ = build(*arguments, log_likelihood, prior, (X, Y), ROWS, **options)
    state = init(jax.random.PRNGKey(0), START)
    # The gradient of its start is that of rows drawn with replacement.
    full = jax.grad(lambda w: prior(w) + jnp.sum(jax.vmap(log_likelihood, (None, 0, 0))(w, X, Y)))
    state = state._replace(param_grad=full(START))
    with jax.disable_jit():
        for number, key in enumerate(jax.random.split(jax.random.PRNGKey(1), calls)):
            state = kernel(number, key, state)
    (leaves,) = state.diffusion_state[0]
    return {
        "noise": [noise.tolist() for noise in noises],
        "state": [np.asarray(leaf).tolist() for leaf in leaves],
    }


def sghmc(dt, *model, **options):
    return kernels.build_sghmc_kernel(dt, STEPS, *model, **options)


def baoab(dt, log_likelihood, log_prior, data, batch_size):
    """Return what build_baoab_kernel means: it takes the second half of a step for both, so that
    positions do not move.
    """
    gradient = kernels.build_grad_log_post(log_likelihood, log_prior, data)
    estimated = kernels.build_gradient_estimation_fn(gradient, data, batch_size)
    return kernels._build_langevin_kernel(*diffusions.baoab(dt, GAMMA, TAU), *estimated)


print(
    json.dumps(
        {
            "x": X.tolist(),
            "y": Y.tolist(),
            "start": START.tolist(),
            "dt": DT,
            "alpha": ALPHA,
            "eps": EPS,
            "gamma": GAMMA,
            "tau": TAU,
            "sgld": steps(kernels.build_sgld_kernel, DT),
            "psgld": steps(kernels.build_psgld_kernel, DT, prior=flat, alpha=0.9, eps=EPS),
            "sghmc": steps(sghmc, DT, calls=1, alpha=ALPHA),
            "sgnht": steps(kernels.build_sgnht_kernel, DT, a=ALPHA),
            "baoab": steps(baoab, DT),
        }
    )
)
