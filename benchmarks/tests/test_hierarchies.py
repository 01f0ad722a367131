"""The benchmark of hierarchies: exact draws, both forms, wrong draws, what the table counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks.hierarchies import command, groups, table, wrong
from benchmarks.hierarchies.item_response import Rasch
from benchmarks.hierarchies.linear import Linear
from benchmarks.hierarchies.local import Local, on_points
from benchmarks.hierarchies.models import models, pairs
from benchmarks.hierarchies.scales import Hyper, draw_hypers, on_grid

ALL = tuple(pairs())
BEYOND = 4.8
"""Standard errors: among 5,000 normal numbers, one is beyond in 100 cases."""
CHEAP = ("few_groups", "schools", "funnel", "mixture")


def gradients(model, draws):
    """Gradients of the log density in float64, of the rows that the model has."""
    with jax.enable_x64(True):
        data = jax.tree.map(
            lambda x: jnp.asarray(x, float if np.asarray(x).dtype.kind == "f" else None), model.data
        )
        found = jax.jit(jax.vmap(jax.grad(lambda p: model.log_density(p, data))))(
            jax.tree.map(jnp.asarray, draws)
        )
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("name", ALL)
def test_exact_draws_meet_the_identities_of_both_forms(name):
    """E g = 0 and E[(x − m) g] = −1 for each coordinate: another distribution meets
    neither, and a form that is not the other's does not meet them at the same draws.
    """
    pair = pairs()[name]
    exact = pair.draw(np.random.default_rng(3), 2_000)
    for form in "cn":
        model = models()[f"{name}_{form}"]
        draws = model.in_form(exact)
        assert set(draws) == set(model.start)
        for leaf, g in gradients(model, draws).items():
            x = draws[leaf]
            for terms in (g, 1 + g * (x - x.mean(0))):
                z = terms.mean(0) / (terms.std(0) / np.sqrt(len(terms)))
                assert np.abs(z).max() < BEYOND, (model.name, leaf)


def marginal_of(rows, tau, s, mu_width):
    """y ~ N(0, …), all effects integrated out by hand."""
    y, g = rows["y"].astype(float), rows["g"]
    hot = np.eye(g.max() + 1)[g]
    covariance = s**2 * np.eye(len(y)) + tau**2 * hot @ hot.T + mu_width**2
    return stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y)


def test_the_marginal_of_the_scales_is_that_of_the_rows():
    """Against the normal distribution of the rows with its covariance written out."""
    pair = pairs()["few_groups"]
    linear = pair.draw.__self__
    assert isinstance(linear, Linear)
    taus, s = np.array([0.05, 0.4, 1.5]), np.array([1.1, 0.8, 1.3])
    found = linear.log_marginal({"log_tau": np.log(taus), "log_s": np.log(s)})
    priors = -0.5 * taus**2 + np.log(taus) - 0.5 * s**2 + np.log(s)
    expected = [marginal_of(pair.data, *each, 10.0) for each in zip(taus, s, strict=True)]
    assert np.diff(found - priors) == pytest.approx(np.diff(expected), abs=1e-8)


@pytest.mark.parametrize("name", CHEAP)
def test_exact_scales_have_the_law_of_the_quadrature(name):
    """Kolmogorov and Smirnov's distance to the sums over a grid four times as fine."""
    pair = pairs()[name]
    if name == "mixture":
        pytest.skip("its quadrature is inside; its identities are judged above")
    linear = pair.draw.__self__
    grid = on_grid(
        linear.hypers, linear.log_marginal, finer=4.0 if len(linear.hypers) == 1 else 2.0
    )
    values = np.unique(grid.points["log_tau"])
    of_value = np.searchsorted(values, grid.points["log_tau"])
    mass = np.bincount(of_value, grid.mass)
    edges = np.append(values - grid.steps["log_tau"] / 2, values[-1] + grid.steps["log_tau"] / 2)
    draws = pair.draw(np.random.default_rng(4), 4_000)["log_tau"]
    distribution = np.append(0.0, np.cumsum(mass))
    found = stats.kstest(draws, lambda x: np.interp(x, edges, distribution))
    assert found.pvalue > 1e-4
    shifted = stats.kstest(draws + 0.12 * draws.std(), lambda x: np.interp(x, edges, distribution))
    assert shifted.pvalue < 1e-4


