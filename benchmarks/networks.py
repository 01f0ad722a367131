"""Predictions of networks: `networks.fit` against sklearn-contrib-bde, a deep ensemble and Laplace.

Regression on airfoil and bike with a network d-16-16-16-16-2, and the digits of scikit-learn with a
small convolutional network, N(0, 1) on all weights, on several splits; `cold` and `colder` are
`networks.fit` at temperatures 0.1 and 0.03, for classes (0.03 was chosen on two other splits). Each
cell, a method on a data set and a split, runs in a process of its own, one at a time; what is in
the result is not run again. bde needs an environment of its own: `--bde-python PATH`, in which
sklearn-contrib-bde==1.0.2 is installed; without it its cells are left out.

`networks.fit` has the time that bde took on the same split, or a share of it, so that a slow or
busy machine changes both. bde has its README's steps and learning rate, with ten members and these
layers. NLL is that of the mixture over all draws of all members; for bde 200 or 1,000 draws of a
member (`n_thinning` 10 or 2) give the same to three digits.

    python -m benchmarks.networks --bde-python .venv-bde/bin/python
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MEMBERS = 10
ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"


class Setting(NamedTuple):
    """What is compared on a data set.

    Attributes:
        seconds: time of `networks.fit` if bde has not run, four times that of other methods.
        share: time of `networks.fit` as a share of bde's.
        epochs: bde's epochs of Adam.
        learning_rate: bde's.
        steps: bde's steps of warm-up and of sampling.
    """

    seconds: float
    share: float = 1.0
    epochs: int = 200
    learning_rate: float = 1e-3
    steps: tuple[int, int] = (5_000, 2_000)


SETTINGS = {
    "airfoil": Setting(25.0),
    "bike": Setting(34.0, 0.25, epochs=1_000, learning_rate=5e-3, steps=(2_500, 1_000)),
    "digits": Setting(60.0),
}
METHODS = ("bde", "fit", "cold", "colder", "ensemble", "laplace")
TEMPERATURES = {"fit": 1.0, "cold": 0.1, "colder": 0.03}
"""T of exp(−V/T), 1 for the posterior. 0.1 was tried first; 0.03 had the lower calibration error
and mean NLL on splits 5 and 6, which are not in the table."""


def split(name: str, seed: int) -> dict[str, np.ndarray]:
    """Return training and test rows, 80 and 20 %, by the training part's means and sds."""
    if name == "digits":
        from sklearn.datasets import load_digits

        images, y = load_digits(return_X_y=True)
        x, y = images.reshape(-1, 8, 8, 1) / 16.0, np.asarray(y)
    else:
        with np.load(Path(os.environ["EWSG_JAX_DATA"]) / f"{name}.npz") as stored:
            x, y = stored["X"].astype(np.float64), stored["y"].astype(np.float64)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(0.8 * len(y))])
    if name != "digits":
        scale = np.where(x[train].std(0) > 0, x[train].std(0), 1.0)
        x = (x - x[train].mean(0)) / scale
        y = (y - y[train].mean()) / y[train].std()
    x, y = x.astype(np.float32), y.astype(np.int32 if name == "digits" else np.float32)
    return {"x": x[train], "y": y[train], "new_x": x[test], "new_y": y[test]}


