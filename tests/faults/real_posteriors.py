"""Planted faults of the data sets of the real posteriors and of the page about them."""

from tests.faults.mutant import Mutant

RP = "tests/statistics/test_real_posteriors.py::"
PROBLEMS, SETTINGS, VERDICTS = (
    f"benchmarks/pages/posterior_{name}.py" for name in ("problems", "settings", "verdicts")
)

MUTANTS = [
    Mutant(
        "the way back shifts by means of another scale",
        "ewsg_jax/datasets/_standardise.py",
        "b - scaled @ self.mean",
        "b - last @ self.mean",
        "tests/datasets/test_scaling.py::test_the_way_back_keeps_the_linear_predictor",
    ),
    Mutant(
        "weights come back on another axis",
        "ewsg_jax/datasets/_standardise.py",
        "np.moveaxis(scaled, -1, axis)",
        "scaled",
        "tests/datasets/test_scaling.py::test_the_way_back_of_several_classes",
    ),
    Mutant(
        "heart's classes are left at 1 and 2",
        "ewsg_jax/datasets/_heart.py",
        "table[:, -1] - 1",
        "table[:, -1]",
        "tests/datasets/test_heart.py::test_from_npz_and_from_text",
    ),
    Mutant(
        "letters are numbered by the alphabet, not by their place",
        "ewsg_jax/datasets/_letter.py",
        "] = np.arange(len(letters))",
        "] = sorted(string.ascii_uppercase.index(one) for one in letters)",
        "tests/datasets/test_letter.py::test_some_letters",
        sweep=True,
    ),
    Mutant(
        "other letters are kept",
        "ewsg_jax/datasets/_letter.py",
        "x=np.ascontiguousarray(x[place >= 0])",
        "x=np.ascontiguousarray(x[: (place >= 0).sum()])",
        "tests/datasets/test_letter.py::test_some_letters",
    ),
    Mutant(
        "what is not a number passes the criterion",
        VERDICTS,
        "np.max(np.abs(spread)) <= MOST_SPREAD",
        "not np.max(np.abs(spread)) > MOST_SPREAD",
        RP + "test_the_criterion",
        sweep=True,
    ),
    Mutant(
        "the reference's own error is left out",
        VERDICTS,
        'np.hypot(found["mcse_mean"], known.mcse_mean)',
        'np.array(found["mcse_mean"])',
        RP + "test_the_criterion",
    ),
    Mutant(
        "half the skewness is left out of the stated bias",
        VERDICTS,
        "divergence + third / 2",
        "divergence + third",
        RP + "test_the_stated_bias_of_exponential_weights_is_that_of_all_batches",
        sweep=True,
    ),
    Mutant(
        "the wrong trace of the covariance's slope",
        VERDICTS,
        '"jkk->j"',
        '"kkj->j"',
        RP + "test_the_stated_bias_of_exponential_weights_is_that_of_all_batches",
    ),
    Mutant(
        "lost chains pass",
        VERDICTS,
        'bool(close) and not found["lost_chains"] and',
        "bool(close) and",
        RP + "test_the_criterion",
        sweep=True,
    ),
    Mutant(
        "a method without settings is left out",
        SETTINGS,
        '"svrg_ld": langevin(0.05, batch),',
        "",
        RP + "test_every_method_has_its_settings",
    ),
    Mutant(
        "the parameters are scaled by the inverse",
        PROBLEMS,
        '"x": jnp.asarray(prepared.x @ factor, jnp.float32)',
        '"x": jnp.asarray(prepared.x @ np.linalg.inv(factor).T, jnp.float32)',
        RP + "test_problems_have_unit_scale",
        sweep=True,
    ),
    Mutant(
        "a prepared data set with other numbers is taken",
        "ewsg_jax/datasets/prepared.py",
        "if (found := checksum(x, y, self.kinds)) != self.checksum:",
        "if (found := checksum(x, y, self.kinds)) == self.kinds:",
        "tests/datasets/test_prepared.py::test_one_number_that_differs_is_told",
    ),
]
