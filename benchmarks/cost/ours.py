"""Our side: a run through `ewsg_jax.sample`, the size of the compiled program, and the first draw.

As a script it prints the seconds from the call of `sample` to its first draw, in a process that has
compiled nothing, as JSON: `python -m benchmarks.cost.ours METHOD`; or the largest resident set
of a run: `python -m benchmarks.cost.ours resident CHAINS STEPS`.
"""

import json
import re
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.cost.by_hand import by_hand
from benchmarks.cost.peers import device_data
from benchmarks.cost.resident import peak_megabytes
from benchmarks.cost.settings import FRICTION, PRIOR_VARIANCE, STEP_SIZE, Case
from benchmarks.cost.workload import WORKLOADS, Workload


class Variant(NamedTuple):
    """What ours has and a case does not say.

    Attributes:
        batch_size: b; None for the workload's.
        chain_length: M of the exponential weights; None for the uniform estimator.
        noise: the law of the noise.
        shared: whether one batch serves all chains.
        check_data: whether the data are looked at.
        rows: the law of rows.
        thin: of the draws that a case keeps, every so many-th.
        moments: whether running moments are kept, and no draws.
        checkpoint_every: seconds between checkpoints; None for none.
    """

    batch_size: int | None = None
    chain_length: int | None = None
    noise: Any = "gaussian"
    shared: bool = False
    check_data: bool = False
    rows: Any = "random"
    thin: int = 1
    moments: bool = False
    checkpoint_every: float | None = None

    def besides(self) -> str:
        """Return in words what the peers do otherwise, after a comma."""
        said = ""
        if self.noise != "gaussian":
            said += f", {self.noise} noise (the peer's is Gaussian: another law)"
        if self.rows != "random":
            said += f", rows by {self.rows} (the peers draw theirs at random)"
        if self.shared:
            said += ", one batch for all (the peers' have their own)"
        return said


GAUSSIAN = Variant()


def posterior(case: Case, workload: Workload) -> ewsg.Posterior:
    """Return the posterior as a user of the library writes it."""
    if case.workload == "logistic":
        return ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)
    return general(workload)


def general(workload: Workload) -> ewsg.Posterior:
    """Return a workload's posterior without a word of its form, a linear predictor for one."""
    return ewsg.Posterior(
        lambda position, row: workload.log_likelihood(position, row["x"], row["y"]),
        workload.log_prior,
    )


def kernel(case: Case, variant: Variant, workload: Workload) -> ewsg.Kernel:
    """Return the kernel of a case."""
    model, h = posterior(case, workload), STEP_SIZE[case.method]
    b = variant.batch_size or workload.batch_size
    if case.method == "sgld":
        return ewsg.sgld(model, h, batch_size=b, noise=variant.noise, rows=variant.rows)
    if variant.chain_length is None:
        return ewsg.sghmc(
            model, h, friction=FRICTION, batch_size=b, noise=variant.noise, rows=variant.rows
        )
    return ewsg.ewsg(
        model,
        h,
        friction=FRICTION,
        batch_size=b,
        chain_length=variant.chain_length,
        noise=variant.noise,
    )


class Ours:
    """A case through `ewsg_jax.sample`, compiled.

    Args:
        case: what is timed.
        variant: what is ours alone.
        data: the workload's data on the device.
    """

    _variant = GAUSSIAN

    def __init__(self, case: Case, data: Any, variant: Variant = GAUSSIAN) -> None:
        workload = WORKLOADS[case.workload]()
        self._kernel, self._data = kernel(case, variant, workload), data
        self._position = jax.tree.map(jnp.asarray, workload.position)
        self._steps, self._chains, self._keep_all = case.num_steps, case.num_chains, case.keep_all
        self._variant = variant
        self._runs = 0
        if variant.checkpoint_every is not None:
            self._folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, self._folder)
        self.compile_seconds = self._sample().compile_seconds

    def run(self) -> float:
        """Run once and return microseconds per step and chain of the whole call, whatever it does
        besides steps.

        Raises:
            FloatingPointError: a chain is not finite.
            RuntimeError: the run compiled again.
        """
        if self._variant.checkpoint_every is not None:
            shutil.rmtree(f"{self._folder}/{self._runs}")  # of the last run
        started = time.perf_counter()
        self._checked()
        return (time.perf_counter() - started) / (self._steps * self._chains) * 1e6

    def run_loop(self) -> float:
        """Run once and return microseconds per step and chain without what precedes the
        first step.
        """
        return self._checked().run_seconds / (self._steps * self._chains) * 1e6

    def run_besides(self) -> float:
        """Run once and return milliseconds of the call beyond its loop."""
        started = time.perf_counter()
        samples = self._checked()
        return (time.perf_counter() - started - samples.run_seconds) * 1e3

    def _checked(self) -> ewsg.Samples:
        samples = self._sample()
        if not samples.is_finite.all():
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        # An equal kernel may have been compiled before: then all that precedes the first step takes
        # little.
        if samples.compile_seconds > max(0.2, self.compile_seconds / 2):
            raise RuntimeError(f"the timed run compiled again, for {samples.compile_seconds:.2f} s")
        return samples

    def _sample(self) -> ewsg.Samples:
        self._runs += 1
        every = self._variant.checkpoint_every
        saving: dict[str, Any] = {}
        if every is not None:
            saving = {"checkpoint": f"{self._folder}/{self._runs}", "checkpoint_every": every}
        if self._variant.moments:
            saving |= {"keep": None, "moments": ewsg.moments()}
        return ewsg.sample(
            jax.random.key(self._runs),
            self._kernel,
            self._position,
            self._data,
            self._steps,
            num_chains=self._chains,
            burn_in=0 if self._keep_all else self._steps - 1,
            thin=self._variant.thin,
            progress=False,
            shared_minibatch=self._variant.shared,
            check_data=self._variant.check_data,
            **saving,
        )


