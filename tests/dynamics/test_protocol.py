"""What every dynamics promises: tree and dtypes, step counter, `restart`, clear errors."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics import LangevinState
from tests.parts import altered

ARGUMENTS = {
    "langevin": {"temperature": 0.5},
    "euler": {"friction": 2.0, "temperature": 0.5},
    "semi_implicit": {"friction": 2.0, "temperature": 0.5},
    "splitting": {"friction": 2.0, "temperature": 0.5},
    "exact": {"friction": 2.0, "temperature": 0.5, "inverse_mass": 0.7},
    "splitting_scheme": {"letters": "ABOBA", "friction": 2.0, "temperature": 0.5},
}
DYNAMICS = tuple(ARGUMENTS)


def build(name, step_size=0.1, **changes):
    return getattr(ewsg.dynamics, name)(step_size=step_size, **(ARGUMENTS[name] | changes))


def log_likelihood(position, x):
    return -sum(jnp.sum((leaf - x) ** 2).astype(jnp.float32) for leaf in jax.tree.leaves(position))


POSTERIOR = ewsg.Posterior(log_likelihood, lambda position: 0.0)
DATA = np.array([0.5, -1.0, 2.0], np.float32)


def described(tree):
    """Structure, shapes and dtypes."""
    return jax.tree.structure(tree), [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]


def of_state(name, position, momentum, step=0):
    state = build(name).init(jax.random.key(0), position)._replace(step=jnp.int32(step))
    return state if name == "langevin" else state._replace(momentum=momentum)


def test_the_target_is_the_posterior_unless_a_temperature_is_given():
    """Of every dynamics and every method that takes one."""
    makers = [getattr(room, name) for room in (ewsg, ewsg.dynamics) for name in dir(room)]
    taken = {
        make.__name__: inspect.signature(make).parameters["temperature"].default
        for make in makers
        if inspect.isfunction(make) and "temperature" in inspect.signature(make).parameters
    }
    assert {*DYNAMICS, "sgld", "ewsg", "svrg_hmc", "nuts", "flymc"} <= set(taken)
    # A check is told by the samples; the quantity of a learning coefficient is at 1/ln n.
    assert taken.pop("check") is None
    assert taken.pop("learning_coefficient") is None
    assert set(taken.values()) == {1.0}


@pytest.mark.parametrize("name", DYNAMICS)
def test_a_chain_starts_where_it_is_told_with_no_momentum(name):
    start = {"a": jnp.array([1.0, 2.0])}
    state = build(name).init(jax.random.key(3), start)
    np.testing.assert_array_equal(state.position["a"], start["a"])
    if not isinstance(state, LangevinState):
        np.testing.assert_array_equal(state.momentum["a"], 0.0)


@pytest.mark.parametrize("name", DYNAMICS)
def test_noise_depends_on_the_key_alone_and_every_number_has_its_own(name):
    dynamics = build(name)
    position = {"a": jnp.zeros(64), "b": jnp.zeros(64)}
    first, elsewhere = (
        dynamics.draw(jax.random.key(7), of_state(name, x, x, step=step))
        for x, step in [(position, 0), (jax.tree.map(lambda leaf: leaf + 5.0, position), 9)]
    )
    jax.tree.map(np.testing.assert_array_equal, first, elsewhere)
    parts = jax.tree.leaves(first) + jax.tree.leaves(
        dynamics.draw(jax.random.key(8), of_state(name, position, position))
    )
    assert (
        len({x.tobytes() for x in map(np.asarray, parts)})
        == len(parts)
        == (8 if name == "exact" else 4)
    )


@pytest.mark.parametrize("name", DYNAMICS)
def test_restart_moves_the_evaluation_point_and_nothing_else(x64, name):
    dynamics = build(name, lambda step: 0.1 / (1.0 + step))
    tree = lambda seed: {"a": jax.random.normal(jax.random.key(seed), (3,)), "hole": None}
    state, target = of_state(name, tree(1), tree(2), step=4), tree(3)
    restarted = dynamics.with_evaluation_point(state, target)
    np.testing.assert_allclose(
        dynamics.evaluation_point(restarted)["a"], target["a"], rtol=1e-14, atol=1e-15
    )
    assert restarted.step == 4
    assert described(restarted) == described(state)
    if name != "langevin":
        np.testing.assert_array_equal(restarted.momentum["a"], state.momentum["a"])


@pytest.mark.parametrize("name", DYNAMICS)
def test_gradient_is_taken_at_the_position_or_in_the_middle_of_the_drift(x64, name):
    position, momentum = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    point = build(name, 0.2).evaluation_point(of_state(name, position, momentum))
    expected = position + 0.1 * momentum if name in ("splitting", "splitting_scheme") else position
    np.testing.assert_allclose(point, expected, rtol=1e-15)


@pytest.mark.parametrize("name", DYNAMICS)
def test_a_chain_whose_estimator_moves_the_point_goes_on_from_there(x64, name):
    dynamics, estimator = build(name), ewsg.gradients.full(POSTERIOR)
    target = jnp.array([0.3, -0.8])
    moving = altered(
        estimator, refresh=lambda randomness, memory, step, point, data: (memory, target, 5)
    )
    state = ewsg.kernel(dynamics, estimator).init(jax.random.key(0), jnp.array([1.0, 2.0]), DATA)
    state = state._replace(
        dynamics=of_state(name, jnp.array([1.0, 2.0]), jnp.array([-0.4, 0.9]), step=2)
    )
    randomness = ewsg.kernel(dynamics, moving).draw(jax.random.key(1), state, DATA)

    found, info = ewsg.kernel(dynamics, moving).transition(randomness, state, DATA)
    there = state._replace(dynamics=dynamics.with_evaluation_point(state.dynamics, target))
    expected, _ = ewsg.kernel(dynamics, estimator).transition(randomness, there, DATA)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), found, expected)
    assert info.gradient_evaluations == 3 + 5


@pytest.mark.full
def test_what_is_prepared_reaches_the_weight_and_the_move_and_probes_are_counted(x64):
    """A dynamics that shifts each estimate by ∇V₀ at the point and n, and that probes twice."""
    plain = build("langevin")
    posterior = ewsg.Posterior(log_likelihood, lambda position: -0.5 * jnp.sum(position**2))
    estimator = ewsg.gradients.exponentially_weighted(
        ewsg.gradients.uniform(posterior, batch_size=2)
    )
    seen = []

    def prepare(state, prior_gradient, data):
        return state, prior_gradient(state.position), len(data)

    def weight(prepared, estimate, frozen_noise):
        seen.append(prepared[2])
        return plain.log_weight(prepared[0], estimate, frozen_noise)

    def move(noise, prepared, estimate, probe):
        state, prior, n = prepared
        total = (
            estimate.gradient + n * prior + probe(state.position) + 10 * probe(state.position + 1)
        )
        return plain.apply(noise, state, estimate._replace(gradient=total), probe)

    probing = altered(plain, prepare=prepare, log_weight=weight, apply=move, extra_gradients=2)
    kernel = ewsg.kernel(probing, estimator)
    state = kernel.init(jax.random.key(0), jnp.array([1.0, 2.0]), DATA)
    randomness = kernel.draw(jax.random.key(1), state, DATA)
    found, info = kernel.transition(randomness, state, DATA)

    weight_of_plain = lambda estimate, frozen_noise="momentum": plain.log_weight(
        state.dynamics, estimate, frozen_noise
    )
    estimate, _ = estimator.propose(randomness.batch, (), state.position, DATA, weight_of_plain)
    rows = np.asarray(estimate.batch.indices)
    here, there = (
        np.asarray(posterior.prior_gradient(p) + posterior.batch_gradient(p, DATA, rows))
        for p in (state.position, state.position + 1)
    )
    total = 2 * here + 10 * there + len(DATA) * np.asarray(posterior.prior_gradient(state.position))
    expected = plain.apply(
        randomness.noise, state.dynamics, estimate._replace(gradient=total), None
    )
    np.testing.assert_allclose(found.position, expected.position, rtol=1e-13)
    assert set(seen) == {len(DATA)}
    assert info.gradient_evaluations == 2 * 2 + 2 * 2 == kernel.evaluations(DATA).per_step


@pytest.mark.parametrize("name", DYNAMICS)
def test_a_frozen_noise_that_the_dynamics_lacks_is_refused(name):
    batches = ewsg.gradients.uniform(POSTERIOR, batch_size=1)
    for frozen_noise in ("momentum", "zero", "one", "rest"):
        weighted = ewsg.gradients.exponentially_weighted(batches, frozen_noise=frozen_noise)
        if frozen_noise == "rest" and name in ("langevin", "exact"):
            with pytest.raises(ValueError, match=r"^frozen_noise of this dynamics must be one of"):
                ewsg.kernel(build(name), weighted)
        else:
            ewsg.kernel(build(name), weighted)


def test_a_point_of_ones_own_is_moved_there_with_the_position():
    """Half a step ahead of the position, which moves by as much as the point does."""
    dynamics = altered(build("langevin"), evaluation_point=lambda state: state.position + 0.5)
    state = dynamics.init(jax.random.key(0), jnp.array([1.0, 2.0]))
    moved = dynamics.with_evaluation_point(state, jnp.array([3.0, -1.0]))
    np.testing.assert_allclose(moved.position, [2.5, -1.5])
    np.testing.assert_allclose(dynamics.evaluation_point(moved), [3.0, -1.0])


D, COVARIANCE = ewsg.dynamics, np.array([[2.0, 0.3], [0.3, 1.0]])
EVERY = {
    "langevin": (D.langevin, {}),
    "riemannian": (D.riemannian, {"inverse_metric": lambda x, data: jnp.diag(1 + x**2)}),
    "preconditioned": (D.preconditioned, {}),
    "preconditioned-corrected": (D.preconditioned, {"correction": True, "damping": 0.1}),
    "euler": (D.euler, {}),
    "semi_implicit": (D.semi_implicit, {}),
    "thermostat": (D.thermostat, {}),
    "noise_corrected": (D.noise_corrected, {"covariance": COVARIANCE}),
    "noise_corrected-euler": (D.noise_corrected, {"covariance": COVARIANCE, "integrator": "euler"}),
    "noise_reduced": (D.noise_reduced, {"covariance": COVARIANCE}),
    "splitting": (D.splitting, {}),
    "exact": (D.exact, {}),
    "BAOAB": (D.splitting_scheme, {"letters": "BAOAB"}),
}
"""All whose numbers are read in every step; the last three have noise of one law alone."""
ONE_LAW = ("splitting", "exact", "BAOAB")


def with_numbers(name, h, gamma, T, **noise):
    make, options = EVERY[name]
    if "friction" in inspect.signature(make).parameters:
        options = options | {"friction": gamma}
    return make(step_size=h, temperature=T, **options, **noise)


@pytest.mark.usual_parameters("langevin", "euler", "noise_corrected-euler")
@pytest.mark.parametrize("name", EVERY)
def test_schedules_are_read_at_the_step_of_the_state(x64, name):
    """A step and its weight, of the frozen momentum, are those of the numbers at that step."""
    posterior = ewsg.Posterior(log_likelihood, lambda position: -0.5 * jnp.sum(position**2))
    estimator = ewsg.gradients.full(posterior)
    linear = optax.linear_schedule(init_value=0.1, end_value=0.05, transition_steps=4)
    scheduled = ewsg.kernel(
        with_numbers(
            name,
            lambda step: linear(jnp.asarray(step, float)),  # of an int32, optax makes a float32
            lambda step: 1.3 + step,
            lambda step: 0.6 * (1.0 + step),
        ),
        estimator,
    )
    start = scheduled.init(jax.random.key(0), jnp.array([0.4, -0.9]), DATA)
    start, _ = scheduled.step(jax.random.key(1), start, DATA)  # a momentum other than 0
    randomness = scheduled.draw(jax.random.key(2), start, DATA)
    for step, h in ((0, 0.1), (1, 0.0875), (3, 0.0625), (7, 0.05)):
        constant = ewsg.kernel(with_numbers(name, h, 1.3 + step, 0.6 * (1 + step)), estimator)
        state = start.at_step(jnp.int32(step))
        ends, weights = [], []
        for kernel, frozen in ((scheduled, ()), (constant, ("momentum",))):
            ends.append(kernel.transition(randomness, state, DATA))
            prepared = kernel.dynamics.prepare(state.dynamics, posterior.prior_gradient, DATA)
            if kernel.dynamics.frozen_noise:
                estimate = ewsg.gradients.Estimate(jnp.array([0.7, -0.2]), ())
                weights.append(kernel.dynamics.log_weight(prepared, estimate, *frozen))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), *ends)
        np.testing.assert_allclose(weights[:1], weights[1:], rtol=1e-12)
        assert float(ends[0][1].step_size) == pytest.approx(h, rel=1e-12)


@pytest.mark.usual_parameters("langevin", "semi_implicit")
@pytest.mark.parametrize("name", [name for name in EVERY if name not in ONE_LAW])
def test_noise_may_be_signs(name):
    made = with_numbers(name, 0.1, 1.3, 0.6, noise="rademacher")
    keys = jax.random.split(jax.random.key(0), 32)
    state = made.init(jax.random.key(0), jnp.zeros(2))
    drawn = jax.vmap(lambda key: made.draw(key, state))(keys)
    for part in jax.tree.leaves(drawn):
        assert set(part.ravel().tolist()) == {-1.0, 1.0}


FORCE = {"langevin": (1e-7, 100.0), "preconditioned": (1e-6, 2.0), "exact": (1e-4, 1e3)}
"""A step and a force that move by 10⁻⁵, less than half of what float32 tells apart at 1,000."""


@pytest.mark.full
@pytest.mark.parametrize("name", FORCE)
def test_a_small_force_is_not_rounded_away_far_from_the_origin(name):
    """On average over the noise, which is drawn as quantiles, in every order of its parts."""
    (h, force), count = FORCE[name], 2**14
    dynamics = with_numbers(name, h, 1.3, 0.5)
    quantiles = jax.scipy.special.ndtri((jnp.arange(count) + 0.5) / count)
    rng = np.random.default_rng(0)

    def mixed():
        return jnp.asarray(rng.permutation(quantiles))

    noise, momentum = ((mixed(), mixed()) if name == "exact" else mixed()), mixed()

    def mean_move(start):
        state = dynamics.init(jax.random.key(0), jnp.full(count, start))
        if hasattr(state, "momentum"):
            state = state._replace(momentum=momentum)
        data = jnp.zeros((1, 1))
        prepared = dynamics.prepare(state, jnp.zeros_like, data)
        estimate = ewsg.gradients.Estimate(jnp.full(count, force), ())
        moved = dynamics.apply(noise, prepared, estimate, None)
        return np.mean(np.asarray(moved.position, float) - start)

    near = mean_move(0.0)
    assert -2e-5 < near < -2e-6
    assert mean_move(1000.0) == pytest.approx(near, rel=0.05)
