"""Half-precision positions and likelihoods: sums in float32, rounded once at the end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._protocol import Estimate

pytestmark = pytest.mark.full

HALF = [jnp.bfloat16, jnp.float16]
KINDS = ["linear", "any"]


def slopes(kind, prior_slope=0.0):
    """log Lᵢ = xᵢ·θ, so that ∇Vᵢ = −xᵢ; ∇V₀ is the prior's slope."""
    prior = lambda p: -prior_slope * jnp.sum(p)
    if kind == "linear":
        return ewsg.Posterior.linear(lambda s, row: s, prior, inputs=lambda row: row["x"][None])
    return ewsg.Posterior(lambda p, row: p[0] * row["x"], prior)


@pytest.mark.usual_parameters("linear-float16")
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_counts_on(kind, dtype):
    """Ones added one by one, in a chunk, and in one too large for plain bfloat16 or float16."""
    model, point = slopes(kind), jnp.zeros(1, dtype)
    for n, chunk_size in ((4_100, 1), (4_100, 4_096), (60_000, 60_000)):
        data = {"x": jnp.ones(n, dtype)}
        gradient = jax.jit(model.likelihood_gradient, static_argnums=2)(point, data, chunk_size)
        assert gradient.dtype == dtype
        assert gradient[0] == jnp.asarray(-n, dtype), (n, chunk_size)
        whole = model.batch_gradient(point, data, jnp.arange(n))
        assert whole[0] == jnp.asarray(-n, dtype)


@pytest.mark.usual_parameters("linear-float16")
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_scaled_before_it_is_rounded(kind, dtype):
    """n/b = 100,000 is no float16, nor are the weights of strata; the product is."""
    model, point = slopes(kind), jnp.zeros(1, dtype)
    data = {"x": jnp.full(200_000, 2**-10, dtype)}
    expected = jnp.asarray(-200_000 * 2**-10, dtype)
    assert model.batch_gradient(point, data, jnp.arange(2))[0] == expected
    for weights in (jnp.full(2, 100_000.0), np.full(2, 100_000, np.float32)):
        assert model.batch_gradient(point, data, jnp.arange(2), jnp.asarray(weights))[0] == expected


def test_many_rows_in_one_differentiation():
    """65,536 times one, of which float16 holds no 65,536, is taken in parts that it holds."""
    model, data = slopes("any"), {"x": jnp.ones(65_536, jnp.float16)}
    total = model.batch_sum(jnp.zeros(1, jnp.float16), data, ewsg.rows.Batch(jnp.arange(65_536)))
    assert total.dtype == jnp.float32
    assert total[0] == -65_536


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_rows_are_added_up_in_single(kind):
    model, rows = slopes(kind), {"x": jnp.array([255.0] * 4 + [0.8125] * 4, jnp.bfloat16)}
    gradients = model.row_gradients(jnp.zeros(1, jnp.bfloat16), rows)
    assert jax.tree.leaves(gradients)[0].dtype == jnp.bfloat16
    total = model.sum_of_rows(gradients, rows)
    assert (total.dtype, float(total[0])) == (jnp.float32, -1023.25)


def estimators(model, batch_size):
    """Every estimator that sees rows."""
    some = {"batch_size": batch_size, "replace": False}
    return {
        "uniform": ewsg.gradients.uniform(model, **some),
        "svrg": ewsg.gradients.svrg(model, **some),
        "saga": ewsg.gradients.saga(model, **some),
        "control_variate": ewsg.gradients.control_variate(model, **some),
        "stratified": ewsg.gradients.stratified(
            model, batch_size=2, labels="stratum", num_strata=2
        ),
        "covariance_tracking": ewsg.gradients.covariance_tracking(model, **some),
    }


ROWS = {
    # All rows: 1,024 − 1,023.25 is 0.75, and 0 where the parts are rounded.
    "linear": ([255.0] * 4 + [0.8125] * 4, 8, dict.fromkeys(estimators(slopes("any"), 8), (0.75,))),
    # Five of eight: 1,024 − 307.2 k for the k of them that are not 0; with the sum of all rows
    # 1,024 − 768. What differentiation adds up is in the position's dtype, which holds 192 k.
    "any": (
        [192.0] * 4 + [0.0] * 4,
        5,
        dict.fromkeys(("uniform", "covariance_tracking"), (409.6, 102.4, -204.8))
        | dict.fromkeys(("svrg", "saga", "control_variate", "stratified"), (256.0,)),
    ),
}


