"""Are local learning coefficients right within their errors, and in how many seconds?

    python -m benchmarks.learning_coefficient --peer-python .venv-devinterp/bin/python

Two models whose finite-n value is known by other means: y = a b x at a b = 0, by quadrature over
(a, b), and a linear network 10 → 5 → 3 of true rank 2 (reduced-rank regression), by Metropolis-
adjusted HMC in NumPy on its sufficient statistics, in two step sizes. Each run has data and a key
of its own. A value is covered if it is within 2 (error ⊕ bias). With `--peer-python`, of an
environment with torch and devinterp, devinterp's SGLD runs on the first linear network at several
rates. With `--bias` two ways to know the bias of one run are compared instead: halved steps, and
`ewsg.check` of the loss. Numbers go to `results/learning_coefficient.json`, or `…_bias.json`.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.record import RESULTS
from benchmarks.timing import load_average

DIMENSIONS, RANK, ROWS = (10, 5, 3), 2, 2_000
THEORY = 12.5
"""Aoyagi and Watanabe (2005) for these dimensions and this rank; d/2 is 32.5."""
RATES = (3e-3, 1e-3, 3e-4)


def product_data(seed: int, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return rows of y = 0 x + noise, and the root a b = t that is nearest to 0."""
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(2, n))
    slope = np.sum(x * y) / np.sum(x * x)
    root = np.sqrt(abs(slope)) * np.array([1.0, np.sign(slope)])
    rows = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    return rows, {"a": np.float32(root[0]), "b": np.float32(root[1])}


def product_value(rows: Any, weights: Any, localization: float, points: int = 3_001) -> float:
    """Return nβ E[L − L*] by quadrature over a and b, on points that are denser near 0."""
    x, y = (np.asarray(rows[name], float) for name in "xy")
    center = [float(weights[name]) for name in "ab"]
    n_beta = len(x) / np.log(len(x))
    reach = 9 / np.sqrt(localization)
    grid = reach * np.sinh(np.linspace(-9, 9, points)) / np.sinh(9)
    a, b, spacing = grid[:, None], grid[None], np.gradient(grid)

    def excess(product: Any) -> Any:
        return n_beta * (0.5 * np.mean(x * x) * product**2 - np.mean(x * y) * product)

    change = excess(a * b) - excess(center[0] * center[1])
    potential = change + localization / 2 * ((a - center[0]) ** 2 + (b - center[1]) ** 2)
    mass = np.exp(potential.min() - potential) * spacing[:, None] * spacing
    return float(np.sum(change * mass) / np.sum(mass))


def product_log_likelihood(w: Any, row: Any) -> jax.Array:
    """Return the log density of one row."""
    return -0.5 * (row["y"] - w["a"] * w["b"] * row["x"]) ** 2


