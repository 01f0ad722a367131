"""Arrays and numbers as instruments and other programs write them: byte orders, units, extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
ROWS = np.random.default_rng(0).normal(1.0, 1.0, (40, 2)).astype(np.float32)
FITS = ROWS.astype(">f8")
START = np.zeros(2, ">f4")
KERNEL = ewsg.uld(MODEL, 0.05, friction=5.0)


def run(kernel, start, data, **options):
    return ewsg.sample(KEY, kernel, start, data, 10, progress=False, **options)


def test_big_endian_arrays_are_taken(tmp_path):
    """As files of FITS, netCDF 3 and IDL hold them: JAX's error printed the array."""
    samples = run(KERNEL, jnp.zeros(2), ROWS)
    found = run(KERNEL, START, FITS)
    np.testing.assert_array_equal(found.position, samples.position)
    # A state continues, and a file is read, with either.
    run(KERNEL, None, FITS, state=samples.state)
    samples.save(tmp_path / "run.npz")
    ewsg.load(tmp_path / "run.npz", kernel=KERNEL, data=FITS)
    gradient = MODEL.gradient(jnp.ones(2), ROWS)
    np.testing.assert_array_equal(MODEL.gradient(np.ones(2, ">f8"), FITS), gradient)
    assert MODEL.potential(jnp.ones(2), FITS) == MODEL.potential(jnp.ones(2), ROWS)
    inputs = np.arange(3, dtype=">i2")
    means = samples.predict(lambda p, x: p[0] + x, inputs)
    np.testing.assert_allclose(means, samples.mean[0] + np.arange(3), rtol=1e-6)


@pytest.mark.full
def test_big_endian_arrays_are_taken_by_answers_and_streams():
    mode = ewsg.find_mode(KEY, MODEL, START, FITS, progress=False)
    np.testing.assert_allclose(mode.position, ROWS.mean(0), atol=1e-5)
    draws = ROWS.mean(0) + np.random.default_rng(1).normal(size=(4, 500, 2)) / 40**0.5
    assert ewsg.check(KEY, draws.astype(">f4"), MODEL, FITS).outcome == "right"
    expected = run(KERNEL, jnp.zeros(2), ewsg.stream(ROWS[::-1].copy(), window=20))
    found = run(KERNEL, jnp.zeros(2), ewsg.stream(FITS[::-1], window=20))
    np.testing.assert_array_equal(found.position, expected.position)
    sets = run(KERNEL, jnp.zeros(2), ewsg.stack_data([FITS, FITS[:20]]))
    assert np.isfinite(sets.whole.draws).all()


def test_a_kernel_by_itself_names_the_byte_order():
    with pytest.raises(TypeError, match=r"data is of dtype >f8: \.astype\('float64'\)"):
        KERNEL.init(KEY, jnp.zeros(2), FITS)


# Numbers at the ends of float32.

SMALL = ewsg.Posterior(lambda t, x: -0.5 * jnp.sum(((x - t) / 1e-25) ** 2), lambda t: jnp.zeros(()))
"""A normal mean in a unit in which its variance is 2.5e-52."""


@pytest.mark.parametrize("mass", [1e-80, np.array([1e-50, 1.0]), 1e-50 * np.eye(2)])
def test_a_mass_that_float32_does_not_hold_is_named(mass):
    """It was taken for 0."""
    with pytest.raises(ValueError, match=r"holds from 1\.18e-38 on; got 1e-.*another unit"):
        ewsg.uld(MODEL, 0.1, friction=1.0, inverse_mass=mass)


def test_steps_and_scales_that_float32_does_not_hold_are_named():
    """A chain stood still; a precision became infinite, and every gradient NaN."""
    with pytest.raises(ValueError, match=r"step_size .* holds from 1\.18e-38 on; got 1e-50"):
        ewsg.sgld(MODEL, 1e-50, batch_size=5)
    for scale in ({"noise_scale": 1e-25}, {"prior_scale": 1e-25}):
        with pytest.raises(ValueError, match="whose inverse square is a float"):
            ewsg.models.gaussian_location(**scale)


