"""Simulation-based calibration of three NumPyro models through NumPyro's `MCMC`, as JSON.

    python -m benchmarks.answers.calibrated

Stored ranks are kept: a run goes on where another ended.

Parameters are drawn from the prior and data from the model; chains of `ewsg_jax.numpyro_kernel`
sample the posterior, `chain_method="vectorized"`, and each parameter's rank among thinned draws is
stored. Ranks are uniform if the posterior is right (Talts, Betancourt, Simpson, Vehtari & Gelman
2018); χ² over ten bins says how far they are from it.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC
from scipy import stats

import ewsg_jax as ewsg
from benchmarks.record import RESULTS

CHAINS, DRAWS, THIN, BURN_IN, BINS, CHUNK = 4, 24, 50, 600, 10, 20
"""Chains; kept draws of each; steps between them, and before them; bins of the χ² test; simulations
between two writes. By hand: draws so far apart are nearly independent, as ranks must be."""
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2)).astype(np.float32)
GROUP = RANDOM.integers(6, size=60)


def regression(x: Any, y: Any = None) -> None:
    """A linear regression of unknown noise."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    log_noise = numpyro.sample("log_noise", dist.Normal(0.0, 0.3))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, jnp.exp(log_noise)), obs=y)


def counts(x: Any, y: Any = None) -> None:
    """A Poisson regression."""
    w = numpyro.sample("w", dist.Normal(0.0, 0.5).expand([2]).to_event(1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Poisson(jnp.exp(x @ w)), obs=y)


def groups(group: Any, y: Any = None) -> None:
    """Six effects of known spread about an unknown mean."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("groups", 6):
        effect: Any = numpyro.sample("effect", dist.Normal(mean, 0.7))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)


class Case(NamedTuple):
    """A model, its inputs, and the kernel of its posterior."""

    model: Callable[..., None]
    inputs: Any
    kernel: Callable[[ewsg.Posterior], ewsg.Kernel]


def full(step_size: float) -> Callable[[ewsg.Posterior], ewsg.Kernel]:
    """Return underdamped dynamics with full gradients, whose bias is far below a rank."""
    return lambda posterior: ewsg.uld(posterior, step_size, friction=4.0, integrator="BAOAB")


CASES = {
    "regression": Case(regression, X, full(0.06)),
    "counts": Case(counts, X, full(0.05)),
    "groups": Case(groups, GROUP, full(0.12)),
}


def ranks(case: Case, key: jax.Array, first: int, simulations: int) -> Iterator[dict[str, Any]]:
    """Yield each number's ranks among CHAINS · DRAWS draws, in CHUNK simulations at once from the
    first on.
    """
    truth: Any = numpyro.infer.Predictive(case.model, num_samples=simulations)(key, case.inputs)
    bridged = ewsg.from_numpyro(case.model, case.inputs, truth["y"][0])
    start = jax.tree.map(lambda x: jnp.zeros((CHAINS, *x.shape)), bridged.position)

    @jax.jit
    @jax.vmap
    def draws(key: jax.Array, y: jax.Array) -> Any:
        mcmc = MCMC(
            ewsg.numpyro_kernel(case.kernel(bridged.posterior)),
            num_warmup=BURN_IN,
            num_samples=DRAWS * THIN,
            thinning=THIN,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, case.inputs, y, init_params=start)
        return mcmc.get_samples()

    for done in range(first, simulations, CHUNK):
        numbers = jnp.arange(done, done + CHUNK) % simulations
        keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)
        found: dict[str, list[int]] = {}
        for name, values in draws(keys, truth["y"][numbers]).items():
            below = (np.asarray(values) < np.asarray(truth[name][numbers])[:, None]).sum(1)
            for k, of_one in enumerate(below.reshape(CHUNK, -1)[: simulations - done].T):
                found[f"{name}[{k}]"] = of_one.tolist()
        yield found


def uniformity(of_one: Sequence[int]) -> float:
    """Return the p-value of χ² over BINS bins of ranks, which hold nearly as many values each."""
    edges = np.linspace(-0.5, CHAINS * DRAWS + 0.5, BINS + 1)
    expected, _ = np.histogram(range(CHAINS * DRAWS + 1), edges)
    expected = expected * len(of_one) / (CHAINS * DRAWS + 1)
    return float(stats.chisquare(np.histogram(of_one, edges)[0], expected).pvalue)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS / "calibrated.json")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    text = json.loads(options.out.read_text()) if options.out.exists() else {}
    same = {"simulations": options.simulations, "draws": CHAINS * DRAWS, "apart": THIN}
    results = text["results"] if same.items() <= text.items() else {}
    for number, (name, case) in enumerate(CASES.items()):
        of_numbers = results.get(name, {}).get("ranks", {})
        first = len(next(iter(of_numbers.values()), []))
        key = jax.random.key(number)
        for of_chunk in ranks(case, key, first, options.simulations):
            for one, some in of_chunk.items():
                of_numbers.setdefault(one, []).extend(some)
            p = {one: round(uniformity(values), 4) for one, values in of_numbers.items()}
            results[name] = {"p": p, "ranks": of_numbers}
            options.out.write_text(json.dumps(same | {"results": results}) + "\n")
        print(name, results[name]["p"], flush=True)


if __name__ == "__main__":
    main()
