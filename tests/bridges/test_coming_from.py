"""The tables of *coming from …*: steps of jax-sgmc and SGMCMCJax, made by our kernels in float64.

jax-sgmc takes an old JAX alone, and SGMCMCJax one with a module that is gone, so that batches,
noise and positions are stored; the files beside make them again.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

HERE = Path(__file__).parent
JAX_SGMC = json.loads((HERE / "steps_of_jax_sgmc.json").read_text())
H, GAMMA, TAU = (JAX_SGMC[name] for name in ("step_size", "friction", "temperature"))
SGMCMCJAX = json.loads((HERE / "steps_of_sgmcmcjax.json").read_text())
ALL_ROWS = {name: np.array(SGMCMCJAX[name]) for name in ("x", "y")}
START = np.array(JAX_SGMC["start"])


def steps_of(dynamics, batches, noises, position, prior_scale=1.0, **parts):
    """The state after each step, on given batches and with given noise; parts of the first too."""
    posterior = ewsg.models.linear_regression(prior_scale=prior_scale)
    kernel = ewsg.kernel(dynamics, ewsg.gradients.streamed(posterior, num_data=len(ALL_ROWS["y"])))
    state, states = kernel.init(jax.random.key(0), jnp.asarray(position), batches[0]), []
    parts = {name: jnp.asarray(value) for name, value in parts.items()}
    state = state._replace(dynamics=state.dynamics._replace(**parts))
    for batch, noise in zip(batches, noises, strict=True):
        noise = jnp.asarray(noise)
        state, _ = kernel.transition(ewsg.Randomness((), noise), state, batch)
        states.append(state.dynamics)
    return states


def batches_and_noises(steps):
    batches = [{name: np.array(value) for name, value in step[0].items()} for step in steps]
    return batches, [step[1] for step in steps]


@pytest.mark.parametrize(
    ("name", "step_size", "temperature"),
    [
        ("sgld", H, 1.0),
        ("sgld at a temperature", H, TAU),
        ("potential at a temperature", H / TAU, TAU),
    ],
)
def test_sgld_of_jax_sgmc(x64, name, step_size, temperature):
    dynamics, theirs = ewsg.dynamics.langevin(step_size, temperature=temperature), JAX_SGMC[name]
    states = steps_of(dynamics, *batches_and_noises(theirs), START)
    np.testing.assert_allclose(
        [state.position for state in states], [step[2] for step in theirs], rtol=1e-12
    )


def test_sghmc_of_jax_sgmc(x64):
    """Its gradient is at the new position, one drift ahead; its noise is that of T = γ."""
    theirs = JAX_SGMC["sghmc"]
    momentum = np.array(theirs["momentum"])
    dynamics = ewsg.dynamics.semi_implicit(H, friction=GAMMA, temperature=GAMMA)
    of_theirs = batches_and_noises(theirs["steps"])
    *_, before, last = steps_of(dynamics, *of_theirs, START + H * momentum, momentum=momentum)
    np.testing.assert_allclose(before.position, theirs["position"], rtol=1e-12)
    np.testing.assert_allclose(last.momentum, theirs["momentum_after"], rtol=1e-12)


DT, ALPHA = SGMCMCJAX["dt"], SGMCMCJAX["alpha"]
ROOT = DT**0.5
N = len(ALL_ROWS["y"])
OF_SGMCMCJAX = {
    "sgld": ewsg.dynamics.langevin(DT),
    "psgld": ewsg.dynamics.preconditioned(DT / (2 * N), decay=0.9, damping=SGMCMCJAX["eps"] / N),
    "sghmc": ewsg.dynamics.euler(ROOT, friction=ALPHA / ROOT),
    "sgnht": ewsg.dynamics.thermostat(ROOT, friction=ALPHA / ROOT),
    "baoab": ewsg.dynamics.splitting_scheme(
        "BAOAB", DT, friction=SGMCMCJAX["gamma"], temperature=SGMCMCJAX["tau"] ** 2
    ),
}


def kick(position):
    """What a momentum of BAOAB here is more than there: its last half kick is still to come."""
    return DT / 2 * ewsg.models.linear_regression().gradient(jnp.asarray(position), ALL_ROWS)


@pytest.mark.parametrize("name", OF_SGMCMCJAX)
def test_kernels_of_sgmcmcjax(x64, name):
    """Momenta are v = √dt p there, but for BAOAB; the mean of squares is that of the sum."""
    theirs, given, noises = SGMCMCJAX[name]["state"], {}, SGMCMCJAX[name]["noise"]
    if name in ("sghmc", "sgnht"):
        given["momentum"], *noises = noises
    if name == "sgnht":
        given["thermostat"] = ALPHA / ROOT
    if name == "baoab":
        given["momentum"] = kick(START)
    options = {"prior_scale": np.inf} if name == "psgld" else {}
    batches = [ALL_ROWS] * len(noises)
    last = steps_of(OF_SGMCMCJAX[name], batches, noises, START, **options, **given)[-1]
    units = {
        "psgld": ("mean_square", N**2),
        "sghmc": ("momentum", ROOT),
        "sgnht": ("momentum", ROOT),
        "baoab": ("momentum", 1.0),
    }
    np.testing.assert_allclose(last.position, theirs[0], rtol=1e-12)
    if name in units:
        field, unit = units[name]
        value = unit * getattr(last, field) - (kick(last.position) if name == "baoab" else 0.0)
        np.testing.assert_allclose(value, theirs[1], rtol=1e-12)
    if name == "sgnht":
        np.testing.assert_allclose(ROOT * last.thermostat, theirs[2], rtol=1e-12)
