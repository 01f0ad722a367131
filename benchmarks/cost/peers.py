"""The same chains by other libraries.

Every library is given its own building blocks, the workload's functions and one new minibatch per
gradient. Read by interpreters with older versions of JAX too.
"""

import importlib
import importlib.metadata
import platform
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.cost.anchored_by_hand import REFRESH_EVERY
from benchmarks.cost.by_hand import by_hand
from benchmarks.cost.program import Chain, Program
from benchmarks.cost.settings import FRICTION, STEP_SIZE, Case, PyTree
from benchmarks.cost.workload import WORKLOADS, Workload

LEAPFROG_STEPS = 10
"""Steps between two refreshments of the momentum, for libraries whose SGHMC refreshes it."""


def blackjax(workload: Workload, method: str) -> Chain:
    """BlackJAX: its SGLD kernel, and its solver of the underdamped diffusion."""
    gradients = _module("blackjax.sgmcmc.gradients")
    sgld = _module("blackjax.sgmcmc.sgld").build_kernel()
    sghmc = _module("blackjax.sgmcmc.diffusions").sghmc(FRICTION)
    estimate = gradients.grad_estimator(
        workload.log_prior,
        lambda position, row: workload.log_likelihood(position, *row),
        workload.num_data,
    )
    step_size = STEP_SIZE[method]

    def draw(key: jax.Array, data: Any) -> Any:
        rows = jax.random.randint(key, (workload.batch_size,), 0, workload.num_data)
        return data["x"][rows], data["y"][rows]

    def step_sgld(key: jax.Array, position: PyTree, data: Any) -> PyTree:
        batch_key, noise_key = jax.random.split(key)
        return sgld(noise_key, position, estimate, draw(batch_key, data), step_size)

    def step_sghmc(key: jax.Array, state: Any, data: Any) -> Any:
        batch_key, noise_key = jax.random.split(key)
        gradient = estimate(state[0], draw(batch_key, data))
        return sghmc(noise_key, *state, gradient, step_size)

    if method == "sgld":
        return Chain(lambda key, position, data: position, step_sgld, lambda state, data: state)
    return Chain(
        lambda key, position, data: (position, jax.tree_util.tree_map(jnp.zeros_like, position)),
        step_sghmc,
        lambda state, data: state[0],
    )


def sgmcmcjax(workload: Workload, method: str) -> Chain:
    """SGMCMCJax, its kernels built inside the compiled function so that the data are an
    argument.
    """
    if method.startswith("svrg_ld"):
        return _sgmcmcjax_svrg(workload, numbered=method == "svrg_ld_numbered")
    kernels = _module("sgmcmcjax.kernels")
    h = STEP_SIZE[method]

    def build(data: Any) -> Any:
        common = (
            workload.log_likelihood,
            workload.log_prior,
            (data["x"], data["y"]),
            workload.batch_size,
        )
        if method == "sgld":
            return kernels.build_sgld_kernel(h, *common)
        return kernels.build_sghmc_kernel(h**2, LEAPFROG_STEPS, *common, alpha=FRICTION * h)

    return Chain(
        lambda key, position, data: build(data)[0](key, position),
        lambda key, state, data: build(data)[1](0, key, state),
        lambda state, data: build(data)[2](state),
        1 if method == "sgld" else LEAPFROG_STEPS,
    )


def _sgmcmcjax_svrg(workload: Workload, *, numbered: bool) -> Chain:
    """Return its SVRG with the number of the step from outside, or with a counter of each chain in
    its state.
    """

    def build(data: Any) -> Any:
        return _module("sgmcmcjax.kernels").build_sgld_SVRG_kernel(
            STEP_SIZE["sgld"],
            workload.log_likelihood,
            workload.log_prior,
            (data["x"], data["y"]),
            workload.batch_size,
            REFRESH_EVERY,
        )

    def init(key: jax.Array, position: PyTree, data: Any) -> Any:
        return jnp.int32(0), build(data)[0](key, position)

    def step(key: jax.Array, state: Any, data: Any, number: jax.Array | None = None) -> Any:
        counter, state = state
        return counter + 1, build(data)[1](counter if number is None else number, key, state)

    return Chain(init, step, lambda state, data: build(data)[2](state[1]), numbered=numbered)