def network(name: str, inputs: int) -> tuple[Any, Any]:
    """Return `apply(params, x)` of one row and `init(key)`."""
    import jax
    import jax.numpy as jnp

    def dense(key: Any, a: int, b: int) -> dict[str, Any]:
        return {"kernel": jax.random.normal(key, (a, b)) / np.sqrt(a), "bias": jnp.zeros(b)}

    if name == "digits":

        def init(key: Any) -> Any:
            keys = jax.random.split(key, 3)
            kernel = jax.random.normal(keys[0], (3, 3, 1, 8)) / 3
            first = {"kernel": kernel, "bias": jnp.zeros(8)}
            return {
                "conv": first,
                "hidden": dense(keys[1], 128, 32),
                "last": dense(keys[2], 32, 10),
            }

        def apply(params: Any, x: Any) -> Any:
            names = ("NHWC", "HWIO", "NHWC")
            image = jax.lax.conv_general_dilated(
                x[None], params["conv"]["kernel"], (2, 2), "SAME", dimension_numbers=names
            )
            x = jax.nn.relu(image[0] + params["conv"]["bias"]).ravel()
            x = jax.nn.relu(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
            return x @ params["last"]["kernel"] + params["last"]["bias"]

        return apply, init

    sizes = [inputs, 16, 16, 16, 16, 2]

    def init_dense(key: Any) -> Any:
        keys = jax.random.split(key, len(sizes) - 1)
        return [dense(k, a, b) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]

    def apply_dense(params: Any, x: Any) -> Any:
        for number, layer in enumerate(params):
            x = x @ layer["kernel"] + layer["bias"]
            x = jax.nn.relu(x) if number < len(params) - 1 else x
        return x

    return apply_dense, init_dense


def ours(method: str, name: str, seed: int, seconds: float) -> dict[str, Any]:
    """Return the scores of a method of this library."""
    import jax
    import jax.numpy as jnp

    import ewsg_jax as ewsg
    from ewsg_jax.networks._train import train

    rows = split(name, seed)
    data, x, y = {"x": rows["x"], "y": rows["y"]}, rows["new_x"], rows["new_y"]
    apply, init = network(name, rows["x"].shape[-1])
    classes = name == "digits"
    options: dict[str, Any] = {"likelihood": "categorical" if classes else "normal"}
    key, details = jax.random.key(seed), {}
    began = time.perf_counter()
    if method in TEMPERATURES:
        temperature = TEMPERATURES[method]
        options |= {"seconds": seconds, "num_members": MEMBERS, "temperature": temperature}
        fitted = ewsg.networks.fit(key, apply, init, data, **options)
        model, draws = fitted.model, fitted.samples.finite_draws
        details = {"report": str(fitted.report)}
    else:
        of_init, of_training, of_draws = jax.random.split(key, 3)
        model = ewsg.networks.posterior(apply, init(of_init), data, **options)
        count = MEMBERS if method == "ensemble" else 1
        positions = [init(k) for k in jax.random.split(of_init, count)]
        members = jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)
        arrays = jax.tree.map(jnp.asarray, data)
        trained = train(of_training, model, members, arrays, seconds).members
        draws = jax.tree.map(lambda leaf: leaf[:, None], trained)
        if method == "laplace":
            last = "last" if classes else "4"
            params = jax.tree.map(lambda leaf: leaf[0], trained)
            head = ewsg.networks.posterior(apply, params, data, sampled=last, **options)
            approximation = ewsg.networks.laplace(head.posterior, head.position, arrays)
            model, draws = head, approximation.draws(of_draws, 200).finite_draws
    seconds = time.perf_counter() - began
    return scores(model, draws, x, y) | {"seconds": seconds} | details


