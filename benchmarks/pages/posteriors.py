"""Measure every named method on posteriors of real data and write the tables of `docs/posteriors.md`.

`EWSG_JAX_DATA=… python -m benchmarks.pages.posteriors` runs all; `--only sgld,ewsg` and `--posteriors pima` run a
part, whose numbers replace those in `docs/posteriors.json`; `--table` only writes the page anew from that file. It
needs scikit-learn. The references, `tests/references/*.json`, are made once by `benchmarks/make_references.py`.
"""

import argparse
import functools
import json
import os
import platform
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg

ROOT = Path(__file__).parents[2]
NUMBERS, PAGE = ROOT / "docs" / "posteriors.json", ROOT / "docs" / "posteriors.md"
REFERENCES = ROOT / "tests" / "references"
START, END = "<!-- {}: made by benchmarks/pages/posteriors.py -->\n", "<!-- /{} -->"
NUM_CHAINS = 100
BURN_IN, KEPT = 8.0, 120.0
"""Length of a chain's two parts, in the steps over which it forgets."""
OVERDISPERSION = 1.5
"""Chains start at draws of the normal approximation with this many times its standard deviation."""
BATCH_SHARE, SMALLEST_BATCH = 0.25, 4
"""Rows of a batch: a quarter of the data."""
MOST_ERRORS, MOST_SPREAD = 5.0, 0.05
"""The criterion: Monte Carlo standard errors of a mean, relative error of a standard deviation."""
LETTERS, LETTER_ROWS = "BDR", 5_000
"""Softmax regression is on the rows of these letters among the first rows of the file."""
NUM_STRATA = 4
FRICTION = 2.0
METHODS: dict[str, Callable[..., ewsg.Kernel]] = {
    **{name: method.build for name, method in ewsg.METHODS.items()},
    "psgld_corrected": functools.partial(ewsg.psgld, correction=True),
}
"""What is measured: every named method, and one that names its published form's mend."""