@pytest.mark.usual_parameters(
    "linear-saga", "any-svrg", "any-uniform", "linear-covariance_tracking"
)
@pytest.mark.parametrize("name", estimators(slopes("any"), 8))
@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_rounded_once(kind, name):
    """Near a mode prior and likelihood cancel: what is left is no rounded difference."""
    model, point = slopes(kind, 1024.0), jnp.zeros(1, jnp.bfloat16)
    x, batch_size, values = ROWS[kind]
    data = {"x": jnp.array(x, jnp.bfloat16), "stratum": jnp.arange(8) // 4}
    estimator = estimators(model, batch_size)[name]
    expected = [float(jnp.bfloat16(value)) for value in values[name]]

    @jax.jit
    def estimate(key, point, data):
        memory = estimator.init(key, point, data)
        randomness = estimator.draw(key, data)
        memory, at, _ = estimator.refresh(randomness, memory, jnp.int32(0), point, data)
        found, update = estimator.propose(randomness, memory, at, data, lambda estimate: 0.0)
        again = estimator.commit(update, memory)
        assert jax.tree.map(jnp.shape, again) == jax.tree.map(jnp.shape, memory)
        return found, estimator.gradient_at(found, at, data)

    found, probed = estimate(jax.random.key(0), point, data)
    assert isinstance(found, Estimate)
    for gradient in (found.gradient, probed):
        assert gradient.dtype == jnp.bfloat16
        assert float(gradient[0]) in expected


def returning(dtype):
    """A normal likelihood whose value is rounded to a dtype, at a float32 position."""
    return ewsg.Posterior(lambda p, x: (-0.5 * (x - p[0]) ** 2 - 1).astype(dtype), lambda p: 0.0)


@pytest.mark.full
@pytest.mark.parametrize("dtype", HALF)
def test_a_likelihood_in_half_precision_is_summed_in_single(dtype):
    data, point = jnp.linspace(-0.2, 0.2, 20_000), jnp.zeros(1)
    rows = np.asarray((-0.5 * data**2 - 1).astype(dtype), np.float64)
    model = returning(dtype)
    assert model.log_likelihoods(point, data).dtype == jnp.float32
    for chunk_size in (4_096, 7):
        potential = model.potential(point, data, chunk_size)
        assert potential.dtype == jnp.float32
        # Compiled, a likelihood may be rounded later than here.
        np.testing.assert_allclose(potential, -rows.sum(), rtol=2**-8)
    kernel = ewsg.sgld(model, 1e-9, batch_size=1)
    samples = ewsg.sample(jax.random.key(0), kernel, point, data, 2)
    density = ewsg.diagnostics.log_predictive_density(samples, model, data)
    assert density.dtype == np.float32
    np.testing.assert_allclose(density.mean(), rows.mean(), rtol=2**-8)


@pytest.mark.parametrize("dtype", HALF)
def test_a_step_size_that_half_precision_does_not_hold(dtype):
    """10⁻⁸ is 0 in float16, and what it moves is not: h ∇V = 10⁻⁸ · 10⁶ · 0.03."""
    model, data = ewsg.models.gaussian_location(noise_scale=0.01), jnp.zeros((100, 1))
    kernel = ewsg.ld(model, 1e-8)
    state = kernel.init(jax.random.key(0), jnp.full(1, 0.03, dtype), data)
    drawn = kernel.draw(jax.random.key(1), state, data)._replace(noise=jnp.zeros(1, dtype))
    after, _ = kernel.transition(drawn, state, data)
    moved = float(after.position[0]) - float(state.position[0])
    assert moved == pytest.approx(-3e-4, abs=0.03 * float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", HALF)
def test_a_mode_in_half_precision(dtype):
    """Seen from afar, the distance to the mode is that of float32 too."""
    rows = jnp.asarray(np.tile([0.5, 1.5], 500), dtype)[:, None]
    model = ewsg.models.gaussian_location()
    mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1, dtype), rows, tolerance=0.2)
    assert mode.position.dtype == dtype
    assert abs(float(mode.position[0]) - 1) < 0.02
