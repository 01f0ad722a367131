"""The summary's numbers, and what it says of runs that it cannot judge."""

import csv
import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.draws import convergence
from ewsg_jax.draws.coordinates import with_digits


@pytest.fixture(scope="module")
def run():
    data = jax.random.normal(jax.random.key(0), (50, 3))
    kernel = ewsg.uld(ewsg.models.gaussian_location(), 5e-2, friction=10.0)
    return ewsg.sample(
        jax.random.key(1),
        kernel,
        lambda key: jax.random.normal(key, (3,)),
        data,
        400,
        num_chains=4,
        burn_in=100,
    )


def with_draws(run, draws, **changes):
    return dataclasses.replace(
        run, draws=draws, diverged_at=np.full(len(jax.tree.leaves(draws)[0]), -1), **changes
    )


def test_numbers_are_those_of_all_draws(run):
    """R-hat, ESS and MCSE by the functions that tests/run compares with arviz-stats."""
    summary, draws = ewsg.diagnostics.summary(run), np.asarray(run.position, np.float64)
    assert summary.names == ("position[0]", "position[1]", "position[2]")
    assert (summary.num_chains, summary.num_draws) == (4, 300)
    np.testing.assert_allclose(summary.mean, draws.mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(summary.sd, draws.std((0, 1), ddof=1), rtol=1e-12)
    for name in ("rhat", "ess_bulk", "ess_tail", "mcse"):
        np.testing.assert_array_equal(getattr(summary, name), getattr(convergence, name)(draws))
    assert summary.worst_rhat == summary.rhat.max()
    assert summary.least_ess == summary.ess_bulk.min()
    assert summary.notes == ()


def test_a_tree_of_positions(run):
    draws = {"scale": run.position[:, :, 0], "w": run.position[:, :, 1:].reshape(4, 300, 2, 1)}
    summary = ewsg.diagnostics.summary(with_draws(run, draws))
    assert summary.names == ("scale", "w[0,0]", "w[1,0]")
    np.testing.assert_array_equal(summary.mean, ewsg.diagnostics.summary(run).mean)


def test_names(run):
    assert "elevation" in str(ewsg.diagnostics.summary(run, ["elevation", "slope", "aspect"]))


def test_the_table_shows_the_worst_rows(run):
    draws = np.random.default_rng(0).normal(size=(4, 100, 30))
    draws[0, :, 17] += 3
    lines = str(ewsg.diagnostics.summary(with_draws(run, draws))).splitlines()
    assert len(lines) == 1 + 12 + 3
    assert any(line.startswith("position[17]") for line in lines)
    assert lines[-1].startswith("note: R-hat")
    assert lines[-3] == "(30 coordinates, the 12 of largest R-hat shown)"


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((1, 100, 3), "one chain"),
        ((4, 3, 3), "fewer than 4 draws"),
        ((4, 1, 3), "fewer than 4 draws"),
        ((4, 0, 3), "fewer than 4 draws"),
        ((1, 1, 3), "one chain"),
    ],
)
def test_too_little_to_judge_gives_nan_and_words(run, shape, note):
    draws = np.random.default_rng(0).normal(size=shape)
    summary = ewsg.diagnostics.summary(with_draws(run, draws))
    assert np.isnan(summary.rhat).all()
    assert np.isnan(summary.worst_rhat)
    assert any(note in each for each in summary.notes)
    assert note in str(summary)


def test_draws_that_are_not_finite_or_never_move(run):
    draws = np.random.default_rng(0).normal(size=(4, 50, 3))
    draws[1, 20:, 0] = np.nan
    draws[2, 20:, 1] = np.inf
    draws[:, :, 2] = 1.0
    summary = ewsg.diagnostics.summary(with_draws(run, draws))
    assert np.isnan(summary.rhat).all()
    assert "2 of 4 chains have draws that are not finite" in str(summary)
    # Its ESS is that of all draws, as ArviZ has it.
    assert summary.ess_bulk[2] == 200
    assert "one number in all draws: position[2]. Its ESS" in str(summary)


def test_chains_that_stand_still_apart(run):
    """Without a width within chains R-hat is infinite: it is the worst of all, and said."""
    for length in (8, 50):
        draws = np.random.default_rng(0).normal(size=(4, length, 3))
        draws[:, :, 1] = np.arange(4.0)[:, None]
        summary = ewsg.diagnostics.summary(with_draws(run, draws))
        assert summary.worst_rhat > 1e6
        assert "R-hat > 1000: the chains have different distributions" in str(summary)


def test_chains_in_several_modes_are_told(run):
    apart = run.draws + np.array([0.0, 0.0, 3.0, 3.0])[:, None, None]
    assert "several modes" in str(ewsg.diagnostics.summary(with_draws(run, apart)))


def test_a_common_start_is_told(run):
    summary = ewsg.diagnostics.summary(dataclasses.replace(run, common_start=True))
    assert "started at one point" in str(summary)


