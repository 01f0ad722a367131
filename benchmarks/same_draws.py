"""Whether two versions of the library draw the same: every method with every row law, at fixed
seeds, bit for bit.

    python -m benchmarks.same_draws store before.npz       in the one version
    python -m benchmarks.same_draws compare before.npz     in the other

`compare` prints the runs that differ, by how much, and those that only one version can make. For
changes that are to leave the randomness and the arithmetic as they are; both are to be made on one
machine, with one JAX.
"""

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg

ROWS, STEPS, CHAINS = 37, 40, 3
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
DATA = {"x": X, "y": (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(np.float32)}
POSITION = np.array([0.3, -0.1, 0.2], np.float32)
MASS = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]], np.float32)


def options() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return the runs: a method's name, what is special in it, and its options."""
    odds = jnp.linspace(1.0, 2.0, ROWS)
    own = {
        "rows": {
            **{law: law for law in ("blocks", "epochs", "block_epochs", "block_sweeps")},
            "probability": ewsg.rows.by_probability(odds),
            "leverage": ewsg.rows.leverage(DATA["x"], np.eye(3, dtype=np.float32)),
        },
        "replace": {"subset": False},
        "inverse_mass": {"mass": MASS},
        "carry_index": {"carried": True},
        "option": {"option I": "I"},
        "correction": {"corrected": True},
        "structure": {"diagonal": "diagonal", "low rank": "low_rank"},
        "covariance": {"kept": "kept"},
        "balance": {"noise": "noise"},
        "noise": {"rademacher": "rademacher"},
        "integrator": {},
    }
    for name, method in ewsg.METHODS.items():
        accepted = inspect.signature(method.build).parameters
        yield name, "plain", {}
        for integrator in method.integrators:
            yield name, str(integrator), {"integrator": integrator}
        for argument, values in own.items():
            if argument in accepted:
                for what, value in values.items():
                    yield name, what, {argument: value}
        if "num_proposals" in accepted:
            yield name, "longer chain", {"num_proposals": 3}
            yield name, "weights of all batches", {"num_proposals": float("inf"), "batch_size": 1}
            yield name, "longer chain, carried", {"num_proposals": 2, "carry_index": True}
        if "temperature" in accepted:
            yield (
                name,
                "scheduled",
                {"step_size": lambda step: 0.05 / (1 + 0.1 * step), "temperature": 0.5},
            )


def runs() -> Iterator[tuple[str, Any]]:
    """Return what each run is called, and its draws or the error that it raises."""
    model = ewsg.models.logistic_regression(prior_scale=2.0)
    key = jax.random.key(3)
    data = {k: jnp.asarray(v, float) for k, v in DATA.items()}
    start = jnp.asarray(POSITION, float)

    def made(name: str, chosen: dict[str, Any]) -> Any:
        method = ewsg.METHODS[name]
        given = {**method.example, **chosen}
        return method.build(model, given.pop("step_size", 0.05), **given)

    def drawn(kernel: Any, **more: Any) -> Any:
        found = ewsg.sample(
            key, kernel, start, data, STEPS, num_chains=CHAINS, progress=False, **more
        )
        members = (
            [found] if isinstance(found, ewsg.Samples) else [found[i] for i in range(len(kernel))]
        )
        return [
            np.stack(each)
            for each in zip(
                *((np.asarray(m.position), np.asarray(m.gradient_evaluations)) for m in members),
                strict=True,
            )
        ]

    def grid(name: str, chosen: dict[str, Any]) -> Any:
        return drawn(ewsg.stack([made(name, chosen | {"step_size": h}) for h in (0.05, 0.02)]))

    for name, what, chosen in options():
        yield f"{name}, {what}", lambda name=name, chosen=chosen: drawn(made(name, chosen))
        if what in ("plain", "epochs", "probability") and name not in (
            "flymc",
            "random_walk_metropolis",
            "ld",
            "uld",
        ):
            yield (
                f"{name}, {what}, one batch for all chains",
                lambda name=name, chosen=chosen: drawn(made(name, chosen), shared_minibatch=True),
            )
        if what in ("plain", "epochs", "mass", "longer chain"):
            yield f"{name}, {what}, a stack", lambda name=name, chosen=chosen: grid(name, chosen)


def made_here(only: str) -> dict[str, np.ndarray]:
    """Return the draws, by the names of their runs: of those whose name holds a string."""
    found: dict[str, np.ndarray] = {}
    for number, (name, run) in enumerate(each for each in runs() if only in each[0]):
        try:
            position, evaluations = run()
        except (TypeError, ValueError) as error:
            found[f"{name}: refused"] = np.array(str(error))
            continue
        found[name], found[f"{name}: evaluations"] = position, evaluations
        if number % 25 == 0:
            print(f"{number} runs", file=sys.stderr, flush=True)
            jax.clear_caches()
    return found


def main() -> int:
    """Store draws, or compare them with those that are stored."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("store", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--double", action="store_true", help="in float64")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        help="relative, for changes of rounding (default: 0)",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose name holds it")
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", chosen.double)
    found = made_here(chosen.only)
    if chosen.what == "store":
        np.savez(chosen.file, **found)  # pyright: ignore[reportArgumentType]
        print(f"{sum(': ' not in name for name in found)} runs stored")
        return 0
    before, differ, same = np.load(chosen.file), 0, 0
    for name in sorted({*before.files, *found}):
        if name.endswith(": refused") and name in before.files and name in found:
            continue
        if name not in before.files or name not in found:
            print(f"{name}: only {'before' if name in before.files else 'now'}")
        elif before[name].shape != found[name].shape:
            print(f"{name}: shapes {before[name].shape} and {found[name].shape}")
        elif not np.allclose(
            before[name], found[name], chosen.tolerance, chosen.tolerance, equal_nan=True
        ):
            print(f"{name}: differs by {np.nanmax(np.abs(before[name] - found[name])):.3g}")
        else:
            same += 1
            continue
        differ += 1
    print(f"{same} arrays equal{'' if chosen.tolerance else ' bit for bit'}, {differ} not")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
