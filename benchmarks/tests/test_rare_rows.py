"""The experiment of rare rows: its reference by quadrature, and its page's words."""

import json
import re

import numpy as np
import pytest

from benchmarks.answers import by_importance
from benchmarks.pages import mass_and_rows

SEPARATED = 1


def small():
    """40 rows; three of them, all of class 1, have the second column."""
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=40), np.where(np.arange(40) < 3, 3.0, -0.25), np.ones(40)])
    y = (rng.random(40) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    y[:3] = 1.0
    return x, y


def on_a_grid(x, y):
    """Means and standard deviations of three weights, summed over a grid."""
    axes = [np.linspace(-5.5, 5.5, 61)] * 3
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    logits = points @ x.T
    log = (y * logits - np.logaddexp(0, logits)).sum(1) - 0.5 * (points**2).sum(1)
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = p @ points
    return mean, np.sqrt(p @ (points - mean) ** 2)


@pytest.mark.full
def test_importance_sampling_is_the_posterior():
    """Few rows, so the wall is in the bulk and other weights are skewed: 4 standard errors."""
    x, y = small()
    mean, sd = on_a_grid(x, y)
    found = by_importance.reference(x, y, 20_000)
    assert found.separated == [SEPARATED]
    assert found.ess > 5_000
    error = 4 / np.sqrt(found.ess)
    assert np.abs(found.mean - mean).max() < error * sd.max()
    np.testing.assert_allclose(found.sd, sd, rtol=error)
    assert max(found.halves) < 2 * error


# The page.


def stored():
    return json.loads(mass_and_rows.NUMBERS.read_text())


def test_the_page_tells_its_numbers():
    text = mass_and_rows.PAGE.read_text()
    assert mass_and_rows.page(text) == text, (
        "run python -m benchmarks.pages.mass_and_rows: the page is out of date"
    )
    result = stored()
    assert not result["quick"]
    assert f"{result['stiffest']:,} times that at the mode" in text
    assert f"2/√{result['stiffest']:,} = {2 / result['stiffest'] ** 0.5:.3f}" in text


def test_what_the_page_claims():
    result = stored()
    assert result["reference"]["ess"] > 17_000
    assert max(result["reference"]["halves"]) < 0.03
    uniform, leverage = (mass_and_rows.run(result, rows) for rows in ("uniform", "leverage"))
    assert uniform["worst_rhat"] < 1.01
    by_column = dict(zip(result["columns"], uniform["sd_ratio"], strict=True))
    assert by_column["Soil_Type15"] > 70
    assert by_column["Soil_Type7"] > 7
    assert by_column["intercept"] > 2.5
    for run in (leverage, mass_and_rows.run(result, "leverage", 0.006)):
        assert 0.96 < min(run["sd_ratio"]) < max(run["sd_ratio"]) < 1.05
        assert max(map(abs, run["mean_off"])) < 0.05
    wall = mass_and_rows.run(result, "leverage", 0.08)
    assert max(wall["sd_ratio"]) > 2.5
    assert wall["worst_rhat"] < 1.01
    assert all(run["diverged"] == 0 for run in result["runs"])


def test_where_no_row_says_anything_the_posterior_is_the_prior():
    """All soil types' raw coefficients: reference and right run have mean 0 along it."""
    result = stored()
    soil = [j for j, name in enumerate(result["columns"]) if name.startswith("Soil")]
    share = np.array([result["rows_of_column"][j] for j in soil]) / result["rows_of_column"][-1]
    along = np.zeros(len(result["columns"]))
    along[soil] = np.sqrt(share * (1 - share))  # of a standardised column, per unit of the raw one
    along /= np.linalg.norm(along)
    mean, sd = (np.array(result["reference"][name]) for name in ("mean", "sd"))
    leverage = mass_and_rows.run(result, "leverage")
    assert abs(along @ mean) < 4 / np.sqrt(result["reference"]["ess"])
    assert abs(along @ (mean + sd * leverage["mean_off"])) < 4 / np.sqrt(leverage["least_ess"])


def test_the_picture_says_what_it_shows():
    from PIL import Image

    assert mass_and_rows.PICTURE.stat().st_size < 120_000
    with Image.open(mass_and_rows.PICTURE) as picture:
        assert picture.text["Description"] == mass_and_rows.caption(stored())
        assert len(re.findall(r"\d\.\d", picture.text["Description"])) == 5