def test_hyperparameters_are_drawn_exactly_from_a_coarse_grid():
    """Rejection leaves no trace of cells as wide as 0.6 sd."""
    hypers = {"x": Hyper("normal", 1.0, -8.0, 8.0, 14)}

    def log_density(h):
        return -0.5 * h["x"] ** 2

    draws = draw_hypers(
        np.random.default_rng(0), 40_000, on_grid(hypers, log_density), log_density
    )["x"]
    assert stats.kstest(draws, "norm").pvalue > 1e-3


def test_a_local_number_is_integrated_and_drawn():
    """t ~ N(0, 1), y ~ N(h + t, 1): y ~ N(h, √2), and t given both is N((y − h) / 2, √½)."""
    y = np.array([0.3, -1.2])

    def log_density(h, points):
        off = y[:, None] - h["h"][:, None, None] - points
        return -0.5 * off**2 - 0.5 * points**2

    local = Local({"h": Hyper("normal", 1.0, -6, 6)}, np.linspace(-8, 8, 161), 3, log_density)
    h = {"h": np.array([0.0, 1.0])}
    off = y - h["h"][:, None]
    expected = np.sum(-(off**2) / 4, axis=1) - 0.5 * h["h"] ** 2
    assert np.diff(local.log_marginal(h)) == pytest.approx(np.diff(expected), abs=1e-10)
    t = local.draw_local(np.random.default_rng(0), {"h": np.ones(20_000)})
    assert t.mean(0) == pytest.approx((y - 1) / 2, abs=5 * 0.5**0.5 / 141)
    assert t.std(0) == pytest.approx([0.5**0.5] * 2, rel=0.025)


def test_a_point_is_drawn_by_its_mass():
    points = np.array([0.0, 1.0, 2.0])
    log_density = np.broadcast_to(np.log([0.2, 0.5, 0.3]), (30_000, 3))
    draws = on_points(np.random.default_rng(0), points, log_density)
    assert np.bincount(np.rint(draws).astype(int)) / 30_000 == pytest.approx(
        [0.2, 0.5, 0.3], abs=0.015
    )


def test_items_and_their_scale_agree_with_importance_sampling():
    """The draws of the rejection, against weighted proposals of another seed."""
    rng = np.random.default_rng(5)
    rasch = Rasch(rng.random((40, 4)) < 0.6, 1.0, 2.0)
    h, log_weights = rasch.propose(np.random.default_rng(6), 20_000)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    draws = rasch.draw(np.random.default_rng(7), 4_000)
    found = np.column_stack([draws["b"], draws["log_tau"]])
    mean = weights @ h
    error = np.sqrt(weights**2 @ (h - mean) ** 2 + found.var(0) / len(found))
    assert np.abs((found.mean(0) - mean) / error).max() < 4
    sd = np.sqrt(weights @ (h - mean) ** 2)
    assert found.std(0) == pytest.approx(sd, rel=0.07)


def test_scores_are_all_that_items_ask_of_persons():
    """The marginal against each person's own answers, integrated over the ability."""
    answers = np.random.default_rng(8).random((5, 3)) < 0.5
    rasch = Rasch(answers, 1.0, 2.0)
    points = np.array([[0.3, -0.2, 0.5, -0.4], [0.1, 0.4, -0.6, 0.3]])
    z = np.linspace(-8, 8, 801)
    expected = []
    for *b, log_tau in points:
        logit = np.exp(log_tau) * z[:, None] - np.array(b)
        total = log_tau - 0.5 * np.exp(2 * log_tau) - 0.5 * np.sum(np.square(b)) / 4
        for person in answers:
            likelihood = np.prod(1 / (1 + np.exp(-np.where(person, logit, -logit))), axis=1)
            total += np.log(likelihood @ np.exp(-0.5 * z**2))
        expected.append(total)
    assert np.diff(rasch.log_marginal(points)) == pytest.approx(np.diff(expected), abs=1e-6)


def small():
    """Groups that few rows say little of, with a pool of exact draws."""
    pair = groups.intercepts("small", "", [4] * 30, tau=0.5, s=0.8, seed=30)
    from benchmarks.hierarchies.model import both

    return both(pair), pair.draw(np.random.default_rng(31), 12_000)