class Prepared(NamedTuple):
    """Data as the models take them, in float64.

    Attributes:
        x: inputs, shape (n, p); the intercept is a column of ones.
        y: responses, shape (n,).
        names: the parameters', in the order of a flat position.
        about: what was done to the data, in words.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    about: str

    @property
    def fingerprint(self) -> list[float]:
        """Three numbers that change with any row, column or their order."""
        rows, columns = np.cos(np.arange(len(self.y))), np.sqrt(1 + np.arange(self.x.shape[1]))
        return [rounded(value, 8) for value in (rows @ self.x @ columns, rows @ self.x**2 @ columns, rows @ self.y)]


class Problem(NamedTuple):
    """A posterior of parameters u in which its normal approximation is N(center, I).

    Attributes:
        posterior: of u, an array (d,).
        data: its data, float32.
        center: the mode.
        shifted: `shifted(u)`: the model's own parameters, flat, less `origin`, so that float32 holds their spread.
        origin: the model's own parameters at the mode.
        names: their names.
        bound: a lower bound of the likelihood, where there is one.
    """

    posterior: ewsg.Posterior
    data: dict[str, jax.Array]
    center: jax.Array
    shifted: Callable[[jax.Array], jax.Array]
    origin: np.ndarray
    names: tuple[str, ...]
    bound: Any = None

    @property
    def num_rows(self) -> int:
        """The number of rows, n."""
        return self.data["x"].shape[0]

    @property
    def batch_size(self) -> int:
        """The rows of a batch."""
        return max(SMALLEST_BATCH, round(BATCH_SHARE * self.num_rows))


def posteriordb(kind: str, name: str) -> Any:
    """Return what a zipped file of posteriordb holds."""
    path = Path(os.environ["EWSG_JAX_DATA"]) / "posteriordb" / kind / f"{name}.json.zip"
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def regression_names(num_inputs: int) -> tuple[str, ...]:
    """Return posteriordb's names of a linear model's parameters."""
    return (*(f"beta[{i}]" for i in range(1, num_inputs + 1)), "sigma")


def prepare_kidiq() -> Prepared:
    """Return kidiq, as the model kidscore_momiq takes it."""
    data = posteriordb("data", "kidiq")
    x = np.column_stack([np.ones(data["N"]), data["mom_iq"]])
    return Prepared(x, np.array(data["kid_score"], float), regression_names(2), "score on 1 and the mother's IQ")


def prepare_mesquite() -> Prepared:
    """Return mesquite, as the model logmesquite takes it."""
    data = posteriordb("data", "mesquite")
    logs = [np.log(data[k]) for k in ("diam1", "diam2", "canopy_height", "total_height", "density")]
    x = np.column_stack([np.ones(data["N"]), *logs, data["group"]])
    return Prepared(
        x, np.log(data["weight"]), regression_names(7), "log weight on 1, five logarithms and the group"
    )


def prepare_sblrc() -> Prepared:
    """Return sblrc, as the model blr takes it."""
    data = posteriordb("data", "sblrc")
    return Prepared(np.array(data["X"]), np.array(data["y"]), regression_names(5), "y on X as they are")


def standardised(dataset: ewsg.datasets.Dataset) -> np.ndarray:
    """Return standardised features and an intercept."""
    return ewsg.datasets.standardise(dataset, dataset)[0].with_intercept().x.astype(np.float64)


def prepare_logistic(name: str) -> Prepared:
    """Return Pima or Statlog heart."""
    data = ewsg.datasets.load(name)
    return Prepared(
        standardised(data),
        data.y.astype(float),
        (*data.feature_names, "intercept"),
        "standardised features and an intercept",
    )


def prepare_letter() -> Prepared:
    """Return some letters of the first rows."""
    data = ewsg.datasets.letter()
    first = data.take(np.arange(LETTER_ROWS))
    kinds = [ord(letter) - ord("A") for letter in LETTERS]
    data = first.take(np.flatnonzero(np.isin(first.y, kinds)))
    names = (f"{feature}.{letter}" for feature in (*data.feature_names, "intercept") for letter in LETTERS)
    y = np.searchsorted(kinds, data.y)
    about = (
        f"letters {', '.join(LETTERS)} of the first {LETTER_ROWS:,} rows, standardised features and an intercept"
    )
    return Prepared(standardised(data), y.astype(float), tuple(names), about)


PREPARE: dict[str, Callable[[], Prepared]] = {
    "kidiq": prepare_kidiq,
    "mesquite": prepare_mesquite,
    "sblrc": prepare_sblrc,
    "pima": lambda: prepare_logistic("pima"),
    "heart": lambda: prepare_logistic("heart"),
    "letter": prepare_letter,
}
MODELS = {
    "kidiq": "linear, σ unknown (kidscore_momiq)",
    "mesquite": "linear, σ unknown (logmesquite)",
    "sblrc": "linear, σ unknown (blr)",
    "pima": "logistic, prior N(0, I)",
    "heart": "logistic, prior N(0, I)",
    "letter": "softmax, prior N(0, I)",
}
PRIORS: dict[str, Callable[[Any], Any]] = {
    "kidiq": lambda p: -jnp.log1p((p["sigma"] / 2.5) ** 2),
    "mesquite": lambda p: jnp.zeros_like(p["sigma"]),
    "sblrc": lambda p: -0.5 * (jnp.sum(p["beta"] ** 2) + p["sigma"] ** 2) / 100,
}
"""Log priors of posteriordb's linear models, β and σ > 0."""


class Unwhiten(NamedTuple):
    """θ = map(c + L u): what `Posterior.transformed` takes; `map` is None for the identity."""

    inner: Any
    unravel: Callable[[jax.Array], Any]
    center: jax.Array
    factor: jax.Array

    def forward(self, position: jax.Array) -> Any:
        """Return θ of u."""
        return self.inner.forward(self.unravel(self.center + self.factor @ position))

    def log_det(self, position: jax.Array) -> jax.Array:
        """Return log |∂θ/∂u| up to a constant."""
        return self.inner.log_det(self.unravel(self.center + self.factor @ position))


