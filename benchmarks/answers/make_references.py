"""Summaries of posteriors by others, `tests/references/*.json`: NUTS of NumPyro, or posteriordb's
reference draws.

Made once and stored: `EWSG_JAX_DATA=… python -m benchmarks.answers.make_references` makes them
again (minutes). The models are written here a second time, for NumPyro; the data are prepared by
`benchmarks.pages.posterior_data`.
"""

import argparse
import importlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as distributions
from numpyro.infer import MCMC, NUTS

from benchmarks.pages.posterior_data import PREPARE, posteriordb

array_stats: Any = importlib.import_module("arviz_stats.base").array_stats
ROOT = Path(__file__).resolve().parents[2]
dist: Any = distributions
REFERENCES = ROOT / "tests" / "references"
NUM_CHAINS, NUM_WARM_UP, NUM_DRAWS, SEED = 20, 1_000, 4_000, 0
POSTERIORDB = {
    "kidiq": "kidiq-kidscore_momiq",
    "mesquite": "mesquite-logmesquite",
    "sblrc": "sblrc-blr",
}
"""Posteriors with reference draws, and their names in posteriordb."""


def logistic(x: Any, y: Any) -> None:
    """Logistic regression, weights N(0, I)."""
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


def softmax(x: Any, y: Any) -> None:
    """Softmax regression with three classes, weights N(0, I), a column for each class."""
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([x.shape[1], 3]).to_event(2))
    numpyro.sample("y", dist.Categorical(logits=x @ weights), obs=y.astype(int))


def nuts(name: str, x: Any, y: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return draws (chain, draw, parameter) of NUTS, and how they were made."""
    kernel = NUTS(
        softmax if name == "letter" else logistic, dense_mass=True, target_accept_prob=0.8
    )
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARM_UP,
        num_samples=NUM_DRAWS,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(SEED), x, y, extra_fields=("diverging",))
    draws = np.asarray(mcmc.get_samples(group_by_chain=True)["weights"])
    how = {
        "sampler": "NUTS of NumPyro, dense mass matrix, target acceptance 0.8, float64",
        "versions": {
            package: version(package) for package in ("numpyro", "jax", "arviz-stats", "numpy")
        },
        "python": platform.python_version(),
        "seed": SEED,
        "warm_up": NUM_WARM_UP,
        "divergences": int(np.sum(mcmc.get_extra_fields()["diverging"])),
    }
    return draws.reshape(NUM_CHAINS, NUM_DRAWS, -1), how


def stored_draws(name: str, parameters: tuple[str, ...]) -> tuple[np.ndarray, dict[str, Any]]:
    """Return posteriordb's reference draws (chain, draw, parameter), and how they were made."""
    chains = posteriordb("draws", POSTERIORDB[name])
    draws = np.array([[chain[parameter] for parameter in parameters] for chain in chains]).swapaxes(
        1, 2
    )
    how = {
        "sampler": f"posteriordb's reference draws of {POSTERIORDB[name]} (Stan, every tenth "
        "step, seed 4711)",
        "versions": {package: version(package) for package in ("arviz-stats", "numpy")},
    }
    return draws, how


def summary(draws: np.ndarray, parameters: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation, their Monte Carlo errors, effective sample sizes and R-hat.

    The error of the standard deviation is made from the effective sample size of the squared
    deviations: draws of NUTS are antithetic in the parameters, and not in their squares. (On Pima
    `mcse(method="sd")` of arviz-stats 0.8 gives half of what the chains show between them.)
    """
    axes = {"chain_axis": 0, "draw_axis": 1}
    squares = (draws - draws.mean((0, 1))) ** 2
    sd = draws.std((0, 1), ddof=1)
    ess_sd = array_stats.ess(squares, method="mean", **axes)
    columns = {
        "mean": draws.mean((0, 1)),
        "sd": sd,
        "mcse_mean": array_stats.mcse(draws, method="mean", **axes),
        "mcse_sd": squares.std((0, 1)) / (2 * sd * np.sqrt(ess_sd)),
        "ess_sd": ess_sd,
        "ess_bulk": array_stats.ess(draws, method="bulk", **axes),
        "ess_tail": array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **axes),
        "rhat": array_stats.rhat(draws, **axes),
    }
    return {
        parameter: {key: float(f"{column[i]:.8g}") for key, column in columns.items()}
        for i, parameter in enumerate(parameters)
    }


def main() -> None:
    """Write the summaries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PREPARE))
    jax.config.update("jax_enable_x64", True)
    REFERENCES.mkdir(exist_ok=True)
    for name in parser.parse_args().only.split(","):
        data = PREPARE[name]()
        if name in POSTERIORDB:
            draws, how = stored_draws(name, data.names)
        else:
            draws, how = nuts(name, jnp.asarray(data.x), jnp.asarray(data.y))
        table = summary(draws, data.names)
        result = {
            "posterior": name,
            "how": how | {"chains": draws.shape[0], "draws": draws.shape[1]},
            "data": {
                "rows": len(data.y),
                "preparation": data.about,
                "fingerprint": data.fingerprint,
            },
            "parameters": table,
        }
        (REFERENCES / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        worst = (
            max(row["rhat"] for row in table.values()),
            min(row["ess_bulk"] for row in table.values()),
        )
        print(
            f"{name:9} {len(table)} parameters, n = {len(data.y)}, R-hat {worst[0]:.4f}, ESS "
            f"{worst[1]:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