def user_loops(
    case: Case, data: Any, with_info: bool
) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return what times a loop in Python over a jitted step, ours and written by hand: microseconds
    per step.

    Both make their row numbers alike, have the same keys, and wait for the last state alone. The
    step by hand returns a state; ours that, or (`with_info`) all that `kernel.step` does.
    """
    workload = WORKLOADS[case.workload]()
    built, hand = kernel(case, GAUSSIAN, workload), by_hand(workload, case.method, wide=True)
    keys = list(jax.random.split(jax.random.key(0), case.num_steps))
    position = jnp.asarray(workload.position)

    def timed(
        init: Callable[..., Any], step: Callable[..., Any], with_info: bool
    ) -> Callable[[], float]:
        step = jax.jit(step)

        def run() -> float:
            state = init(keys[0], position, data)
            started = time.perf_counter()
            for key in keys:
                state = step(key, state, data)
                if with_info:
                    state, _ = state
            jax.block_until_ready(state)
            return (time.perf_counter() - started) / len(keys) * 1e6

        return run

    ours = built.step if with_info else lambda *arguments: built.step(*arguments)[0]
    return timed(built.init, ours, with_info), timed(hand.init, hand.step, False)


def program_size(num_data: int) -> dict[str, int]:
    """Return the size of the program of a step of EWSG on n rows: lines and characters, numbers
    written as 0.

    Nothing is run: only shapes are known, so n may be larger than memory.
    """
    workload = WORKLOADS["logistic"]()
    built = kernel(Case("logistic", "sghmc", 1, 1, True), Variant(chain_length=1), workload)
    rows = {
        "x": jax.ShapeDtypeStruct((num_data, workload.position.size), np.float32),
        "y": jax.ShapeDtypeStruct((num_data,), np.float32),
    }
    key = jax.random.key(0)
    state = jax.eval_shape(built.init, key, workload.position, rows)
    text = re.sub(r"\d+", "0", jax.jit(built.step).lower(key, state, rows).as_text())
    return {"lines": text.count("\n"), "characters": len(text)}


def first_draw(method: str) -> float:
    """Return seconds from the call of `sample` to its first draw, compiling included."""
    case = Case("logistic", "sghmc" if method == "ewsg" else method, 1, 1, True)
    built = kernel(
        case, Variant(chain_length=1 if method == "ewsg" else None), WORKLOADS["logistic"]()
    )
    data = device_data("logistic")
    position = jnp.zeros(WORKLOADS["logistic"]().position.size)
    key = jax.random.key(0)
    jax.block_until_ready((position, key))
    started = time.perf_counter()
    ewsg.sample(key, built, position, data, num_steps=1, progress=False)
    return time.perf_counter() - started


def resident(num_chains: int, num_steps: int) -> float:
    """Return the largest resident set in MB, from having the data to the end of a run of SGLD."""
    data = device_data("logistic")
    case = Case("logistic", "sgld", num_chains, num_steps, False)
    return peak_megabytes(lambda: Ours(case, data).run())


if __name__ == "__main__":
    if sys.argv[1] == "resident":
        print(json.dumps({"megabytes": resident(*map(int, sys.argv[2:]))}))
    else:
        print(json.dumps({"seconds": first_draw(sys.argv[1])}))