def scores(model: Any, draws: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return NLL of the mixture over draws, those of a member and of a draw, and RMSE, or accuracy
    and ECE.
    """
    import jax

    from ewsg_jax import diagnostics

    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), draws)
    density = jax.jit(lambda p: model.log_density(p, {"x": x, "y": y}))
    known = np.asarray(jax.lax.map(density, flat), np.float64)
    scored = of_mixture(known.reshape(*jax.tree.leaves(draws)[0].shape[:2], -1))
    predicted = jax.lax.map(jax.jit(lambda p: model.predict(p, x)), flat)
    if predicted.probabilities is None:
        error = np.asarray(predicted.mean, np.float64).mean(0) - y
        return scored | {"rmse": float(np.sqrt(np.mean(error**2)))}
    probabilities = np.asarray(predicted.probabilities, np.float64).mean(0)
    calibrated = diagnostics.calibration(probabilities, y)
    return scored | {
        "accuracy": float(np.mean(probabilities.argmax(1) == y)),
        "ece": calibrated.expected_calibration_error,
    }


def of_mixture(known: np.ndarray) -> dict[str, Any]:
    """Return the NLLs by log densities, shape (member, draw, row)."""
    from scipy.special import logsumexp

    def nll(densities: np.ndarray) -> float:
        return float(-np.mean(logsumexp(densities, axis=-2) - np.log(densities.shape[-2])))

    flat = known.reshape(-1, known.shape[-1])
    of_parts = {"nll_of_a_member": nll(known), "nll_of_a_draw": float(-known.mean())}
    return {"nll": nll(flat), "draws": len(flat)} | of_parts


def bde(name: str, seed: int, quick: bool) -> dict[str, Any]:
    """Return the scores of sklearn-contrib-bde, in its environment."""
    # Not installed in the environment that is checked.
    from bde import BdeRegressor  # type: ignore[import-not-found]

    rows, setting = split(name, seed), SETTINGS[name]
    shorten = 50 if quick else 1
    warm_up, steps = (count // shorten for count in setting.steps)
    began = time.perf_counter()
    model = BdeRegressor(
        hidden_layers=[16, 16, 16, 16],
        n_members=MEMBERS,
        seed=seed,
        epochs=setting.epochs // shorten,
        lr=setting.learning_rate,
        warmup_steps=warm_up,
        n_samples=steps,
        n_thinning=10,
    )
    model.fit(x=rows["x"], y=rows["y"])
    seconds = time.perf_counter() - began
    output = np.asarray(model.predict(rows["new_x"], raw=True), np.float64)
    mean, sd = output[..., 0], np.logaddexp(0, output[..., 1]) + 1e-6
    y = rows["new_y"].astype(np.float64)
    known = -0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    rmse = float(np.sqrt(np.mean((mean.mean((0, 1)) - y) ** 2)))
    return of_mixture(known) | {"rmse": rmse, "seconds": seconds}


def is_for(method: str, name: str) -> bool:
    """Return whether a method is one for a data set: bde for regressions, low temperatures for
    classes. A network that says the noise of a regression has no cold posterior: it says none.
    """
    if method == "bde":
        return name != "digits"
    return name == "digits" or TEMPERATURES.get(method, 1.0) == 1


def time_of(method: str, name: str, bde_seconds: float | None) -> float:
    """Return the time that a method of this library has."""
    setting = SETTINGS[name]
    if method not in TEMPERATURES:
        return setting.seconds / 4
    # What it measures at its end is beyond its time.
    return setting.seconds if bde_seconds is None else 0.97 * setting.share * bde_seconds


def table(cells: dict[str, Any]) -> str:
    """Return a line for each data set and method: the mean over splits, and its spread."""
    lines = []
    for name in SETTINGS:
        for method in METHODS:
            done = [one for key, one in cells.items() if key.startswith(f"{name} {method} ")]
            if not done:
                continue
            parts = []
            for score in ("nll", "nll_of_a_member", "rmse", "accuracy", "ece", "seconds"):
                values = np.array([one[score] for one in done if score in one])
                if len(values):
                    parts.append(f"{score} {values.mean():.3f} ± {values.std():.3f}")
            lines.append(f"{name} {method} ({len(done)} splits): {', '.join(parts)}")
    return "\n".join(lines)


def main() -> None:
    """Run what is not in the result yet, and print the table."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    reader.add_argument("--splits", type=int, default=5)
    reader.add_argument("--data", default=",".join(SETTINGS), help="default %(default)s")
    reader.add_argument("--methods", default=",".join(METHODS), help="default %(default)s")
    reader.add_argument("--bde-python", help="the interpreter of an environment with bde")
    reader.add_argument("--quick", action="store_true", help="short runs: shows that all runs")
    reader.add_argument("--out", type=Path, default=RESULTS / "networks.json")
    reader.add_argument("--cell", help=argparse.SUPPRESS)
    reader.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = reader.parse_args()
    if options.cell:
        method, name, seed = options.cell.split()
        if method == "bde":
            print(json.dumps(bde(name, int(seed), options.quick)))
        else:
            print(json.dumps(ours(method, name, int(seed), options.seconds)))
        return
    cells = json.loads(options.out.read_text()) if options.out.exists() else {}
    for seed in range(options.splits):
        for name in options.data.split(","):
            for method in options.methods.split(","):
                key = f"{name} {method} {seed}"
                left_out = method == "bde" and not options.bde_python
                if key in cells or left_out or not is_for(method, name):
                    continue
                python = options.bde_python if method == "bde" else sys.executable
                seconds = cells.get(f"{name} bde {seed}", {}).get("seconds")
                seconds = 4.0 if options.quick else time_of(method, name, seconds)
                command = [python, "-m", "benchmarks.networks", "--cell", f"{method} {name} {seed}"]
                command += ["--seconds", str(seconds)]
                flags = "--xla_force_host_platform_device_count=2" if method == "bde" else ""
                load = os.getloadavg()[0]
                done = subprocess.run(
                    command + ["--quick"] * options.quick,
                    cwd=ROOT,
                    env=os.environ | {"XLA_FLAGS": flags},
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    print(f"{key} failed: {done.stderr[-2000:]}", file=sys.stderr)
                    continue
                cells[key] = json.loads(done.stdout.splitlines()[-1]) | {"load": load}
                options.out.write_text(json.dumps(cells, indent=1, sort_keys=True) + "\n")
                print(key, {k: v for k, v in cells[key].items() if k != "report"}, flush=True)
    print(table(cells))


if __name__ == "__main__":
    main()
