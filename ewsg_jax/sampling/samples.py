"""What a run returns."""

import importlib
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax._kernel import KernelState
from ewsg_jax._types import PyTree


@dataclass(frozen=True, eq=False)
class Samples:
    """Kept draws and what they cost.

    Attributes:
        position: the draws, NumPy arrays with leading axes (chain, draw).
        state: the chains' last states, leading axis chain.
        step: step number of each draw, shape (draw,); the state that `init` returns is step 0.
        evaluations: ∇Vᵢ evaluated by one chain up to each draw, `init` included, shape (draw,), int64;
            in proportion to the steps inside one call of the compiled loop where steps cost unequally.
        gradient_evaluations: ∇Vᵢ evaluated by all chains together, burn-in and `init` included.
        num_data: n.
        num_steps: steps that each chain made in this run.
        index_acceptance: mean share of index-chain proposals accepted, shape (chain,).
        is_finite: whether each chain's last state is finite, shape (chain,).
        common_start: whether all chains started at one point, which makes R-hat too kind.
        interrupted: whether an interrupt ended the run early.
        compile_seconds: time to trace and compile.
        run_seconds: time to sample.
    """

    position: PyTree
    state: KernelState
    step: np.ndarray
    evaluations: np.ndarray
    gradient_evaluations: int
    num_data: int
    num_steps: int
    index_acceptance: np.ndarray
    is_finite: np.ndarray
    common_start: bool
    interrupted: bool
    compile_seconds: float
    run_seconds: float

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return len(self.is_finite)

    @property
    def num_draws(self) -> int:
        """The number of draws kept of each chain."""
        return len(self.step)

    @property
    def data_passes(self) -> float:
        """Passes over the data that one chain made: its evaluations divided by n."""
        return self.gradient_evaluations / (self.num_chains * self.num_data)

    def named(self) -> dict[str, np.ndarray]:
        """Return the draws as a flat dictionary of arrays (chain, draw, …), named by their place in the tree.

        A position that is a single array is called `position`.
        """
        leaves = jax.tree_util.tree_leaves_with_path(self.position)
        return {jax.tree_util.keystr(path, simple=True, separator=".") or "position": x for path, x in leaves}

    def to_arviz(self, **options: Any) -> Any:
        """Return the draws as ArviZ takes them: `InferenceData` (ArviZ 0.x) or a `DataTree` (1.x).

        Args:
            options: passed on to `arviz.from_dict`, such as `dims` and `coords`.

        Raises:
            ImportError: ArviZ is not installed.
        """
        try:
            arviz: Any = importlib.import_module("arviz")  # from_dict differs between 0.x and 1.x
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install 'ewsg_jax[diagnostics]'") from error
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": self.named()}, **options)
        return arviz.from_dict(posterior=self.named(), **options)