def normal_approximation(
    posterior: ewsg.Posterior, start: np.ndarray, data: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and the Cholesky factor of the inverse curvature there: damped Newton steps in float64."""
    with jax.enable_x64(True):
        wide = {k: jnp.asarray(v) for k, v in data.items()}
        value, gradient, hessian = (
            jax.jit(of(lambda u, wide: posterior.potential(u, wide))) for of in (lambda f: f, jax.grad, jax.hessian)
        )
        u = jnp.asarray(start, jnp.float64)
        for _ in range(100):
            step = -jnp.linalg.solve(hessian(u, wide), gradient(u, wide))
            scale = 1.0
            while not value(u + scale * step, wide) <= value(u, wide) and scale > 1e-9:
                scale /= 2
            u = u + scale * step
            if jnp.linalg.norm(step) < 1e-10 * (1 + jnp.linalg.norm(u)):
                break
        return np.array(u), np.array(jnp.linalg.cholesky(jnp.linalg.inv(hessian(u, wide))))


def whitened(posterior: ewsg.Posterior, inner: Any, start: np.ndarray, unravel: Any, prepared: Prepared) -> Problem:
    """Return the problem of a posterior of θ = inner(c + L u)."""
    data = {"x": prepared.x, "y": prepared.y}
    identity = Unwhiten(inner, unravel, jnp.zeros(start.size), jnp.eye(start.size))
    mode, factor = normal_approximation(posterior.transformed(identity), start, data)
    to_theta = Unwhiten(inner, unravel, jnp.asarray(mode, jnp.float32), jnp.asarray(factor, jnp.float32))

    def flat(u: jax.Array) -> jax.Array:
        return ravel_pytree(to_theta.forward(u))[0]

    origin = flat(jnp.zeros(start.size))
    return Problem(
        posterior.transformed(to_theta),
        {k: jnp.asarray(v, jnp.float32) for k, v in data.items()},
        jnp.zeros(start.size),
        lambda u: flat(u) - origin,
        np.asarray(origin, np.float64),
        prepared.names,
    )


def linear_problem(name: str, prepared: Prepared) -> Problem:
    """Return a linear model of posteriordb, σ by `bijectors.positive`."""

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        return -jnp.log(p["sigma"]) - 0.5 * ((row["y"] - row["x"] @ p["beta"]) / p["sigma"]) ** 2

    least_squares, *_ = np.linalg.lstsq(prepared.x, prepared.y)
    sigma = np.std(prepared.y - prepared.x @ least_squares)
    inner = ewsg.bijectors.tree({"beta": ewsg.bijectors.identity(), "sigma": ewsg.bijectors.positive()})
    start = np.append(least_squares, sigma + np.log(-np.expm1(-sigma)))
    posterior = ewsg.Posterior(log_likelihood, PRIORS[name])
    return whitened(posterior, inner, start, lambda v: {"beta": v[:-1], "sigma": v[-1]}, prepared)


def logistic_problem(prepared: Prepared) -> Problem:
    """Return logistic regression with prior N(0, I) and weights w = L u, still a linear predictor: x' = Lᵀx."""
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    size = prepared.x.shape[1]
    mode, factor = normal_approximation(model, np.zeros(size), {"x": prepared.x, "y": prepared.y})
    narrow = jnp.asarray(factor, jnp.float32)
    center = jnp.asarray(np.linalg.solve(factor, mode), jnp.float32)
    predictor = model.predictor
    assert predictor is not None
    posterior = ewsg.Posterior.linear(
        predictor.log_likelihood,
        lambda u: model.log_prior(narrow @ u),
        inputs=predictor.inputs,
        residual=predictor.residual,
    )
    data = {"x": jnp.asarray(prepared.x @ factor, jnp.float32), "y": jnp.asarray(prepared.y, jnp.float32)}
    return Problem(posterior, data, center, lambda u: narrow @ (u - center), mode, prepared.names, model.bound)


def softmax_problem(prepared: Prepared) -> Problem:
    """Return softmax regression with prior N(0, I)."""
    shape = (prepared.x.shape[1], len(LETTERS))
    model = ewsg.models.softmax_regression(prior_scale=1.0)
    posterior = ewsg.Posterior(
        lambda w, row: model.log_likelihood(w, row | {"y": row["y"].astype(jnp.int32)}), model.log_prior
    )
    size = shape[0] * shape[1]
    return whitened(posterior, ewsg.bijectors.identity(), np.zeros(size), lambda v: v.reshape(shape), prepared)


def problem(name: str) -> Problem:
    """Return the problem of that name."""
    prepared = PREPARE[name]()
    if name in PRIORS:
        return linear_problem(name, prepared)
    return softmax_problem(prepared) if name == "letter" else logistic_problem(prepared)


class Reference(NamedTuple):
    """What is known of a posterior, and its Monte Carlo errors, in the order of the parameters."""

    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray


def reference(name: str) -> Reference:
    """Return the stored summary of a posterior."""
    stored = json.loads((REFERENCES / f"{name}.json").read_text())
    rows = stored["parameters"].values()
    return Reference(*(np.array([row[field] for row in rows]) for field in Reference._fields))


class Setting(NamedTuple):
    """How a method is run on a problem.

    Attributes:
        step_size: h.
        memory: steps over which a chain forgets: the sum of its autocorrelations, as of a normal posterior.
        options: further arguments, `batch_size` among them.
    """

    step_size: float
    memory: float
    options: dict[str, Any]


def settings(made: Problem) -> dict[str, Setting]:
    """Return a row for each of `METHODS`; a method that cannot run on the problem has the value None there.

    The parameters have unit scale, so Langevin dynamics forgets in 1/h steps; underdamped dynamics of friction 2 in
    2/h; random-walk Metropolis at its best step in 1.4 d (its acceptance then being a quarter).
    """
    d, n = made.center.shape[0], made.num_rows
    batch: dict[str, Any] = {"batch_size": made.batch_size}
    friction: dict[str, Any] = {"friction": FRICTION}
    matrix: dict[str, Any] = {"structure": "diagonal"}
    center: dict[str, Any] = {"center": made.center}
    walk = 2.4 / np.sqrt(d)
    slope = float(np.sqrt(n / made.batch_size) / n)

    def langevin(h: float, options: dict[str, Any]) -> Setting:
        return Setting(h, 1 / h, options)

    def underdamped(h: float, options: dict[str, Any]) -> Setting:
        return Setting(h, 2 / h, options | friction)

    rows: dict[str, Setting | None] = {
        "ld": langevin(0.05, {}),
        "uld": underdamped(0.1, {}),
        "sgld": langevin(0.015, batch),
        "sghmc": underdamped(0.03, batch),
        "ewsg": underdamped(0.03, batch),
        "ewsg_ld": langevin(0.015, batch),
        "ewsg_vr": underdamped(0.025, batch | matrix),
        "nc_sghmc": underdamped(0.05, batch | matrix),
        "cp_sghmc": underdamped(0.03, batch | {"labels": "stratum", "num_strata": NUM_STRATA}),
        "svrg_ld": langevin(0.05, batch),
        "saga_ld": langevin(0.05, batch),
        "cv_ld": langevin(0.025, batch | center),
        "cv_uld": underdamped(0.05, batch | center),
        "svrg_hmc": underdamped(0.1, batch),
        "saga_hmc": underdamped(0.1, batch),
        "svrg2nd_hmc": underdamped(0.15, batch),
        "saga2nd_hmc": underdamped(0.15, batch),
        "sgnht": underdamped(0.03, batch),
        # G is about the inverse of a mean gradient's size; half of that where the damping is of that size.
        "psgld": Setting(0.015 * slope, 1 / 0.015, batch),
        "psgld_corrected": Setting(0.03 * slope, 1 / 0.015, batch | {"damping": slope}),
        # A metric between 1/2 and 3/2, so that Γ counts.
        "sgrld": Setting(
            0.012, 1.2 / 0.012, batch | {"inverse_metric": lambda u, data: 1 + 0.5 * jnp.sin(u - made.center)}
        ),
        # Three chains in one, of which each moves at every third step; H is about 1/(1 + trust region).
        "hamcmc": Setting(0.03, 2 / 0.015, batch | {"memory_size": 3, "trust_region": 1.0, "initial_scale": 0.5}),
        "random_walk_metropolis": Setting(walk, 1.4 * d, {}),
        "flymc": None
        if made.bound is None
        else Setting(
            walk,
            4.0 * d,
            center | {"bound": made.bound, "capacity": n // 2, "resample_probability": 0.2},
        ),
    }
    return rows  # pyright: ignore[reportReturnType]


def run(method: str, made: Problem, setting: Setting, num_chains: int = NUM_CHAINS) -> ewsg.Samples:
    """Run a method on a problem; its moments are of the model's own parameters, less their origin."""
    kernel = METHODS[method](made.posterior, setting.step_size, **setting.options)
    data = made.data
    if setting.options.get("labels") == "stratum":
        data = data | {"stratum": ewsg.cluster(data, NUM_STRATA)}
    burn_in = round(BURN_IN * setting.memory)
    return ewsg.sample(
        jax.random.key(1),
        kernel,
        lambda key: made.center + OVERDISPERSION * jax.random.normal(key, made.center.shape),
        data,
        burn_in + round(KEPT * setting.memory),
        num_chains=num_chains,
        burn_in=burn_in,
        keep=None,
        moments=ewsg.moments(made.shifted),
        progress=False,
    )


def measured(samples: ewsg.Samples, made: Problem) -> dict[str, Any]:
    """Return what a run found; the Monte Carlo error of a mean is that over the independent chains."""
    moments = samples.moments
    assert moments is not None
    means, variances = np.asarray(moments.mean, np.float64), np.asarray(moments.variance, np.float64)
    pooled = moments.pooled()
    return {
        "steps": samples.num_steps,
        "evaluations_per_chain": samples.gradient_evaluations // samples.num_chains,
        "lost_chains": int((samples.diverged_at >= 0).sum()),
        "overflows": int(samples.overflow.sum()),
        "max_rhat": rounded(np.sqrt(1 + np.max(means.var(0, ddof=1) / variances.mean(0))), 5),
        "mean": [rounded(x, 9) for x in np.asarray(pooled.mean) + made.origin],
        "mcse_mean": [rounded(x, 4) for x in means.std(0, ddof=1) / np.sqrt(len(means))],
        "sd": [rounded(x, 6) for x in np.sqrt(np.asarray(pooled.variance))],
    }


def stated_bias(method: str, made: Problem, h: float) -> np.ndarray:
    """Return the bias of the means that is stated beforehand: zero but for exponential weights, there of order h.

    The weights move the mean of the estimate by s (S∇V + ½ E‖δ‖²δ): S its covariance, δ its centred value, s = h/2
    on Langevin dynamics and h/(2γ) on underdamped dynamics. Under the target E S∇V = E ∇·S, and the mean of the
    estimate is zero where a chain is stationary: so parameters of unit scale move by −s (∇·S + ½ E‖δ‖²δ), which is
    evaluated at the mode.
    """
    if not method.startswith("ewsg"):
        return np.zeros_like(made.origin)
    n, b = made.num_rows, made.batch_size

    def centred(u: jax.Array) -> jax.Array:
        gradients = made.posterior.flat_row_gradients(u, made.data)
        return gradients - gradients.mean(0)

    def covariance(u: jax.Array) -> jax.Array:
        return n / b * centred(u).T @ centred(u)

    off = centred(made.center)
    third = n**2 / b**2 * jnp.sum(jnp.sum(off**2, 1, keepdims=True) * off, 0)
    divergence = jnp.einsum("jkk->j", jax.jacfwd(covariance)(made.center))
    s = h / 2 if method == "ewsg_ld" else h / (2 * FRICTION)
    slope = jax.jacfwd(made.shifted)(made.center)
    return -s * np.asarray(slope @ (divergence + third / 2), np.float64)


class Verdict(NamedTuple):
    """How far a run is from the reference.

    Attributes:
        errors: |mean − reference| − |stated bias| over the standard error of both, at least 0.
        spread: sd / reference − 1.
        passes: whether the criterion holds.
    """

    errors: np.ndarray
    spread: np.ndarray
    passes: bool


def judge(found: dict[str, Any], known: Reference) -> Verdict:
    """Compare what a run found with the reference: the criterion of the page."""
    off = np.abs(np.array(found["mean"]) - known.mean) - np.abs(found["stated_bias"])
    errors = np.maximum(off, 0) / np.hypot(found["mcse_mean"], known.mcse_mean)
    spread = np.array(found["sd"]) / known.sd - 1
    # Not a number fails.
    close = np.max(errors) <= MOST_ERRORS and np.max(np.abs(spread)) <= MOST_SPREAD
    return Verdict(errors, spread, bool(close) and not found["lost_chains"] and not found["overflows"])


def rounded(x: Any, digits: int = 3) -> float:
    """Return a number with so many digits."""
    return float(f"{float(x):.{digits}g}")


def load() -> dict[str, Any]:
    """Return what was measured."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {"cells": {}}


def measure(methods: list[str], names: list[str]) -> None:
    """Run methods on posteriors; each is written as soon as it is there."""
    for name in names:
        made, known = problem(name), reference(name)
        rows = settings(made)
        for method in methods:
            setting = rows[method]
            if setting is None:
                continue
            began = time.perf_counter()
            found = measured(run(method, made, setting), made)
            found = {
                "step_size": rounded(setting.step_size),
                "batch_size": setting.options.get("batch_size"),
                "seconds": rounded(time.perf_counter() - began),
                **found,
                "stated_bias": [rounded(x) for x in stated_bias(method, made, setting.step_size)],
            }
            result = load()
            result["machine"] = {"jax": jax.__version__, "python": platform.python_version()}
            result["cells"].setdefault(method, {})[name] = found
            NUMBERS.write_text(json.dumps(result) + "\n")
            verdict = judge(found, known)
            print(
                f"{method:22} {name:9} {'passes' if verdict.passes else 'FAILS ':6}"
                f" errors {np.max(verdict.errors):5.2f}"
                f" sd {np.min(verdict.spread):+.3f} … {np.max(verdict.spread):+.3f}"
                f" (mean {np.mean(verdict.spread):+.3f}), R-hat {found['max_rhat']:.4f}, {found['seconds']:.0f} s",
                flush=True,
            )


def as_table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, ["---"] * len(heads), *rows])


def posteriors_table(result: dict[str, Any]) -> str:
    """Return what each posterior is, and how well its reference is known."""
    rows = []
    for name in PREPARE:
        stored = json.loads((REFERENCES / f"{name}.json").read_text())
        known = reference(name)
        batches = {cells[name]["batch_size"] for cells in result["cells"].values() if name in cells} - {None}
        rows.append(
            [
                name,
                MODELS[name],
                f"{stored['data']['rows']}",
                f"{len(known.mean)}",
                ", ".join(map(str, sorted(batches))),
                "posteriordb" if "posteriordb" in stored["how"]["sampler"] else "NUTS",
                f"{100 * np.max(known.mcse_mean / known.sd):.1f} %",
                f"{100 * np.max(known.mcse_sd / known.sd):.1f} %",
            ]
        )
    heads = ["posterior", "model", "n", "d", "b", "reference", "its error of a mean, in sd", "of an sd"]
    return as_table(heads, rows)


def results_table(result: dict[str, Any]) -> str:
    """Return the largest errors of each method on each posterior, and whether the criterion holds."""
    rows = []
    for method, cells in sorted_methods(result):
        row = [f"`{method}`"]
        for name in PREPARE:
            if name not in cells:
                row.append("–")
                continue
            verdict = judge(cells[name], reference(name))
            text = f"{np.max(verdict.errors):.1f}, {100 * np.max(np.abs(verdict.spread)):.1f} %"
            lost = cells[name]["lost_chains"] + cells[name]["overflows"]
            text += f", {lost} chains lost" if lost else ""
            row.append(text if verdict.passes else f"**fails: {text}**")
        rows.append(row)
    return as_table(["method", *PREPARE], rows)


def settings_table(result: dict[str, Any]) -> str:
    """Return the step size of each method, the evaluations of each chain and the seconds of all."""
    rows = []
    for method, cells in sorted_methods(result):
        steps = [cell["step_size"] for cell in cells.values()]
        low, high = f"{min(steps):.3g}", f"{max(steps):.3g}"
        costs = [f"{cells[name]['evaluations_per_chain']:,}" if name in cells else "–" for name in PREPARE]
        rows.append([f"`{method}`", low if low == high else f"{low} to {high}", *costs])
    return as_table(["method", "h", *PREPARE], rows)


def sorted_methods(result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the measured methods in the order of the library's table."""
    order = list(METHODS)
    return sorted(
        result["cells"].items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its tables renewed."""
    for name, made in (("posteriors", posteriors_table), ("results", results_table), ("settings", settings_table)):
        before, rest = text.split(START.format(name))
        text = before + START.format(name) + made(result) + END.format(name) + rest.split(END.format(name))[1]
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    for names, known in ((arguments.only, METHODS), (arguments.posteriors, PREPARE)):
        if unknown := set(names.split(",")) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: none of {', '.join(known)}")
    if not arguments.table:
        measure(arguments.only.split(","), arguments.posteriors.split(","))
    PAGE.write_text(page(PAGE.read_text(), load()))
