"""HAMCMC with a matrix for each block of the position, against block-diagonal NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import ewsg_jax as ewsg
from benchmarks.papers.blockwise import blockwise
from ewsg_jax import Randomness
from tests.oracles import quasi_newton as oracle
from tests.parts import altered

SIZES, M, LAM, GAMMA, THRESHOLD, H, T = (2, 3), 3, 0.3, 0.4, 0.05, 0.02, 1.3
D, STEPS = sum(SIZES), 20
RNG = np.random.default_rng(2)
START, NOISE = RNG.normal(size=D), RNG.normal(size=(STEPS, D))
BENT = np.diag([2.0, 1.0, 3.0, 0.5, 1.5]) + RNG.normal(size=(D, D))
"""Not symmetric, so that some blocks of some pairs have no curvature."""
PLACES = np.split(np.arange(D), np.cumsum(SIZES)[:-1])


class Chain(oracle.Chain):
    """The oracle whose S has a block for each block, from its own parts of the pairs."""

    left_out = 0

    def factor(self):
        parts = []
        for place in PLACES:
            used = []
            for i in range(self.t + 2 - self.M, self.t + 1):
                if i in self.pairs:
                    s, y = (x[place] for x in self.pairs[i])
                    if s @ y > self.threshold * np.linalg.norm(s) * np.linalg.norm(y):
                        used.append((s, y))
                    else:
                        self.left_out += 1
            parts.append(oracle.factor(used, self.gamma, len(place)))
        return scipy.linalg.block_diag(*parts)


def tree(vector):
    first, second = (jnp.asarray(vector[place]) for place in PLACES)
    return {"a": first, "b": {"c": second}}


def flat(position):
    return jnp.concatenate([position["a"], position["b"]["c"]])


def kernel_of(form=blockwise):
    posterior = ewsg.Posterior(lambda p, x: -0.5 * jnp.sum((flat(p) - x) ** 2), lambda p: 0.0)
    full = ewsg.gradients.full(posterior)
    force = lambda p: tree(jnp.asarray(BENT) @ flat(p))
    bent = altered(
        full,
        propose=lambda r, memory, point, data, weight: (
            ewsg.gradients.Estimate(force(point), ()),
            (),
        ),
        gradient_at=lambda estimate, position, data: force(position),
    )
    made = ewsg.dynamics.quasi_newton(
        H,
        memory_size=M,
        trust_region=LAM,
        initial_scale=GAMMA,
        curvature_threshold=THRESHOLD,
        temperature=T,
    )
    return ewsg.kernel(form(made), bent)


def trajectory(kernel):
    data = jnp.zeros((4, D))
    state = kernel.init(jax.random.key(0), tree(START), data)
    transition = jax.jit(kernel.transition)
    found = []
    for noise in NOISE:
        state, _ = transition(Randomness((), tree(noise)), state, data)
        found.append(flat(state.position))
    return state, np.array(found)


def test_steps_are_those_of_an_oracle_with_a_matrix_for_each_block(x64):
    state, found = trajectory(kernel_of())
    chain = Chain(START, M, LAM, GAMMA, THRESHOLD, T)
    expected = [chain.move(H, lambda p: BENT @ p, noise) for noise in NOISE]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert [block.usable.shape for block in state.dynamics.blocks] == [(M - 1,)] * len(SIZES)
    assert chain.left_out > 0, "some blocks' pairs are left out, others' of the same step are not"
    assert np.abs(trajectory(kernel_of(lambda whole: whole))[1] - found).max() > 1e-3, (
        "one matrix is another chain"
    )


def test_one_leaf_is_the_whole(x64):
    """Bit for bit the same chain."""
    model, data = ewsg.models.gaussian_location(), jnp.asarray(RNG.normal(size=(30, 3)))
    runs = []
    whole = ewsg.hamcmc(model, 0.01, batch_size=5, initial_scale=0.1, memory_size=3)
    for kernel in (whole, ewsg.kernel(blockwise(whole.dynamics), whole.estimator)):
        state, step = kernel.init(jax.random.key(0), jnp.zeros(3), data), jax.jit(kernel.step)
        for key in jax.random.split(jax.random.key(1), 12):
            state, info = step(key, state, data)
        runs.append(state.position)
        assert int(info.gradient_evaluations) == 10
    np.testing.assert_array_equal(*runs)
    assert "blockwise(step_size=0.01" in repr(kernel)