def jax_sgmc(workload: Workload, method: str) -> Chain:
    """jax-sgmc: its integrators over its loader that keeps the data on the device."""
    integrator = _module("jax_sgmc.integrator")
    potentials = _module("jax_sgmc.potential")
    core = _module("jax_sgmc.data")
    loaders = _module("jax_sgmc.data.numpy_loader")
    schedule = _module("jax_sgmc.scheduler").schedule
    potential = potentials.minibatch_potential(
        workload.log_prior,
        lambda position, row: workload.log_likelihood(position, row["x"], row["y"]),
        strategy="vmap",
    )
    batches = core.random_reference_data(
        loaders.DeviceNumpyDataLoader(**workload.data()), 1, workload.batch_size
    )
    parameters = schedule(step_size=STEP_SIZE[method], temperature=1.0, burn_in=1.0, accept=True)
    if method == "sgld":
        init, update, _ = integrator.langevin_diffusion(potential, batches)
    else:
        init, update, _ = integrator.friction_leapfrog(
            potential, batches, steps=LEAPFROG_STEPS, friction=FRICTION
        )
    return Chain(
        lambda key, position, data: init(
            position, key=key, batch_kwargs={"key": jax.random.split(key)[0]}
        ),
        lambda key, state, data: update(state, parameters),  # it keeps its keys in the state
        lambda state, data: state.latent_variables if method == "sgld" else state.positions,
        1 if method == "sgld" else LEAPFROG_STEPS,
        holds_data=True,
    )


class Peer(NamedTuple):
    """What is compared.

    Attributes:
        build: makes its chains; None where `torch_peers` does.
        install: how it is installed.
        package: its name where packages are listed.
        module: what must import.
        shorten: divides the steps of its runs: how many times longer than the others' its steps
            are, about.
    """

    build: Callable[[Workload, str], Chain] | None
    install: str = ""
    package: str | None = None
    module: str | None = None
    shorten: int = 1


PEERS = {
    "blackjax": Peer(blackjax, "pip install 'blackjax>=1.2'", "blackjax", "blackjax.sgmcmc.sgld"),
    "sgmcmcjax": Peer(
        sgmcmcjax,
        "in an environment of its own, pip install sgmcmcjax==0.2.13 and the same JAX as here, "
        "then --peer-python sgmcmcjax=ENVIRONMENT/bin/python",
        "sgmcmcjax",
        "sgmcmcjax.kernels",
    ),
    "jax_sgmc": Peer(
        jax_sgmc,
        "in an environment of its own, of Python 3.11, pip install jax-sgmc==0.1.5 jax==0.4.25 "
        "jaxlib==0.4.25 'numpy<2', then --peer-python jax_sgmc=ENVIRONMENT/bin/python",
        "jax-sgmc",
        "jax_sgmc.integrator",
    ),
    "posteriors": Peer(
        None,
        "in an environment of its own, pip install posteriors==0.1.3 and torch for processors, "
        "then --peer-python posteriors=ENVIRONMENT/bin/python",
        shorten=50,
    ),
}
BY_HAND = {
    "by_hand": Peer(lambda workload, method: by_hand(workload, method, wide=False)),
    "by_hand_wide": Peer(lambda workload, method: by_hand(workload, method, wide=True)),
    "by_hand_shared": Peer(
        lambda workload, method: by_hand(workload, method, wide=False, shared=True)
    ),
}


def device_data(workload: str) -> Any:
    """Return a workload's data on the device."""
    return jax.block_until_ready(jax.tree_util.tree_map(jnp.asarray, WORKLOADS[workload]().data()))


def program(peer: str, case: Case, data: Any = None) -> Program:
    """Return the compiled program of a peer."""
    build = (PEERS | BY_HAND)[peer].build
    assert build is not None
    return Program(build, case, data)


def versions(peer: str) -> dict[str, str]:
    """Import what a peer needs and return the versions at work.

    Raises:
        ImportError: it is not installed here, or does not run on this JAX.
    """
    entry = (PEERS | BY_HAND)[peer]
    if entry.module is not None:
        _module(entry.module)
    packages = ["jax", "jaxlib", "numpy"] + ([entry.package] if entry.package else [])
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in packages
    }


def _module(name: str) -> Any:
    if name.startswith("sgmcmcjax") and "jax.experimental.host_callback" not in sys.modules:
        try:
            importlib.import_module("jax.experimental.host_callback")
        except ImportError:  # removed from JAX; only the library's progress bar needs it
            sys.modules["jax.experimental.host_callback"] = types.ModuleType("host_callback")
    return importlib.import_module(name)