def test_big_endian_masses_are_taken():
    masses = np.ones(2), np.eye(2)
    for mass in masses:
        kernels = [
            ewsg.uld(MODEL, 0.1, friction=1.0, inverse_mass=mass.astype(kind))
            for kind in (">f8", "f4")
        ]
        expected, found = (run(kernel, jnp.zeros(2), ROWS).position for kernel in kernels)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_units_in_which_variances_vanish_are_named():
    mode = ewsg.find_mode(KEY, SMALL, jnp.zeros(2), ROWS * 1e-25, progress=False)
    np.testing.assert_allclose(mode.position, ROWS.mean(0) * 1e-25, rtol=1e-4)
    with pytest.raises(ValueError, match=r"mode must have variances, .* got 2\.5e-52"):
        ewsg.uld(SMALL, 0.1, friction=1.0, inverse_mass=mode.inverse_mass)
    with pytest.raises(ValueError, match="give positions and data another unit"):
        ewsg.plan(KEY, SMALL, jnp.zeros(1), ROWS[:, :1] * 1e-25, progress=False)


@pytest.mark.full
def test_a_wide_posterior_is_not_called_improper():
    """The logarithm of a rate under Gamma(0.01, 0.01) alone: proper, of sd 100."""
    wide = ewsg.Posterior(lambda u, x: 0.0 * u * x, lambda u: 0.01 * u - 0.01 * jnp.exp(u))
    with pytest.raises(ValueError, match="or proper and wider than they go"):
        ewsg.plan(KEY, wide, jnp.zeros(()), np.zeros(3, np.float32), progress=False)


# Numbers of models, and of rows, that are not what they seem.


def test_a_model_made_under_vmap_is_named():
    """Its prior_scale is no number of a kernel, by which members of a stack may differ."""
    rows = {"x": ROWS, "y": ROWS[:, 0]}

    def kernel(scale):
        model = ewsg.models.linear_regression(prior_scale=scale)
        return ewsg.sgld(model, 1e-3, batch_size=5)

    def chain(scale):
        state = kernel(scale).init(KEY, jnp.zeros(2), jax.tree.map(jnp.asarray, rows))
        return kernel(scale).step(KEY, state, jax.tree.map(jnp.asarray, rows))[0].position

    scales = jnp.array([0.5, 2.0])
    expected = [chain(float(scale)) for scale in scales]
    np.testing.assert_allclose(jax.vmap(chain)(scales), expected, rtol=1e-5)
    grid = jax.vmap(kernel)(scales)
    for call in (
        lambda: run(grid, jnp.zeros(2), rows),
        lambda: run(ewsg.stack(grid), jnp.zeros(2), rows),
        lambda: jax.vmap(lambda s: run(kernel(s), jnp.zeros(2), rows).position)(scales),
    ):
        with pytest.raises(TypeError, match="such as a prior_scale of a model made under vmap"):
            call()
    with pytest.raises(ValueError, match="has left it, such as a prior_scale"):
        jax.vmap(lambda k: k.init(KEY, jnp.zeros(2), jax.tree.map(jnp.asarray, rows)))(grid)
    run(kernel(2.0), jnp.zeros(2), rows)


def test_rows_of_weight_0_are_named_if_they_have_a_gradient():
    weights = np.repeat([0.0, 1.0], 20)
    kernel = ewsg.sgld(MODEL, 1e-3, batch_size=5, rows=ewsg.rows.by_probability(weights))
    with pytest.warns(RuntimeWarning, match="weights of rows are 0 for 20 of them, which no batch"):
        run(kernel, jnp.zeros(2), ROWS)
    # A row that says nothing needs no weight.
    run(kernel, jnp.zeros(2), np.where(weights[:, None] > 0, ROWS, 0.0))