def network_data(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return rows of a linear network, and weights at a minimum of the loss."""
    draw = np.random.default_rng(seed)
    (inputs, hidden, outputs), n = DIMENSIONS, ROWS
    x = draw.normal(size=(n, inputs))
    true = draw.normal(size=(inputs, RANK)) @ draw.normal(size=(RANK, outputs)) / inputs**0.5
    y = x @ true + draw.normal(size=(n, outputs))
    # No fewer hidden units than outputs: least squares is a minimum.
    left, sizes, right = np.linalg.svd(np.linalg.lstsq(x, y, rcond=None)[0], full_matrices=False)
    first, second = np.zeros((inputs, hidden)), np.zeros((hidden, outputs))
    first[:, :outputs], second[:outputs] = left * sizes**0.5, sizes[:, None] ** 0.5 * right
    turn = np.linalg.qr(draw.normal(size=(hidden, hidden)))[0]
    weights = {"first": first @ turn, "second": turn.T @ second}
    rows = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    return rows, {name: value.astype(np.float32) for name, value in weights.items()}


def network_log_likelihood(w: Any, row: Any) -> jax.Array:
    """Return the log density of one row."""
    return -0.5 * jnp.sum((row["y"] - row["x"] @ w["first"] @ w["second"]) ** 2)


@np.errstate(over="ignore", invalid="ignore")
def network_value(
    rows: Any, weights: Any, step: float, steps: int, chains: int = 128
) -> tuple[float, float]:
    """Return nβ E[L − L*] for γ = 1 and its standard error, by HMC that is Metropolis-adjusted."""
    x, y = (np.asarray(rows[name], float) for name in "xy")
    n_beta, second_moment = len(x) / np.log(len(x)), x.T @ x / len(x)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    start = [np.asarray(weights[name], float) for name in ("first", "second")]
    draw = np.random.default_rng(0)

    def loss(w: Any) -> Any:
        off = w[0] @ w[1] - best
        return n_beta / 2 * np.sum(off * (second_moment @ off), axis=(-2, -1))

    def potential(w: Any) -> Any:
        far = sum(np.sum((a - b) ** 2, axis=(-2, -1)) for a, b in zip(w, start, strict=True))
        return loss(w) + far / 2

    def gradient(w: Any) -> Any:
        slope = n_beta * (second_moment @ (w[0] @ w[1] - best))
        pulls = slope @ w[1].swapaxes(1, 2), w[0].swapaxes(1, 2) @ slope
        return [g + a - b for g, a, b in zip(pulls, w, start, strict=True)]

    def energy(w: Any, p: Any) -> Any:
        return potential(w) + sum(np.sum(q**2, axis=(1, 2)) for q in p) / 2

    # A trajectory that leaves is rejected.
    w = [np.repeat(leaf[None], chains, 0) for leaf in start]
    kept = []
    for number in range(steps):
        p = [draw.normal(size=leaf.shape) for leaf in w]
        before, h = energy(w, p), step * draw.uniform(0.8, 1.2)
        moved, q = list(w), [a - h / 2 * g for a, g in zip(p, gradient(w), strict=True)]
        for part in range(32):
            moved = [a + h * b for a, b in zip(moved, q, strict=True)]
            share = 0.5 if part == 31 else 1.0
            q = [a - share * h * g for a, g in zip(q, gradient(moved), strict=True)]
        accepted = np.log(draw.uniform(size=chains)) < before - energy(moved, q)
        w = [np.where(accepted[:, None, None], a, b) for a, b in zip(moved, w, strict=True)]
        if number >= steps // 4:
            kept.append(loss(w))
    means = np.mean(kept, axis=0) - loss(start)
    return float(means.mean()), float(means.std(ddof=1) / chains**0.5)


def judged(result: ewsg.LearningCoefficient, right: float, error: float = 0.0) -> dict[str, Any]:
    """Return what is written of one run."""
    off = result.value - right
    total = float(np.hypot(np.hypot(result.error, result.bias), error))
    return {
        "right": round(right, 4),
        "right_error": round(error, 4),
        "value": round(result.value, 4),
        "error": round(result.error, 4),
        "bias": round(float(result.bias), 4),
        "bias_error": round(result.bias_error, 4),
        "errors_off": round(off / total, 2),
        "covered": bool(abs(off) <= 2 * total),
        "rhat": round(result.rhat, 3),
        "steps": result.num_steps,
        "step_size": float(f"{result.step_size:.3g}"),
        "seconds": round(result.seconds, 1),
    }


def of_products(runs: int) -> list[dict[str, Any]]:
    """Return runs of y = a b x at several n and γ."""
    rows = []
    for seed in range(runs):
        n, localization = (500, 2_000)[seed % 2], (1.0, 0.3, 10.0)[seed % 3]
        data, weights = product_data(seed, n)
        right = product_value(data, weights, localization)
        key = jax.random.key(seed)
        result = ewsg.learning_coefficient(
            key, product_log_likelihood, weights, data, localization=localization, progress=False
        )
        rows.append({"n": n, "localization": localization} | judged(result, right))
        print(rows[-1], flush=True)
    return rows


def of_networks(runs: int, steps: int) -> list[dict[str, Any]]:
    """Return runs of linear networks."""
    rows = []
    for seed in range(runs):
        data, weights = network_data(seed)
        key = jax.random.key(seed)
        result = ewsg.learning_coefficient(
            key, network_log_likelihood, weights, data, progress=False
        )
        both = [network_value(data, weights, h, steps) for h in (0.015, 0.01)]
        right, error = np.mean(both, axis=0)
        apart = abs(both[0][0] - both[1][0]) / np.hypot(both[0][1], both[1][1])
        row = judged(result, float(right), float(error) / 2**0.5)
        rows.append(row | {"references_apart": round(float(apart), 2)})
        print(rows[-1], flush=True)
    return rows


def regression_data(seed: int, n: int, d: int) -> tuple[dict[str, Any], Any]:
    """Return rows of a linear regression, a regular model, and its least-squares weights."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, d))
    y = draw.normal(size=n)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}, best.astype(np.float32)


