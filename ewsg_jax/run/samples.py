"""What a run returns, and what a file of it gives back."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import jax
import numpy as np

from ewsg_jax.base import checks, limits, numeric
from ewsg_jax.base.typing import Data, Key, P, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.draws import likelihoods
from ewsg_jax.draws.coordinates import in_arviz, named
from ewsg_jax.draws.likelihoods import LIKELIHOOD_ROWS
from ewsg_jax.draws.mean_and_sd import mean_of, sd_of
from ewsg_jax.draws.predict import predict
from ewsg_jax.kernels.protocol import Kernel, KernelState, are_others, posterior_of
from ewsg_jax.model_checks.finding import Finding, as_dictionaries
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.run import archive, states
from ewsg_jax.run.concatenation import concatenated
from ewsg_jax.run.data_digest import data_digest
from ewsg_jax.run.moments import Moments

HOLDS_SAMPLES, HOLDS_STACK = "samples", "samples of a stack"
"""What files hold."""
PYTREE_FIELDS = {"draws", "moments", states.STATE}
"""Fields of samples that are pytrees."""
FINDINGS = "findings"
"""The field of samples that a file holds as text."""
KERNEL = "kernel"
"""The field of samples that no file holds."""


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Generic[P]):
    """The draws of a run and what they cost.

    Attributes:
        draws: what was kept, NumPy arrays with leading axes (chain, draw); None with `keep=None`.
            Chains that diverged are among them: `finite_draws` are those that count.
        moments: the running moments, None if there are none; a chain that diverged has no weight in
            them.
        state: the chains' last states, leading axis chain. Samples that were loaded without their
            kernel have none: to use it raises an error that says so.
        step: step number of each draw, shape (draw,); the state that `init` returns is step 0.
        step_size: h of the step that made each draw, shape (draw,): its weight under a decreasing
            schedule.
        evaluations: ∇Vᵢ evaluated by one chain up to each draw, `init` included, shape (draw,),
            int64. If steps cost unequally, each step inside one call of the compiled loop counts
            the same.
        gradient_evaluations: ∇Vᵢ evaluated by all chains together, burn-in and `init` included.
        num_data: n, the number of rows.
        num_steps: steps that each chain made in this run.
        index_acceptance: mean share of index-chain proposals accepted, shape (chain,).
        acceptance: mean share of Metropolis' proposals accepted, 1 for methods that make none,
            shape (chain,).
        overflow: the number of steps in which a bounded set (the bright data of FlyMC) was too
            small, so that they targeted the posterior given that it is large enough, shape
            (chain,).
        diverged_at: the step at which each chain ceased to be finite, −1 for none, shape (chain,),
            int64. Such a chain stays at its last finite position. For a chain that blew up and
            stayed finite it is the last step: its potential is far above that of its start or of
            the other chains.
        keeps_positions: whether the draws are positions.
        common_start: whether all chains started at one point, which makes R-hat too small.
        shared_minibatch: whether all chains had one batch a step, so that they are not independent.
        interrupted: whether an interrupt, or a step that failed, ended the run early; or whether an
            interrupt ended the checks at its end.
        compile_seconds: time to trace and compile, in seconds.
        run_seconds: time to sample, in seconds.
        findings: why the plan of the kernel is not trusted, if `ewsg_jax.plan` made it and doubts
            it: a record with a text and a cure. `ewsg_jax.check` begins its verdict with it.
        temperature: T of the step that made each draw, whose target is exp(−V/T), shape (draw,); 1
            in files of earlier versions, and for a kernel without one.
        kernel: the kernel of the run. No file holds it, nor do pickled samples: it is None there,
            unless `ewsg_jax.load` was given it.
    """

    draws: PyTree
    moments: Moments | None
    state: KernelState[P]
    step: np.ndarray
    step_size: np.ndarray
    evaluations: np.ndarray
    gradient_evaluations: int
    num_data: int
    num_steps: int
    index_acceptance: np.ndarray
    acceptance: np.ndarray
    overflow: np.ndarray
    diverged_at: np.ndarray
    keeps_positions: bool
    common_start: bool
    shared_minibatch: bool
    interrupted: bool
    compile_seconds: float
    run_seconds: float
    findings: tuple[Finding, ...] = ()
    temperature: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1))
    kernel: Kernel[P] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A kernel holds the user's functions, which often cannot be pickled.
        return vars(self) | {KERNEL: None}

    def __repr__(self) -> str:
        """Return one line: how many draws and chains, what they cost, how many chains diverged."""
        return (
            f"Samples(num_chains={self.num_chains}, num_draws={self.num_draws}, "
            f"num_steps={self.num_steps}, data_passes={self.data_passes:.4g}, "
            f"diverged={np.count_nonzero(~self.is_finite)})"
        )

    @property
    def position(self) -> PyTree:
        """The draws of the position of all chains, NumPy arrays with leading axes (chain, draw).

        Chains that diverged are among them: `finite_draws` are those that count.

        Raises:
            AttributeError: the run kept something else.
        """
        if not self.keeps_positions:
            raise AttributeError(
                "these samples hold no positions: the run was asked to keep something else "
                "(samples.draws, samples.moments); the last positions are in samples.state.position"
            )
        return self.draws

    @property
    def posterior(self) -> Posterior[P] | None:
        """The target of the kernel; None if there is no kernel, or it has none of its own."""
        return None if self.kernel is None else posterior_of(self.kernel)

    @property
    def is_finite(self) -> np.ndarray:
        """Whether each chain stayed finite and did not blow up, shape (chain,)."""
        return self.diverged_at < 0

    @property
    def finite_draws(self) -> PyTree:
        """The draws that count: `draws` without the chains that diverged, axes (chain, draw, …).

        Means, quantiles and pictures of the posterior are to be made of these: a chain that
        diverged repeats its last finite position, however far out that is. `mean`, `sd`, `predict`,
        `to_arviz`, `ewsg_jax.diagnostics` and `ewsg_jax.check` take them. Such a chain is left out
        as a whole: its draws before are not independent of the step at which it diverged. The first
        axis has the length 0 if every chain diverged.

        Raises:
            AttributeError: the run kept no draws.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
            >>> data = jnp.arange(6.0)[:, None]
            >>> samples = ewsg.sample(
            ...     jax.random.key(0), kernel, jnp.zeros(1), data, 30, num_chains=4
            ... )
            >>> samples.finite_draws.reshape(-1, 1).shape  # all chains together
            (120, 1)
        """
        draws, finite = self._checked_draws(), self.is_finite
        return draws if finite.all() else jax.tree.map(lambda x: np.asarray(x)[finite], draws)

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return len(self.diverged_at)

    @property
    def num_draws(self) -> int:
        """The number of draws kept of each chain."""
        return len(self.step)

    @property
    def data_passes(self) -> float:
        """Passes over the data that one chain made: its evaluations divided by n."""
        return self.gradient_evaluations / (self.num_chains * self.num_data)

    @property
    def mean(self) -> PyTree:
        """The mean of the draws of all chains that stayed finite, like one draw, in float64.

        Raises:
            AttributeError: the run kept no draws.
        """
        return mean_of(self._checked_draws(), np.flatnonzero(self.is_finite))

    @property
    def sd(self) -> PyTree:
        """The standard deviation of all finite chains' draws, like one draw, in float64.

        Raises:
            AttributeError: the run kept no draws.
        """
        return sd_of(self._checked_draws(), np.flatnonzero(self.is_finite), self.mean)

    def _checked_draws(self) -> PyTree:
        if self.draws is None:
            raise AttributeError(
                "these samples hold no draws: the run was given keep=None (samples.moments)"
            )
        return self.draws

    def named(self) -> dict[str, np.ndarray]:
        """Return the draws as a flat dictionary of arrays (chain, draw, …) by place in the pytree.

        Draws that are a single array are called `position`, or `draws` if they are no positions.
        """
        return named(self.draws, "position" if self.keeps_positions else "draws")

    def concatenate(self, later: "Samples[P]") -> "Samples[P]":
        """Return these samples and those of the run that continued from their state, as of one run.

        Draws, steps and evaluations are put one behind the other, costs, overflows and seconds
        added up; shares of accepted proposals are means over all steps, moments those over both. A
        chain that diverged in either counts as diverged, at its first time; `interrupted` is that
        of the later run, as the state is.

        Args:
            later: what `sample(…, state=samples.state)` returned. That its first step follows the
                last one of these is checked, and that its rows are the same; its kernel and key are
                not.

        Raises:
            TypeError, ValueError: it is not samples; or of other chains, of other rows, of other
                steps than those that follow, or keeps something else: other draws, or moments of
                another kind.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
            >>> key, data = jax.random.key(0), jnp.arange(6.0)[:, None]
            >>> samples = ewsg.sample(key, kernel, jnp.zeros(1), data, 30, thin=10)
            >>> more = ewsg.sample(key, kernel, None, data, 20, thin=10, state=samples.state)
            >>> samples.concatenate(more).step.tolist()
            [10, 20, 30, 40, 50]
        """
        checks.instance("later", later, Samples, "what ewsg_jax.sample returns")
        both = concatenated(self, later)
        return without_diverged_moments(both, both.diverged_at)

    def predict(
        self,
        function: Callable[..., PyTree],
        inputs: PyTree,
        *,
        key: Key | None = None,
        log: bool = False,
        keep_draws: bool = False,
        chunk_size: int | None = None,
    ) -> PyTree:
        """Return the mean of `function(position, inputs)` over the draws that count.

        These are `finite_draws`, those of the chains that did not diverge. The mean is NaN if
        every chain diverged.

        Args:
            function: `function(position, inputs) -> pytree of floating-point arrays`, for one draw.
                It is compiled and vectorised over draws; give the same function object again to
                spare the compilation.
            inputs: its second argument: a pytree of arrays or numbers, an argument of the compiled
                program.
            key: a typed PRNG key, from which each draw has one of its own, the third argument of
                `function(position, inputs, key)`: such as for the noise of a new observation.
                Default: the function has two arguments, and nothing random.
            log: the outputs are logarithms: return log(mean(exp(outputs))), such as log predictive
                densities, computed without overflow.
            keep_draws: return the outputs at each of these draws instead, leading axes (chain,
                draw), as `finite_draws` have them. If chains diverged, the first axis is shorter
                than `num_chains`, and a RuntimeWarning names them.
            chunk_size: draws evaluated at once. Default: as many as hold 64 MiB of positions,
                outputs and the largest intermediate array. It changes the result by rounding only.

        Returns:
            The pytree of outputs as NumPy arrays in the outputs' dtypes (sums over chunks are in
            float64).

        Raises:
            TypeError, ValueError: an argument has the wrong type or value; the function fails on
                one draw, or returns integers or booleans, which have no mean in their own dtype
                (with `keep_draws` they are returned as they are); there are no draws, or,
                with `keep_draws`, every chain diverged; or the function draws from a key that it
                makes or holds, or by NumPy.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
            >>> data = jnp.arange(6.0)[:, None]
            >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 30)
            >>> samples.predict(lambda position, x: x * position, jnp.ones(3)).shape
            (3,)
        """
        any_finite = bool(self.is_finite.any())
        if keep_draws is True:
            self._warn_of_left_out("predict(…, keep_draws=True)")
        outputs = predict(
            self.finite_draws if any_finite and self.draws is not None else self.draws,
            function,
            inputs,
            key=key,
            log=log,
            keep_draws=keep_draws,
            chunk_size=chunk_size,
        )
        return outputs if any_finite else jax.tree.map(lambda x: np.full_like(x, np.nan), outputs)

    def _warn_of_left_out(self, where: str) -> None:
        """Warn that chains which diverged are not in what is returned.

        Raises:
            ValueError: every chain diverged.
        """
        if not self.is_finite.any():
            raise ValueError(
                f"{where} must have a chain that did not diverge; got none (samples.draws has what "
                "the others kept, samples.diverged_at when they diverged)"
            )
        if not self.is_finite.all():
            warn(f"{diverged_of(self.diverged_at)}: not in {where}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `ewsg_jax.load` reads; it is replaced at the end.

        It is a NumPy archive: `numpy.load(path)` has an array for each leaf, under its name and its
        key path, such as `draws`, `draws['a']` or `state.dynamics.position`.

        Args:
            path: the path of the file, usually ending in `.npz`.

        Raises:
            TypeError: the path is not a file path; or there is a pytree among what was kept with
                classes in it, such as a named tuple, whose structure is not the position's.
            AttributeError: the samples were loaded without their states.
            OSError: the file cannot be written.
        """
        archive.write(path, HOLDS_SAMPLES, *stored(self))

    def to_arviz(
        self,
        *,
        posterior: Posterior | None = None,
        data: Data | None = None,
        chunk_size: int = LIKELIHOOD_ROWS,
        **options: Any,
    ) -> Any:
        """Return the draws as ArviZ takes them: `InferenceData` (ArviZ 0.x) or a `DataTree` (1.x).

        With a posterior and data there is a group `log_likelihood` of shape (chain, draw, row),
        from which `arviz.loo` estimates leave-one-out predictive densities and `arviz.compare`
        compares models. Chains that diverged are left out, and a RuntimeWarning names them: the
        others keep their numbers as the coordinate `chain`.

        Args:
            posterior: the posterior whose log likelihood of a row must be a density with all its
                constants (see `Posterior`). Default: no group `log_likelihood`.
            data: the rows that the run was given.
            chunk_size: rows evaluated at once.
            options: further arguments, passed on to `arviz.from_dict`, such as `dims` and `coords`.

        Raises:
            ImportError: ArviZ is not installed.
            TypeError, ValueError: posterior and data are not given together, or the data are not
                those of the run; the draws are no positions of the posterior, which was made with
                `normalised=False`, or whose log likelihood fails; draws × rows do not fit in
                memory, there are no draws, or every chain diverged.
            AttributeError: the run kept no draws; or, with a posterior, none that are positions.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> posterior, data = (
            ...     ewsg.models.gaussian_location(),
            ...     jnp.linspace(-2.0, 2.0, 20)[:, None],
            ... )
            >>> kernel = ewsg.uld(posterior, 0.1, friction=5.0)
            >>> samples = ewsg.sample(
            ...     jax.random.key(0), kernel, jnp.zeros(1), data, 500, num_chains=4
            ... )
            >>> found = samples.to_arviz(posterior=posterior, data=data)  # then arviz.loo(found)
            >>> found["log_likelihood"]["log_likelihood"].shape
            (4, 500, 20)
        """
        if posterior is None and data is None:
            return self._in_arviz(None, **options)
        if posterior is None or data is None:
            missing, other = ("posterior", "data") if posterior is None else ("data", "posterior")
            raise TypeError(
                f"{missing} must be given with {other}, for the group log_likelihood; got None"
            )
        draws = self.position
        if draws is None or not self.num_draws:
            raise ValueError("samples must hold draws; the run kept none")
        posterior = likelihoods.check_density(posterior)
        finite_draws = self.finite_draws if self.is_finite.any() else draws
        of_rows = likelihoods.of_rows(finite_draws, posterior, data, chunk_size)
        rows = self.state.rows
        if rows is not None and are_others(rows.origin.rows, data_digest(numeric.native(data))):
            raise ValueError(
                f"data must be the {self.num_data} rows that the run was given, in their order; "
                "got others, whose predictive densities leave none of them out: predict(…, "
                "log=True) gives those"
            )
        name = "log_likelihood"
        dims = {name: ["row"]} | (options.pop("dims", None) or {})
        return self._in_arviz({name: {name: of_rows}}, dims=dims, **options)

    def _in_arviz(self, groups: dict[str, dict[str, np.ndarray]] | None, **options: Any) -> Any:
        """Return the draws that count, and groups of them, as ArviZ takes them."""
        self._warn_of_left_out("to_arviz()")
        finite = self.is_finite
        if not finite.all():
            coords = {"chain": np.flatnonzero(finite)} | (options.pop("coords", None) or {})
            options["coords"] = coords
        single = "position" if self.keeps_positions else "draws"
        return in_arviz(named(self.finite_draws, single), {}, groups, **options)


