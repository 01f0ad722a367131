"""The models of the benchmark of answers: densities, other forms, rows, and what NUTS is given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import record
from benchmarks.answers import command, estimated, nuts, ours, reduced
from benchmarks.answers.case import Grouped
from benchmarks.answers.models import MODELS

TWINS = [name for name, case in MODELS.items() if case.twin is not None and name < case.twin]
FEW = 400


def few_rows(case):
    """Rows of a model; of those with millions of rows, others of the same kind."""
    rows = MODELS["groups_c" if getattr(case, "is_reduced", False) else case.name].load()
    return {
        name: jnp.asarray(x[:: len(x) // FEW][:FEW], float if x.dtype.kind == "f" else x.dtype)
        for name, x in rows.items()
    }


def position(case, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape)), case.start)


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
def test_both_densities_of_a_model_are_one(case):
    """The posterior's, a likelihood for a row, and the one of all rows that NUTS is given."""
    with jax.enable_x64(True):
        rows, at = few_rows(case), position(case)
        of_rows = jax.vmap(lambda row: case.posterior.log_likelihood(at, row))(rows)
        assert of_rows.shape == (FEW,)
        expected = float(case.posterior.log_prior(at) + of_rows.sum())
        assert float(case.log_density(at, rows)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", TWINS)
def test_both_forms_are_of_one_law(name):
    """A point of one form goes to the other: summaries agree, densities by the change."""
    centred, other = MODELS[name], MODELS[MODELS[name].twin]
    assert other.twin == name
    effects = "e" if "e" in centred.start else "w"
    with jax.enable_x64(True):
        rows, differences = few_rows(centred), []
        for seed in range(2):
            at = position(other, seed)
            moved = at | {effects: at.get("mu", 0.0) + jnp.exp(at["log_tau"]) * at[effects]}
            change = at[effects].size * at["log_tau"]
            differences.append(
                float(other.log_density(at, rows) - centred.log_density(moved, rows) - change)
            )
            as_draws = [jax.tree.map(lambda x: np.asarray(x)[None, None], x) for x in (at, moved)]
            assert other.summary(as_draws[0]) == pytest.approx(
                centred.summary(as_draws[1]), rel=1e-12
            )
        assert differences == pytest.approx([0.0, 0.0], abs=1e-9)


def test_derivatives_of_the_likelihood_are_slopes_of_each_other():
    eta, y, step = np.linspace(-3, 3, 7), np.array([0, 1, 0, 1, 1, 0, 1.0]), 1e-4
    found, above, below = (reduced.derivatives(x, y) for x in (eta, eta + step, eta - step))
    assert found[0] == pytest.approx(y * eta - np.log1p(np.exp(eta)))
    assert len(found) == reduced.POWERS[0] + 1
    for each, up, down in zip(found[1:], above, below, strict=False):
        assert each == pytest.approx((up - down) / (2 * step), abs=1e-6)


@pytest.mark.full
def test_rows_reduced_to_sums_have_the_same_density():
    """Within several widths of the centre, where the density is largest for mean and scale."""
    with jax.enable_x64(True):
        case, other = MODELS["groups_c"], MODELS["groups_n"]
        assert isinstance(case, Grouped)
        assert isinstance(other, Grouped)
        rows = case.load()
        short = reduced.reduced(case, rows)
        given = {
            name: jnp.asarray(x, float if x.dtype.kind == "f" else x.dtype)
            for name, x in rows.items()
        }
        slope = jax.grad(case.log_density)(short.start, given)
        assert float(jnp.abs(slope["w"]).max()) < 1e-3
        rng = np.random.default_rng(0)
        draws = []
        for _ in range(4):
            at = {
                "e": short.start["e"] + 0.3 * rng.normal(size=300),  # its widths are 0.2
                "log_tau": short.start["log_tau"] + 0.1,
                "mu": short.start["mu"],
                "w": short.start["w"] + 0.01 * rng.normal(size=5),  # and 0.01
            }
            draws.append(np.concatenate([np.ravel(x) for x in jax.tree.leaves(at)]))
        assert reduced.left_out(case, short, given, np.array(draws)) < 0.02
        # The other form is of the same law, and starts at the same place.
        turned = reduced.reduced(other, rows)
        assert np.asarray(other.effects(turned.start)) == pytest.approx(
            np.asarray(short.start["e"]), rel=1e-12
        )
        change = 300 * short.start["log_tau"]
        there = float(turned.log_density(turned.start, None) - change)
        assert there == pytest.approx(float(short.log_density(short.start, None)), rel=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("name", ["few_c", "softmax_n", "irt"])
def test_nuts_is_given_the_density_of_the_model(name):
    numpyro_density = pytest.importorskip("numpyro.infer.util").log_density
    case = MODELS[name]
    with jax.enable_x64(True):
        rows, model = few_rows(case), nuts._density(case)
        points = [position(case, seed) for seed in range(2)]
        theirs = [float(numpyro_density(model, (rows,), {}, at)[0]) for at in points]
        ours = [float(case.log_density(at, rows)) for at in points]
        assert theirs[1] - theirs[0] == pytest.approx(ours[1] - ours[0], rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("num_chains", [1, 4])
def test_nuts_as_it_comes_finds_a_model(num_chains):
    pytest.importorskip("numpyro")
    case = MODELS["robust"]
    data = jax.tree.map(jnp.asarray, case.load())
    found = nuts.numpyro_as_it_comes(case, data, 300.0, num_chains)[nuts.as_it_comes(num_chains)]
    reference = command.judged.known("robust")
    assert found.more["least_ess"] >= ours.ESS
    assert np.abs((found.mean - reference["mean"]) / reference["sd"]).max() < 0.2
    assert found.more["gradients_in_step"] > 1_000


def test_what_nuts_takes_of_many_rows_is_told_by_fewer(monkeypatch, tmp_path):
    """Gradients of the pilot times the seconds of one; without a pilot an error names it."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    case = MODELS["many_rows"]
    rows = few_rows(case)
    (tmp_path / "answers.json").write_text('{"cases": {}}')
    with pytest.raises(ValueError, match="groups_c, which must be answered before"):
        estimated.estimated(case, rows, 4)
    name = nuts.as_it_comes(4)
    stored = f'{{"cases": {{"groups_c": {{"{name}": {{"gradients_in_step": 20000}}}}}}}}'
    (tmp_path / "answers.json").write_text(stored)
    found = estimated.estimated(case, rows, 4)[name]
    expected = found.parts["compile"] + 20_000 * found.more["gradient_seconds"]
    assert found.extrapolated == {"seconds": pytest.approx(expected), "passes": 80_000.0}
    assert found.mean is None


def test_a_clock_counts_programs_and_skips_what_is_not_the_answers():
    clock = ours.Clock()
    jax.jit(lambda x: x * 3.0 + 17.0)(jnp.ones(3))
    clock.skip()
    jax.jit(lambda x: x * 5.0 - 18.0)(np.ones(3, np.float32))
    clock.tick("program")
    clock.tick("nothing")
    assert clock.programs == {"program": 1, "nothing": 0}
    assert set(clock.parts) == set(clock.told()["cpu"]) == {"program", "nothing"}
