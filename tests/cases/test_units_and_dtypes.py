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