PLAIN_FIELDS = {field.name for field in dataclasses.fields(Samples)} - PYTREE_FIELDS
PLAIN_FIELDS -= {FINDINGS, KERNEL}
"""Fields of samples that are numbers and arrays."""


def diverged_of(diverged_at: np.ndarray) -> str:
    """Return in words which chains diverged, and when; at least one has."""
    which, most = np.flatnonzero(diverged_at >= 0), limits.NAMES_SHOWN
    named = ", ".join(f"chain {chain} at step {diverged_at[chain]:,}" for chain in which[:most])
    if len(which) == 1:
        return named.replace(" at ", " diverged at ")
    more = ", …" if len(which) > most else ""
    return f"{len(which)} of {len(diverged_at)} chains diverged ({named}{more})"


def without_diverged_moments(samples: Samples[P], diverged_at: np.ndarray) -> Samples[P]:
    """Return samples in whose moments chains that diverged have no weight.

    Args:
        samples: the samples of a kernel, or those of a stack as a whole.
        diverged_at: the step at which each chain diverged, −1 for none, shape (chain,); in a stack
            (chain, member).
    """
    if samples.moments is None or np.all(diverged_at < 0):
        return samples
    return dataclasses.replace(samples, moments=samples.moments.of_chains(diverged_at < 0))


def stored(samples: Samples) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the text and the arrays of a file of samples.

    Raises:
        TypeError: there is a pytree that cannot be saved.
    """
    position = samples.state.position
    trees = {
        "draws": samples.draws,
        "moments": None if samples.moments is None else vars(samples.moments),
    }
    others = {name: getattr(samples, name) for name in sorted(PLAIN_FIELDS)}
    arrays = {name: x for name, x in others.items() if isinstance(x, np.ndarray | jax.Array)}
    about = {
        FINDINGS: as_dictionaries(samples.findings),
        "numbers": {name: np.asarray(x).item() for name, x in others.items() if name not in arrays},
        "trees": {
            name: archive.describe(tree, position, f"samples.{name}")
            for name, tree in trees.items()
        },
    }
    for name, tree in {**trees, states.STATE: samples.state}.items():
        arrays |= archive.entries(name, tree)
    rows = samples.state.rows
    about[states.ORIGIN] = () if rows is None else rows.origin
    return about | states.describe(samples.state), arrays