def test_quantiles(run):
    """Of the sorted draws of all chains: between two of them a straight line."""
    draws = np.random.default_rng(0).normal(size=(4, 50, 3)).astype(np.float32)
    draws[1, 3, 2] = np.inf
    summary = ewsg.diagnostics.summary(
        with_draws(run, draws), ["a", "b", "c"], quantiles=[0.0, 0.3, 1]
    )
    assert summary.probabilities.tolist() == [0.0, 0.3, 1.0]
    assert summary.quantiles.shape == (3, 3)
    assert np.isnan(summary.quantiles[:, 2]).all()
    for i in range(2):
        ordered = np.sort(draws[:, :, i].astype(np.float64), axis=None)
        # 0.3 · 199 = 59.7
        between = 0.3 * ordered[59] + 0.7 * ordered[60]
        np.testing.assert_allclose(
            summary.quantiles[:, i], [ordered[0], between, ordered[-1]], rtol=1e-12
        )
    title, first = str(summary).splitlines()[:2]
    assert title.split()[-3:] == ["0%", "30%", "100%"]
    assert first.split()[-3:] == [f"{q:.4g}" for q in summary.quantiles[:, 0]]
    plain = ewsg.diagnostics.summary(with_draws(run, draws))
    assert plain.quantiles.shape == (0, 3)
    assert "%" not in str(plain)
    none = ewsg.diagnostics.summary(with_draws(run, draws[:, :0]), quantiles=[0.5])
    assert np.isnan(none.quantiles).all()


COLUMNS = ["mean", "sd", "mcse", "rhat", "ess_bulk", "ess_tail", "2.5%", "50%"]


def test_a_table_for_pandas(run):
    summary = ewsg.diagnostics.summary(run, ["a", "b", "c"], quantiles=(0.025, 0.5))
    frame = summary.to_pandas()
    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame.columns.tolist() == COLUMNS
    assert frame.loc["b", "rhat"] == summary.rhat[1]
    assert frame.loc["c", "50%"] == summary.quantiles[1, 2]


def test_a_table_in_a_file(run, tmp_path, monkeypatch):
    """Every bit is read back; no pandas is needed; names may hold the separator."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    names = ["w[0,1]", 'ε "noise"', "c\nd"]
    summary = ewsg.diagnostics.summary(run, names, quantiles=(0.025, 0.5))
    summary = dataclasses.replace(summary, rhat=np.array([np.nan, 1.0, 2.0]))
    path = tmp_path / "summary.csv"
    path.write_text("old")
    summary.to_csv(path)
    with path.open(encoding="utf-8", newline="") as file:
        title, *rows = csv.reader(file)
    assert title == ["coordinate", *COLUMNS]
    assert [row[0] for row in rows] == names
    columns = np.array([row[1:] for row in rows], np.float64).T
    np.testing.assert_array_equal(columns, list(summary.columns().values()))


def test_distance(run):
    reference = ewsg.diagnostics.summary(run)
    moved = ewsg.diagnostics.summary(
        with_draws(run, (1.5 * run.position + jnp.array([0.0, 1.0, -2.0])).__array__())
    )
    distance = ewsg.diagnostics.distance(moved, reference)
    np.testing.assert_allclose(distance.mean, (moved.mean - reference.mean) / reference.sd)
    np.testing.assert_allclose(distance.sd_ratio, 1.5, rtol=1e-4)
    assert distance.largest == np.abs(distance.mean).max()
    assert distance.root_mean_square == pytest.approx(np.sqrt((distance.mean**2).mean()))
    expected = np.sqrt(((moved.mcse**2 + reference.mcse**2) / reference.sd**2).mean())
    assert distance.monte_carlo == pytest.approx(expected)
    assert "ratio of sds 1.500" in str(distance)


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (10_000.0123, 0.05, "10000.012"),
        (1.234567, 1.0, "1.235"),
        (-123_456.7890123, 1e-6, "-123456.789012"),
        (0.001234567, 5.0, "0.001235"),
        (0.0, 1.0, "0"),
        (5.0, 0.0, "5"),
        (np.nan, 1.0, "nan"),
    ],
)
def test_a_mean_has_the_digits_that_its_spread_asks_for(mean, sd, text):
    assert with_digits(mean, sd) == text


def test_arrays_are_summarised_like_a_run_of_them(run):
    of_arrays = ewsg.diagnostics.summary(run.position, quantiles=(0.5,))
    of_run = ewsg.diagnostics.summary(run, quantiles=(0.5,))
    for name, column in of_run.columns().items():
        np.testing.assert_array_equal(of_arrays.columns()[name], column)
    assert (of_arrays.num_chains, of_arrays.num_diverged) == (4, 0)
    tree = {"a": run.position[..., 0], "b": run.position > 0}
    assert ewsg.diagnostics.summary(tree).names == ("a", "b[0]", "b[1]", "b[2]")
    spoilt = run.position.copy()
    spoilt[1, 7] = np.nan
    assert ewsg.diagnostics.summary(spoilt).notes == (
        "1 of 4 chains have draws that are not finite",
    )
