"""References of models for `answers.py`: long runs of NumPyro's NUTS in float64, two that must
agree.

Where a model has a twin the two runs are of its two forms, else of two target acceptances; each has
two chains and starts of its own. Rows by the million are reduced first (`answers_reduced`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.answers.case import Case, Grouped
from benchmarks.answers.models import MODELS
from benchmarks.answers.nuts import near
from benchmarks.answers.ours import least_ess, moments
from benchmarks.answers.peers import library
from benchmarks.answers.reduced import left_out, reduced

CHAINS, WARM_UP, DRAWS = 2, 1_000, 12_000
ACCEPTANCES = 0.8, 0.9
JITTER = 0.01
DIGITS, LOOKS = 7, 20


class Long(NamedTuple):
    """A run.

    Attributes:
        draws: of each chain.
        is_dense: the mass.
        acceptance: that its step size aims at.
    """

    draws: int = DRAWS
    is_dense: bool = False
    acceptance: float = ACCEPTANCES[0]


RUNS = {
    "groups_c": Long(4_000),
    "groups_n": Long(8_000, True),
    "few_n": Long(15_000),
    "softmax": Long(8_000),
    "softmax_n": Long(8_000),
    "many_groups": Long(8_000),
}
"""Of each form; what it does not name runs as `Long()` has it."""


def drawn(case: Case, rows: Any, how: Long, seed: int) -> np.ndarray:
    """Return what is compared of a long run, shape (chain, draw, numbers)."""
    infer = library("numpyro.infer")
    kernel = infer.NUTS(
        potential_fn=lambda p: -case.log_density(p, rows),
        dense_mass=how.is_dense,
        target_accept_prob=how.acceptance,
    )
    parallel = "parallel" if jax.local_device_count() >= CHAINS else "sequential"
    run = infer.MCMC(
        kernel,
        num_warmup=WARM_UP,
        num_samples=how.draws,
        num_chains=CHAINS,
        chain_method=parallel,
        progress_bar=False,
    )
    start = near(jax.tree.map(lambda x: jnp.asarray(x, float), case.start), CHAINS, JITTER)
    run.run(jax.random.key(seed), init_params=start, extra_fields=("diverging", "num_steps"))
    extra = run.get_extra_fields()
    steps, diverged = np.mean(extra["num_steps"]), np.sum(extra["diverging"])
    print(f"{case.name}: {steps:.0f} gradients a draw, {diverged} divergences", flush=True)
    return case.summary(run.get_samples(group_by_chain=True))


def compared(runs: list[np.ndarray]) -> dict[str, Any]:
    """Return moments of two runs together, how far apart theirs are, and the least ESS of each."""
    together = np.concatenate([run.reshape(-1, run.shape[-1]) for run in runs])
    mean, sd = moments(together)
    (one_mean, one_sd), (other_mean, other_sd) = (moments(run) for run in runs)
    return {
        "mean": [float(f"{x:.{DIGITS}g}") for x in mean],
        "sd": [float(f"{x:.{DIGITS}g}") for x in sd],
        "means_apart": float(np.max(np.abs(one_mean - other_mean) / sd)),
        "sds_apart": float(np.max(np.abs(one_sd / other_sd - 1))),
        "ess": [round(least_ess(run)) for run in runs],
    }


def reference(case: Case) -> dict[str, Any]:
    """Return the reference of a model, and what it is of."""
    with jax.enable_x64(True):
        raw = case.load()
        rows = {
            name: jnp.asarray(x, float if x.dtype.kind == "f" else x.dtype)
            for name, x in raw.items()
        }
        if case.twin is None:
            how = RUNS.get(case.name, Long())
            forms = [(case, how._replace(acceptance=each)) for each in ACCEPTANCES]
            of = f"target acceptances {ACCEPTANCES[0]} and {ACCEPTANCES[1]}"
        else:
            forms = [(each, RUNS.get(each.name, Long())) for each in (case, MODELS[case.twin])]
            of = "both forms"
        runs = []
        for seed, (form, how) in enumerate(forms):
            given = reduced(form, raw) if isinstance(form, Grouped) and form.is_reduced else form
            runs.append(drawn(given, rows, how, seed))
        found = compared(runs) | {"of": of}
        short = [form for form, _ in forms if isinstance(form, Grouped) and form.is_reduced]
        if isinstance(case, Grouped) and short:
            # What is compared are the numbers of the centred form, as which cases with twins are
            # asked for.
            some = runs[0].reshape(-1, runs[0].shape[-1])[:: runs[0].shape[1] * CHAINS // LOOKS]
            found["log_density_off"] = left_out(case, reduced(case, raw), rows, some)
            found["of"] += ", rows summed by group" + (
                "" if len(short) == len(forms) else " in the second"
            )
        return found
