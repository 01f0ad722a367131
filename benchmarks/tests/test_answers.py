"""The benchmark of answers: peers get our posterior, when their runs end, and its page."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import record
from benchmarks.answers import by_importance, command, importance, judged, nuts, peers
from benchmarks.answers.cases import CASES
from benchmarks.answers.models import MODELS
from benchmarks.answers.ours import ESS, NUM_CHAINS, Clock
from benchmarks.pages import answers as page

LINEAR, LOGISTIC = CASES["protein"], CASES["bike"]
DRAWS = 5


def rows():
    rng = np.random.default_rng(0)
    return {
        "x": jnp.asarray(rng.normal(size=(12, 3)), jnp.float32),
        "y": jnp.asarray(np.arange(12) % 2, jnp.float32),
    }


@pytest.mark.full
@pytest.mark.parametrize("case", [LINEAR, LOGISTIC], ids=lambda case: case.name)
def test_peers_are_given_our_posterior(case):
    """Differences of the log density between positions: ours, BlackJAX's, NumPyro's, weights'."""
    numpyro_density = pytest.importorskip("numpyro.infer.util").log_density
    data, at = rows(), jnp.asarray([[0.5, -1.0, 0.25], [-0.75, 0.5, 2.0]])
    model = nuts._regression(case)
    ours = [-float(case.posterior.potential(x, data)) for x in at]
    blackjax = [float(case.log_density(x, data)) for x in at]
    numpyro = [
        float(numpyro_density(model, (data["x"], data["y"]), {}, {"weights": x})[0]) for x in at
    ]
    likelihoods = by_importance.log_likelihoods(
        np.asarray(at), np.asarray(data["x"]), np.asarray(data["y"]), is_linear=case.is_linear
    )
    weights = likelihoods - 0.5 * np.asarray(at**2).sum(1)
    for theirs in (blackjax, numpyro, weights):
        assert theirs[1] - theirs[0] == pytest.approx(ours[1] - ours[0], rel=1e-5)


def test_smoothed_weights_lead_to_the_posterior():
    """Draws of a wider law beside an exact one: unweighted half an sd off, a third too wide."""
    data = rows()
    exact = judged.reference(LINEAR, data)
    covariance = np.linalg.inv(
        np.asarray(data["x"], float).T @ np.asarray(data["x"], float) + np.eye(3)
    )
    normal = np.random.default_rng(0).standard_normal((40_000, 3))
    draws = (
        np.array(exact["mean"])
        + 0.5 * np.array(exact["sd"])
        + 1.3 * normal @ np.linalg.cholesky(covariance).T
    )
    mean, sd, says = importance._weighted(LINEAR, data, draws, -0.5 * (normal**2).sum(1))
    assert np.abs(mean - exact["mean"]).max() < 0.03 * max(exact["sd"])
    assert sd == pytest.approx(np.array(exact["sd"]), rel=0.03)
    assert float(re.match(r"k-hat (-?[\d.]+),", says)[1]) < 0.5


def independent():
    """A sampler of independent normals, four gradients a draw, one chain with eight."""
    counts = np.full((DRAWS, NUM_CHAINS), 4)
    counts[:, 0] = 8

    def draw(state):
        rng = np.random.default_rng(state)
        return state + 1, 2 + rng.normal(size=(DRAWS, NUM_CHAINS, 3)), counts

    return peers.Sampler(
        0, lambda state, piece: (state, counts), lambda state: state, draw, 7.0, passes_of_draw=0.5
    )


def test_a_run_ends_at_its_effective_sample_size():
    found = peers.run(independent(), Clock(), 60.0, warm_up=10)
    draws = int(re.search(r"8 x (\d+) draws", found.says)[1])
    assert ESS / NUM_CHAINS - 50 < draws < ESS / NUM_CHAINS + 100
    transitions = 10 + draws
    assert found.passes == 7 + transitions * (7 * 4 + 8) + 0.5 * NUM_CHAINS * transitions
    assert f"{8 * transitions} gradients of all chains at once" in found.says
    assert found.extrapolated is None
    assert np.abs(found.mean - 2).max() < 5 / ESS**0.5
    assert np.abs(found.sd - 1).max() < 5 / (2 * ESS) ** 0.5


def test_what_a_run_had_no_time_for_is_extrapolated_from_its_draws():
    clock = Clock()
    clock.parts["before"] = 10.0  # the time is over: one piece of draws is made
    found = peers.run(independent(), clock, 10.0, warm_up=0)
    ess = float(re.match(r"ESS (\d+)", found.says)[1])
    assert ess < ESS
    assert found.passes == 7 + DRAWS * (36 + 0.5 * NUM_CHAINS)
    assert found.extrapolated["passes"] == pytest.approx(
        7 + (found.passes - 7) * ESS / ess, rel=0.02
    )
    assert "extrapolated" in found.says


def test_a_missing_peer_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "versions", lambda: {"numpyro": "0"})
    assert (
        command.main(
            ["--cases", "bike", "--answers", "blackjax,numpyro", "--out", str(tmp_path / "none")]
        )
        == 2
    )
    assert "missing: blackjax" in capsys.readouterr().err


def test_references_agree_with_themselves():
    for case, reference in json.loads(judged.REFERENCES.read_text()).items():
        # Squares mix slower than means, whose sample size is known: up to some four standard errors
        # of theirs.
        chance = 6 * sum(1 / ess for ess in reference["ess"]) ** 0.5 if case in MODELS else 0.0
        assert reference["means_apart"] < max(0.04, chance), case
        assert reference["sds_apart"] < max(0.02, chance), case
        assert reference.get("log_density_off", 0.0) < 0.1, case


def test_the_page_has_the_stored_numbers():
    result = json.loads((record.RESULTS / "answers.json").read_text())
    text = page.PAGE.read_text()
    assert page.page(text, result) == text, (
        "run python -m benchmarks.answers --draw: the page is out of date"
    )
    text = page.README.read_text()
    assert page.readme(text, result) == text, (
        "run python -m benchmarks.answers --draw: README.md is out of date"
    )


@pytest.mark.full
def test_a_linear_reference_is_exact():
    """Its gradient vanishes at the mean, and its sds are those of the curvature."""
    data = rows()
    found = judged.reference(LINEAR, data)
    slope = LINEAR.posterior.gradient(jnp.asarray(found["mean"], jnp.float32), data)
    assert np.abs(slope).max() < 1e-4
    curvature = jax.hessian(LINEAR.posterior.potential)(jnp.zeros(3), data)
    assert np.asarray(found["sd"]) == pytest.approx(
        np.sqrt(np.diag(np.linalg.inv(curvature))), rel=1e-5
    )
