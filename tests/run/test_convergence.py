"""R-hat, ESS and Monte Carlo errors against arviz-stats itself, one coordinate at a time."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from ewsg_jax.draws import convergence, ranks

OURS_AND_THEIRS = {
    "rhat": (convergence.rhat, array_stats.rhat, {}),
    "ess": (convergence.ess, array_stats.ess, {"method": "mean"}),
    "ess_bulk": (convergence.ess_bulk, array_stats.ess, {"method": "bulk"}),
    "ess_tail": (convergence.ess_tail, array_stats.ess, {"method": "tail", "prob": (0.05, 0.95)}),
    "mcse": (convergence.mcse, array_stats.mcse, {"method": "mean"}),
}


def chains(shape, kind, rng):
    """Autoregressions: as they are, of two places, rounded, one constant or one not finite."""
    draws, memory = rng.standard_normal(shape), rng.uniform(-0.9, 0.999)
    for t in range(1, shape[1]):
        draws[:, t] += memory * draws[:, t - 1]
    if kind == "places":
        draws += 3 * rng.standard_normal((shape[0], 1, 1))
    elif kind == "tied":
        draws = np.round(draws)
    elif kind == "still":
        draws[..., 0] = 3.0
    elif kind == "not finite":
        draws[0, 0, -1] = np.nan
    return draws


@pytest.mark.usual_parameters("plain-*", "not finite-*")
@pytest.mark.parametrize("name", OURS_AND_THEIRS)
@pytest.mark.parametrize("kind", ["plain", "places", "tied", "still", "not finite"])
def test_numbers_are_those_of_arviz_stats(name, kind):
    ours, theirs, options = OURS_AND_THEIRS[name]
    rng = np.random.default_rng(7)
    # Odd and even lengths, the shortest that is split, and more coordinates than one block has.
    for num_chains in (1, 3):
        for num_draws in (4, 5, 6, 7, 9, 30, 201):
            draws = chains((num_chains, num_draws, 35), kind, rng)
            if name == "rhat" and num_chains == 1:
                continue
            with np.errstate(all="ignore"):
                expected = theirs(draws, chain_axis=0, draw_axis=1, **options)
            np.testing.assert_allclose(ours(draws), np.ravel(expected), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("memory", [-0.5, 0.5, 0.99])
def test_numbers_of_long_chains_are_those_of_arviz_stats(memory, dtype, monkeypatch):
    """Draws of 32 bits are sorted in another way, and sequences that end soon need no Fourier
    transform; with ties, an odd length, and threads.
    """
    monkeypatch.setattr(convergence, "NUMBERS_PER_THREAD", 1_000)
    monkeypatch.setattr(convergence.os, "cpu_count", lambda: 2)
    draws = np.random.default_rng(1).standard_normal((3, 1_501, 5))
    for t in range(1, draws.shape[1]):
        draws[:, t] += memory * draws[:, t - 1]
    draws[:, 1::2, 3] = draws[:, :-1:2, 3]
    draws[..., 4] = np.round(draws[..., 4])
    draws = draws.astype(dtype).astype(np.float64)
    together = convergence.of_draws(draws)
    for name, (ours, theirs, options) in OURS_AND_THEIRS.items():
        expected = np.ravel(theirs(draws, chain_axis=0, draw_axis=1, **options))
        np.testing.assert_allclose(ours(draws), expected, rtol=1e-9)
        if name != "ess":
            np.testing.assert_array_equal(getattr(together, name), ours(draws))


def test_scores_are_those_of_mean_ranks():
    """By their definition, from SciPy: of both signs, with zeros of both and other ties, in 32 and
    64 bits.
    """
    draws = np.random.default_rng(2).standard_normal(2**13).astype(np.float32)
    draws[:100], draws[100:200], draws[-3:] = 0.0, -0.0, draws[5]
    draws = draws.astype(np.float64)
    for values in (draws, draws + 1e-9 * np.arange(len(draws)), draws[:50]):
        table = ranks.rank_scores(len(values))
        ranked = ranks.ranks(values, table)
        for ours, numbers in (
            (ranked.scores(), values),
            (ranked.folded_scores(), np.abs(values - np.median(values))),
        ):
            place = stats.rankdata(numbers)
            expected = stats.norm.ppf((place - 0.375) / (len(values) + 0.25))
            np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)
        for probability in (0.0, 0.05, 0.5, 0.95, 1.0):
            expected = np.quantile(values, probability)
            np.testing.assert_allclose(ranked.quantile(probability), expected, rtol=1e-14)


@pytest.mark.parametrize("name", OURS_AND_THEIRS)
def test_numbers_do_not_depend_on_the_unit(name):
    ours, draws = OURS_AND_THEIRS[name][0], chains((4, 100, 3), "plain", np.random.default_rng(3))
    unit = 1e-30
    expected = ours(draws) * (unit if name == "mcse" else 1.0)
    np.testing.assert_allclose(ours(unit * draws), expected, rtol=1e-9)


def test_an_rhat_in_words():
    said = [convergence.rhat_in_words(x, 2) for x in (1.014, np.nan, 1e15, np.inf)]
    assert said == ["1.01", "nan", "> 1000", "> 1000"]


@pytest.mark.parametrize("name", OURS_AND_THEIRS)
@pytest.mark.parametrize("shape", [(2, 3, 2), (2, 0, 2), (0, 10, 2)])
def test_too_few_draws_say_nothing(name, shape):
    found = OURS_AND_THEIRS[name][0](np.zeros(shape))
    assert found.shape == (2,)
    assert np.isnan(found).all()
