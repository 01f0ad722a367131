"""A run and the one that continued from its state, as one."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import PyTree
from ewsg_jax.kernels.protocol import Origin, are_others
from ewsg_jax.run.moments import joined

CONTINUATION_TAKES = "later must be a run that continued from the state of these samples"


def concatenated(first: Any, later: Any) -> Any:
    """Return the samples of both runs.

    Raises:
        ValueError: they do not follow each other, or keep different things.
    """
    check(first, later)
    # Shares are means over steps, so each run counts by how many it made.
    share = first.num_steps / max(1, first.num_steps + later.num_steps)

    def mean(name: str) -> np.ndarray:
        return share * getattr(first, name) + (1 - share) * getattr(later, name)

    def both(name: str) -> np.ndarray:
        return np.concatenate([getattr(first, name), getattr(later, name)])

    leaves, structure = jax.tree.flatten(first.draws)
    draws = [
        np.concatenate(pair, axis=1)
        for pair in zip(leaves, jax.tree.leaves(later.draws), strict=True)
    ]
    # The later run counts from its own start: what the first one spent comes before.
    before = round(first.gradient_evaluations / first.num_chains)
    return dataclasses.replace(
        later,
        draws=jax.tree.unflatten(structure, draws),
        moments=None if first.moments is None else joined(first.moments, later.moments),
        step=both("step"),
        step_size=both("step_size"),
        temperature=both("temperature"),
        evaluations=np.concatenate([first.evaluations, before + later.evaluations]),
        gradient_evaluations=first.gradient_evaluations + later.gradient_evaluations,
        num_steps=first.num_steps + later.num_steps,
        index_acceptance=mean("index_acceptance"),
        acceptance=mean("acceptance"),
        overflow=first.overflow + later.overflow,
        # A chain that was lost in the first run stays lost, at its step.
        diverged_at=np.where(first.is_finite, later.diverged_at, first.diverged_at),
        common_start=first.common_start,
        shared_minibatch=first.shared_minibatch or later.shared_minibatch,
        compile_seconds=first.compile_seconds + later.compile_seconds,
        run_seconds=first.run_seconds + later.run_seconds,
        findings=tuple(dict.fromkeys((*first.findings, *later.findings))),
    )


def check(first: Any, later: Any) -> None:
    """Check that a run may have continued another, and keeps what that one keeps."""
    # A run that failed gives its last state that was kept, which may be of an earlier step.
    if len(first.step) and first.step[-1] > _last_step(first):
        raise ValueError(
            f"{CONTINUATION_TAKES}, which must be that after their last draw, of step "
            f"{first.step[-1]}; got samples whose state is of step {_last_step(first)}: their run "
            "had failed"
        )
    # Compared by what is cheap to read, with the first difference in the error.
    for what, one, other in (
        ("of {} chains", first.num_chains, later.num_chains),
        ("on {} rows of data", first.num_data, later.num_data),
        ("from step {} on", _last_step(first), _last_step(later) - later.num_steps),
    ):
        if one != other:
            raise ValueError(
                f"{CONTINUATION_TAKES}, {what.format(one)}; got one {what.format(other)}"
            )
    for what, one, other in zip(Origin._fields, _origin_of(first), _origin_of(later), strict=True):
        if are_others(one, other):
            raise ValueError(
                f"{CONTINUATION_TAKES}, of the same {what}; got one of other {what}, so that no "
                "posterior has both their draws: keep the two apart"
            )
    checks.same_tree(
        f"{CONTINUATION_TAKES} and keeps what they keep", "draws", _one(later), _one(first)
    )
    if first.keeps_positions != later.keeps_positions:
        kinds = {True: "positions", False: "a function of them"}
        raise ValueError(
            f"{CONTINUATION_TAKES} and keeps what they keep, {kinds[first.keeps_positions]}; got "
            f"one that keeps {kinds[later.keeps_positions]}"
        )
    moments = _described(later.moments), _described(first.moments)
    checks.same_tree(f"{CONTINUATION_TAKES} and keeps what they keep", "moments", *moments)


def _origin_of(samples: Any) -> Origin:
    return Origin() if samples.state.rows is None else samples.state.rows.origin


def _last_step(samples: Any) -> int:
    return int(np.ravel(samples.state.step)[0])


def _one(samples: Any) -> PyTree:
    """Return the shapes of one draw."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), samples.draws)


def _described(moments: Any) -> dict[str, PyTree]:
    """Return the shapes of moments by their names."""
    return {} if moments is None else checks.shapes(vars(moments))