def regression_log_likelihood(w: Any, row: Any) -> jax.Array:
    """Return the log density of one row."""
    return -0.5 * (row["y"] - row["x"] @ w) ** 2


def regression_value(rows: Any) -> float:
    """Return nβ E[L − L*] for γ = 1, of a normal distribution."""
    x = np.asarray(rows["x"], float)
    curvature = np.linalg.eigvalsh(x.T @ x) / np.log(len(x))
    return float(np.sum(curvature / (curvature + 1)) / 2)


def of_bias(num_steps: int) -> list[dict[str, Any]]:
    """Return what halved steps and a check of the loss say of the bias of chains of one step size.

    Steps are longer, or batches smaller, than a run by itself takes: there is a bias to be seen.
    """
    regression, product = regression_data(0, 1_000, 20), product_data(0, 500)
    network, compared = network_data(0), []
    rights = regression_value(regression[0]), product_value(*product, 1.0)
    rights += (network_value(*network, 0.01, 2_000)[0],)
    cases = (
        ("regression", regression_log_likelihood, regression, 0.01, 100),
        ("y = a b x", product_log_likelihood, product, 0.02, 20),
        ("network", network_log_likelihood, network, 0.005, 200),
    )
    for (name, likelihood, (data, weights), step_size, batch_size), right in zip(
        cases, rights, strict=True
    ):
        halved = ewsg.learning_coefficient(
            jax.random.key(0),
            likelihood,
            weights,
            data,
            step_size=step_size,
            batch_size=batch_size,
            tolerance=1e-9,
            num_steps=num_steps,
            progress=False,
        )
        row = {"model": name, "right": right, "value": halved.value, "error": halved.error}
        row |= {"halved": halved.bias, "halved_error": halved.bias_error}
        row |= {"halved_seconds": halved.seconds}
        row |= of_check(likelihood, weights, data, step_size / 2, batch_size, 2 * num_steps)
        row = {key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()}
        compared.append(row)
        print(compared[-1], flush=True)
    return compared