def test_wrong_draws_are_wrong_as_they_say():
    (centred, _), pool = small()
    x = pool["log_tau"]
    rng = np.random.default_rng(32)
    made = {way: wrong.make(centred, pool, way, rng)["log_tau"] for way in wrong.WAYS}
    assert made["lacks_small"].min() >= np.quantile(x, wrong.LEFT_OUT) - 1e-12
    assert made["lacks_large"].max() <= np.quantile(x, 1 - wrong.LEFT_OUT) + 1e-12
    assert (made["shifted"].mean() - x.mean()) / x.std() == pytest.approx(0.3, abs=0.1)
    assert (made["shifted_little"].mean() - x.mean()) / x.std() == pytest.approx(0.06, abs=0.04)
    assert 0.4 < made["narrow"].std() / x.std() < 0.85  # normal: 1.8^-½
    assert len(made["exact"]) == len(x)
    assert made["scheme"].mean() > x.mean() + 0.1 * x.std()


def test_the_scheme_leaves_no_mean_force_on_the_scale():
    """Which is why draws of it are hard to see: E[g] of the scale is 0 as for exact draws, although
    the scale is off; effects are wider, and the weights alone do leave a force.
    """
    (centred, _), pool = small()
    forces = {}
    for way in ("weighed", "scheme"):
        draws = wrong.make(centred, pool, way, np.random.default_rng(33))
        g = gradients(centred, draws)["log_tau"]
        forces[way] = g.mean() / (g.std() / np.sqrt(len(g)))
    assert abs(forces["scheme"]) < 3.5
    assert abs(forces["weighed"]) > 6


def record(**more):
    known = {
        "part": "judged",
        "model": "m_c",
        "way": "exact",
        "key": 0,
        "verdict": "",
        "seconds": 1,
    }
    return (
        known | {"outcome": "right", "true": {"off": False, "scales": {}}, "corrected": None} | more
    )


def test_the_table_counts_faults_and_alarms():
    off = {"off": True, "scales": {}}
    z = {"mean": [10, 1, -5.0, "a[0]"], "sd": [10, 0, 1.0, "a[1]"]}
    records = [
        record(),
        record(outcome="wrong", key=1, corrected={"z": z, "scales": {"log_tau": [4.0, 0.1]}}),
        record(way="shifted", true=off),
        record(way="narrow", true=off, outcome="unsure"),
    ]
    told = table.text(records).split("\n")
    assert (
        "| given draws off by more than 0.12 sd or 7 %: called right | 1 of 2 | 0 | 0 of 60 |"
        in told
    )
    assert "| exact draws and right runs called wrong | 1 of 2 | 0 | 1 of 100 |" in told
    assert (
        "| exact draws: beyond 3 stated errors | 5.00 % of 20, worst 5.0 | ≤ 2 %, 5 | ≤ 3 %, 8 |"
        in told
    )
    assert "| exact draws: scales alone | 50.00 % of 2, worst 4.0 | ≤ 2 %, 5 | ≤ 3 %, 8 |" in told
    assert sum(each.startswith("fault: judged | m_c | shifted") for each in told) == 1
    assert sum(each.startswith("alarm: ") for each in told) == 1


def test_the_table_compares_times_and_counts_what_is_solved():
    seconds = {"plan": 6.0, "sample": 3.0, "check": 9.0}
    solved = {"part": "solved", "way": "", "is_trusted": True, "seconds": seconds}
    off = {"off": True, "scales": {}}
    records = [
        record(**solved),
        record(**solved, model="o_c", key=0),
        record(**solved, model="o_c", key=1, true=off),
        record(part="solved", model="p_c", outcome="refused", true={"off": False, "scales": {}}),
        {"part": "nuts", "model": "m_c", "key": 0, "seconds": {"warm-up": 2.0, "sample": 1.0}},
        {
            "part": "nuts",
            "model": "o_c",
            "key": 0,
            "seconds": {"warm-up": 2.0},
            "extrapolated": {"seconds": 30.0},
        },
    ]
    told = table.text(records)
    assert "| centred hierarchies solved | 1 of 3 |" in told
    assert [ratio for ratio, _ in table.over_nuts(records)] == pytest.approx([0.3, 0.3, 3.0])


def test_results_are_kept_one_by_one(tmp_path):
    results = command.Results(tmp_path / "found.json")
    assert not results.has(model="a")
    results.add({"model": "a", "key": 0})
    results.add({"model": "a", "key": 1})
    assert command.Results(tmp_path / "found.json").has(model="a", key=1)
    assert not results.has(model="a", key=2)
    assert len(results.records) == 2
