"""Log-normal data: exact moments, the error of averages, the rules, and a small run."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from benchmarks.papers import lognormal
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.figures import png
from benchmarks.papers.running import judged, settings_of, text_of


def test_the_model_is_a_normal_law():
    rows, position = np.array([0.3, 2.0, -1.0]), np.array([0.2, 1.5])
    mean, scale = position
    expected = [np.sum(mean - rows) / scale**2, 3 / scale - np.sum((rows - mean) ** 2) / scale**3]
    found = lognormal.MODEL.gradient(
        jnp.asarray(position, jnp.float32), jnp.asarray(rows, jnp.float32)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_moments_are_those_of_quadrature():
    rows = lognormal.draws_of(3, 12)
    mean, scale = np.meshgrid(
        np.linspace(-15, 20, 1201), np.linspace(0.02, 60, 6001), indexing="ij"
    )
    squares = np.sum((rows - rows.mean()) ** 2) + len(rows) * (mean - rows.mean()) ** 2
    log = -len(rows) * np.log(scale) - squares / (2 * scale**2)
    weight = np.exp(log - log.max())
    moments = [np.array([np.average(x**k, weights=weight) for x in (mean, scale)]) for k in (1, 2)]
    found_mean, found_sd = lognormal.truth(rows)
    np.testing.assert_allclose(found_mean, moments[0], rtol=1e-3)
    np.testing.assert_allclose(found_sd, np.sqrt(moments[1] - moments[0] ** 2), rtol=2e-3)


def test_the_error_is_that_of_averages_over_second_halves():
    rows = lognormal.draws_of(0, 20)
    mean, sd = lognormal.truth(rows)
    z = np.random.default_rng(0).normal(size=(3, 9, 2))
    found = lognormal.errors(mean + sd * z, rows, np.array([0, 3, 8]))
    expected = []
    for first, last in ((0, 1), (2, 4), (4, 9)):
        part = z[:, first:last]
        averages = np.concatenate([part.mean(1), (part**2).mean(1) - 1], axis=1)
        expected.append(np.mean(averages**2))
    np.testing.assert_allclose(found, expected, rtol=6e-3)


def parts(**ends):
    """Errors at two passes on two data sets, the same for both readings."""
    of = {label: {"step": 1.0, "error": [list(end), list(end)]} for label, end in ends.items()}
    return {"axis": {"passes": [20.0, 100.0], "early": 20.0}} | {
        label: dict.fromkeys(lognormal.READINGS, each) for label, each in of.items()
    }


def test_a_small_run():
    """CV starts at what SAGA found, and pays for it; a step beyond the stable ones is not taken."""
    settings = dataclasses.replace(
        settings_of(lognormal.Settings, text_of("lognormal"), "quick"),
        num_chains=4,
        num_rows=40,
        center_passes=16,
        center_step=0.2,
        data_passes=40,
        early=20.0,
        data_seeds=(0,),
        steps=(0.1, 5.0),
    )
    found = lognormal.centers(settings)
    first = lognormal.rows_of(settings, "log-normal", lognormal.TUNING_SEED)
    np.testing.assert_allclose(found[0], [first.mean(), first.std()], atol=0.1 * first.std())
    settings = dataclasses.replace(
        settings, methods=[x for x in settings.methods if x["name"] in ("sgld", "cv_ld")]
    )
    done = {name: compute({}) for name, compute in lognormal.parts(settings).items()}
    assert done["SGLD"]["normal"]["step"] == done["CV-LD"]["normal"]["step"] == 0.1
    curve = done["CV-LD"]["normal"]["error"][0]
    assert curve[0] is None
    assert np.isfinite(curve[-1])
    members = 2 * 2 * 2
    assert done["SGLD"]["evaluations"] == members * 4 * 40 * 40


def test_shown():
    settings = {label: [3, 1] for label in ("LD", "SGLD", "SAGA-LD", "SVRG-LD", "CV-LD", "CV-ULD")}
    done = {name: part | {"seconds": 0.0} for name, part in parts(**settings).items()}
    assert len(judged(EXPERIMENTS["lognormal"], done)["claims"]) == 8
    assert png(lognormal.draw(done))[:4] == b"\x89PNG"