def of_check(
    likelihood: Any, weights: Any, data: Any, step_size: float, batch_size: int, num_steps: int
) -> dict[str, Any]:
    """Return the bias of λ̂ of chains of one step size as `ewsg.check` tells it, and seconds."""
    temperature, weights = float(np.log(len(data["y"]))), jax.tree.map(jnp.asarray, weights)
    rows = jax.tree.map(jnp.asarray, data)

    def log_prior(w: Any) -> jax.Array:
        leaves = zip(jax.tree.leaves(w), jax.tree.leaves(weights), strict=True)
        return -temperature / 2 * jnp.stack([jnp.sum((a - b) ** 2) for a, b in leaves]).sum()

    def coefficient(w: Any) -> jax.Array:
        changes = jax.vmap(lambda row: likelihood(weights, row) - likelihood(w, row))(rows)
        return jnp.sum(changes) / temperature

    posterior = ewsg.Posterior(likelihood, log_prior)
    scheme = ewsg.dynamics.splitting_scheme(
        "BAOAB", step_size, friction=2 * temperature**0.5, temperature=temperature
    )
    batches = ewsg.gradients.control_variate(posterior, batch_size=batch_size, center=weights)
    options = {"num_chains": 8, "burn_in": num_steps // 3, "thin": 10, "progress": False}
    began = time.perf_counter()
    samples = ewsg.sample(
        jax.random.key(0), ewsg.kernel(scheme, batches), weights, rows, num_steps, **options
    )
    middle = time.perf_counter()
    report = ewsg.check(jax.random.key(1), samples, posterior, rows, of=coefficient)
    ended = time.perf_counter()
    values = samples.predict(lambda w, _: coefficient(w), rows, keep_draws=True)
    row = {"checked_value": float(np.mean(values)), "outcome": str(report.outcome)}
    row |= {"sampling_seconds": middle - began, "check_seconds": ended - middle}
    if (moments := report.corrected) is None:
        return row | {"checked": None, "checked_error": None}
    mean, error = (float(np.ravel(x)[0]) for x in (moments.mean, moments.mean_error))
    return row | {"checked": row["checked_value"] - mean, "checked_error": error}


PEER = """
import json, sys, time
import numpy as np, torch
from devinterp.optim.sgld import SGLD
path, rate, chains, steps, batch = sys.argv[1], *map(float, sys.argv[2:3]), *map(int, sys.argv[3:])
stored = np.load(path)
x, y = torch.tensor(stored["x"]), torch.tensor(stored["y"])
torch.set_num_threads(1)
n = len(x)
n_beta = n / np.log(n)
def loss(w, x, y):
    return 0.5 * ((y - x @ w[0] @ w[1]) ** 2).sum(1).mean()
start = [torch.tensor(stored["first"]), torch.tensor(stored["second"])]
at_start = float(loss(start, x, y))
began, means = time.perf_counter(), []
for chain in range(chains):
    torch.manual_seed(chain)
    w = [torch.nn.Parameter(leaf.clone()) for leaf in start]
    sampler, losses = SGLD(w, lr=rate, nbeta=n_beta, localization=1.0), []
    for step in range(steps):
        rows = torch.randint(n, (batch,))
        value = loss(w, x[rows], y[rows])
        sampler.zero_grad()
        value.backward()
        sampler.step()
        if step >= steps // 3:
            losses.append(float(value))
    means.append(n_beta * (np.mean(losses) - at_start))
print(json.dumps({"rate": rate, "value": float(np.mean(means)),
                  "error": float(np.std(means, ddof=1) / chains ** 0.5),
                  "chains": chains, "steps": steps, "batch_size": batch,
                  "seconds": time.perf_counter() - began}))
"""


def of_peer(python: Path, right: float) -> list[dict[str, Any]]:
    """Return devinterp's SGLD on the first linear network, by rate."""
    data, weights = network_data(0)
    compared = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **data, **weights)
        for rate in RATES:
            options = map(str, (path, rate, 4, 3_000, 200))
            command = [str(python), "-W", "ignore", "-c", PEER, *options]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            row = {name: round(value, 4) for name, value in row.items()}
            off = abs(row["value"] - right)
            compared.append(row | {"right": round(right, 3), "covered": off <= 2 * row["error"]})
            print(compared[-1], flush=True)
    return compared


def main() -> None:
    """Run what is asked for and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="of each model, default 10")
    parser.add_argument("--steps", type=int, default=2_000, help="of the reference's chains")
    parser.add_argument("--peer-python", type=Path, help="an environment with devinterp")
    parser.add_argument("--bias", action="store_true", help="compare two ways to know the bias")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name = "learning_coefficient_bias.json" if options.bias else "learning_coefficient.json"
    out = RESULTS / name if options.out is None else options.out
    if options.bias:
        compared = of_bias(options.steps)
        out.write_text(json.dumps(compared, indent=1) + "\n", encoding="utf-8")
        return
    written = {"theory_of_networks": THEORY, "load_average_before": load_average()}
    written["products"] = of_products(options.runs)
    written["networks"] = of_networks(options.runs, options.steps)
    if options.peer_python is not None:
        right = written["networks"][0]["right"]
        written["devinterp"] = of_peer(options.peer_python, right)
    every = written["products"] + written["networks"]
    written["covered"] = f"{sum(row['covered'] for row in every)} of {len(every)}"
    written["load_average_after"] = load_average()
    out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(written["covered"])


if __name__ == "__main__":
    main()
