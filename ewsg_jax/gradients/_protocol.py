"""What an estimator of ∇V is."""

import abc
import math
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.modules import Part, arguments, is_own, made_by, module, static, written
from ewsg_jax.base.needs import EVERYTHING, Need, parts_of
from ewsg_jax.base.typing import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients._covariance import Structure
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import chosen_by, name_of
from ewsg_jax.rows._scheme import Order, SamplingScheme, check_draw, schemes_of
from ewsg_jax.rows._view import fetched, view


class Estimate(NamedTuple):
    """An estimate of ∇V, a pytree of arrays so that one candidate can be selected by its index.

    Attributes:
        gradient: the estimate, a pytree shaped like the position.
        batch: the row numbers, usually with the rows themselves, and what else `gradient_at` needs;
            `()` for the full data.
        acceptance: share of the index chain's proposals that were accepted; 1 without an index
            chain.
        covariance: covariance of the estimate given the position, an
            `ewsg_jax.gradients.Covariance`; `()` if the estimator does not report it.
    """

    gradient: Position
    batch: PyTree
    acceptance: Array | np.float32 = np.float32(1.0)
    covariance: Any = ()


class Weight(Protocol):
    """The log of the exponential weight of an estimate, up to a constant, at this state."""

    def __call__(self, estimate: Estimate, frozen_noise: str = "momentum") -> Array: ...


def no_weight(estimate: Estimate, frozen_noise: str = "momentum") -> Array:
    """Return 0: the weight of an estimate that is not chosen among others."""
    return jnp.zeros(())


class Evaluations(NamedTuple):
    """How many ∇Vᵢ are evaluated: Python integers, known before anything runs.

    Attributes:
        per_step: evaluations in every step.
        per_extra_gradient: evaluations of `gradient_at`, the gradient on the accepted batch at
            another point.
        at_init: evaluations by `init`, once.
        per_refresh: further evaluations in the steps 0, K, 2K, …
        refresh_every: K, steps from one refresh to the next.
        per_accepted: the part of `per_step` that only the accepted batch takes, and no candidate.
        counted: whether steps count their evaluations (`Info.gradient_evaluations`); `per_step` is
            then an upper bound, without what `refresh` returns, which is added.
        expected: measured mean of the evaluations of a counted step; 0 if it is not known.
    """

    per_step: int
    per_extra_gradient: int
    at_init: int = 0
    per_refresh: int = 0
    refresh_every: int = 1
    counted: bool = False
    per_accepted: int = 0
    expected: float = 0.0

    def of_steps(self, first: Any, count: Any) -> Any:
        """Return evaluations of `count` steps from number `first` on; whole numbers or arrays."""
        refreshes = -(-(first + count) // self.refresh_every) + (-first // self.refresh_every)
        return count * self.per_step + refreshes * self.per_refresh

    @property
    def on_average(self) -> float:
        """Mean number of evaluations per step, refreshes included."""
        return self.expected or self.per_step + self.per_refresh / self.refresh_every

    def of_candidates(self, count: int) -> "Evaluations":
        """Return the evaluations of steps that evaluate `count` batches and accept one."""
        return self._replace(
            per_step=count * (self.per_step - self.per_accepted) + self.per_accepted
        )


class Sharing(NamedTuple):
    """Which chains may share a memory, and how large it may be.

    Attributes:
        of: "chain": each chain has its own. "start" or "data": the memory never changes and is a
            function of the start and the data, or of the data alone, so that chains share it.
        limit: bytes that the memory of all chains may take; None for no limit.
    """

    of: Literal["chain", "start", "data"] = "chain"
    limit: int | None = None


class NoiseModel(NamedTuple):
    """How the errors of estimates are distributed: what forecasts and halving have to know of them.

    The covariance is measured: from estimates on drawn batches of `measured_on` at points of the
    posterior, with the gradients that are subtracted taken at older points of the chain.

    Attributes:
        measured_on: an estimator whose estimates have the same distribution (as a rule the
            estimator itself). If `anchor` is "refreshed" or "table" one that `svrg` makes, with the
            same rows per batch. None: estimates have no error.
        anchor: which gradients are subtracted, row by row: "none"; those at a point that no step
            moves ("fixed"); those at the chain's position at the last refresh ("refreshed"); or
            those at the position at which each row was last seen ("table").
        period: steps from one refresh to the next, for a "refreshed" anchor.
        rate: the probability that a step sees a row, for a "table".
        chain_length: proposals of the index chain that chooses a batch by exponential weights, ∞
            for the weights of all batches; None without weights.
        frozen_noise: the name of the x in these weights.
        structure: the structure of the covariance that estimates report; None if they report none.
        order: the exponent p of the h^p by which the errors change the stationary distribution: 1
            for independent unbiased errors, ∞ without errors, None if it is unknown or depends on
            the dynamics.
        unknown: why nothing of this is known, in words that follow "got"; "" if it is known.
    """

    measured_on: "GradientEstimator | None" = None
    anchor: Literal["none", "fixed", "refreshed", "table"] = "none"
    period: int = 1
    rate: float = 1.0
    chain_length: float | None = None
    frozen_noise: str = "momentum"
    structure: Structure | None = None
    order: float | None = None
    unknown: str = ""


@module
class GradientEstimator(Part, abc.ABC, Generic[P]):
    """An estimator of ∇V, composed with any dynamics by `ewsg_jax.kernel`.

    Write `draw`, `propose`, `gradient_at` and `evaluations`; the rest has the defaults of an
    estimator without a memory. One whose estimates hold their covariance says `reports_covariance =
    True`; one that draws no rows `uses_batches = False`; one whose memory chains may share has a
    `sharing`; one whose memory changes, and leaves estimates unbiased, says `unbiased = True`; one
    that `forecast` and `halve` should know has a `noise_model`; `plan` compares the library's that
    `answers/plan/candidates.py` lists, and your own if `methods=` names one.

    Attributes:
        posterior: the target.
    """

    needs: ClassVar[frozenset[Need]] = EVERYTHING
    """What the estimator needs of the data; everything, unless a class sets it.

    An estimator that needs nothing gets rows only through its sampling scheme and sums over all
    rows only through `Posterior`, and counts evaluations by `ewsg_jax.rows.all_rows`.
    """
    unbiased: ClassVar[bool] = False
    """Whether the mean of an estimate over batches is ∇V, whatever the memory holds.

    It matters if the memory changes (`commit`, `refresh`): if True, the errors of its steps are
    uncorrelated, as without a memory, and `diagnostics.gradient_noise` may judge by single steps.
    """
    posterior: Posterior[P] = static()

    @abc.abstractmethod
    def draw(self, key: Key, data: Data, order: Order | None = None) -> PyTree:
        """Return what is random in an estimate, from the configuration and n alone.

        A run may fetch the batches in it, as sampling schemes draw them, ahead of the step.

        Args:
            key: a random key, consumed here.
            data: all rows; only their number is read.
            order: position of the chain in its epoch, for sampling schemes that are `ordered`.
        """

    @abc.abstractmethod
    def propose(
        self, randomness: PyTree, memory: Memory, point: P, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        """Return an estimate at a point, and the update that `commit` gets if it is accepted."""

    @abc.abstractmethod
    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        """Return the gradient on the batch of an estimate at another position."""

    @abc.abstractmethod
    def evaluations(self, data: Data) -> Evaluations:
        """Return how many ∇Vᵢ are evaluated."""

    def check(self, position: P, data: Data) -> None:
        """Check a position and data, by type, shape and dtype; raise what is wrong with them."""
        self.posterior.check(position, data)
        self.posterior.check_gradient(position, data)

    def init(self, key: Key, position: P, data: Data) -> Memory:
        """Return the first memory of a chain."""
        return ()

    def refresh(
        self, randomness: PyTree, memory: Memory, step: Array, point: P, data: Data
    ) -> tuple[Memory, P, Array | int]:
        """Return the memory at the start of a step, the chain's point and evaluations used.

        If the returned point differs from `point`, the chain restarts there.
        """
        return memory, point, 0

    def commit(self, update: PyTree, memory: Memory) -> Memory:
        """Return the memory after a step, with the accepted batch's update."""
        return memory

    def batches(self, data: Data) -> PyTree:
        """Return the randomness of all equally probable batches on a leading axis."""
        raise NotImplementedError(f"the batches of {self!r} cannot be listed")

    def noise_model(self, data: Data) -> NoiseModel:
        """Return how the errors of estimates are distributed; by default that it is unknown.

        A class that changes what is estimated (`draw`, `propose`, `init`, `refresh` or `commit` of
        a class that has a model) has to write its own model: the one of its base class is wrong.

        Args:
            data: all rows; only their number is read.
        """
        return NoiseModel(unknown=f"{made_by(self)}, one of your own without a noise_model")

    @property
    def weight_noise(self) -> str | None:
        """The x at which `propose` asks the dynamics for log weights; None if it asks for none."""
        return None

    @property
    def restarts(self) -> bool:
        """Whether `refresh` moves the chain to another point."""
        return False

    def __repr__(self) -> str:
        named = arguments(self)
        # An estimator around another has the other's posterior.
        if any(isinstance(value, GradientEstimator) for value in named.values()):
            del named["posterior"]
        return written(made_by(self), named)


@module
class OfRows(GradientEstimator[P]):
    """An estimator by minibatches of a sampling scheme: the plain gradient, b evaluations.

    Derive from it and write what differs.

    Attributes:
        law: the sampling scheme of the rows.
    """

    law: SamplingScheme

    @property
    def batch_size(self) -> int:
        """The number of rows in a batch."""
        return self.law.batch_size

    def check(self, position: P, data: Data) -> None:
        super().check(position, data)
        self.law.check(data)
        check_draw(self.law, data)

    def propose(
        self, randomness: PyTree, memory: Memory, point: P, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        batch = fetched(randomness, data)
        return Estimate(self.posterior.gradient_on(point, data, batch), batch), ()

    def gradient_at(self, estimate: Estimate, position: P, data: Data) -> P:
        return self.posterior.gradient_on(position, data, estimate.batch)

    def evaluations(self, data: Data) -> Evaluations:
        return Evaluations(self.law.batch_size, self.law.batch_size)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> PyTree:
        return self.law.draw(key, data, order if self.law.ordered else None)

    def batches(self, data: Data) -> PyTree:
        return self.law.batches(data)

    def order_of_errors(self, data: Data) -> float:
        """Return the `order` of a noise model for independent unbiased batches of this scheme."""
        # A batch of all rows, each once, has no error.
        return math.inf if self.law.distinct and self.batch_size >= view(data).fewest else 1.0

    def __repr__(self) -> str:
        named = arguments(self)
        scheme = named.pop("law")
        first = {"posterior": named.pop("posterior"), "batch_size": scheme.batch_size}
        return written(made_by(self), first | named | chosen_by(scheme))


CHANGES_ESTIMATES = frozenset({"draw", "propose", "init", "refresh", "commit"})
"""Methods of an estimator that change what its estimates are."""


def noise_model_of(estimator: GradientEstimator, data: Data) -> NoiseModel:
    """Return the noise model of an estimator, unknown if its class may not be what the model says.

    Raises:
        TypeError: the estimator's `noise_model` returns no `NoiseModel`.
    """
    for scheme in schemes_of(estimator):
        if scheme.ordered:  # no single batch shows what dependent batches add up to
            return NoiseModel(unknown=f"{name_of(scheme)}, whose batches depend on each other")
    for cls in type(estimator).__mro__:
        if "noise_model" in vars(cls):
            break
        # The model belongs to a base class with other estimates.
        if is_own(cls) and CHANGES_ESTIMATES & set(vars(cls)):
            return GradientEstimator.noise_model(estimator, data)
    model = estimator.noise_model(data)
    if not isinstance(model, NoiseModel):
        raise TypeError(
            f"noise_model of {type(estimator).__name__} must return an "
            f"ewsg_jax.gradients.NoiseModel; got {checks.describe(model)}"
        )
    return model


def changes_memory(estimator: GradientEstimator) -> bool:
    """Return whether steps change the memory of an estimator."""
    cls, base = type(estimator), GradientEstimator
    return cls.commit is not base.commit or cls.refresh is not base.refresh


def sharing_of(part: Part) -> Sharing:
    """Return which chains share the memory of a kernel or estimator; none, unless it says so."""
    for inner in parts_of(part):
        # The outermost estimator decides: it may wrap the memory of another in its own.
        if hasattr(inner, "sharing") or isinstance(inner, GradientEstimator):
            return getattr(inner, "sharing", Sharing())
    return Sharing()


def uses_batches(part: Part) -> bool:
    """Return whether a kernel has an estimator that draws batches: `uses_batches` is not False."""
    estimators = (inner for inner in parts_of(part) if isinstance(inner, GradientEstimator))
    return any(getattr(estimator, "uses_batches", True) for estimator in estimators)


def reports_covariance(estimator: GradientEstimator) -> bool:
    """Return whether estimates hold their covariance, by the estimator's `reports_covariance`."""
    return getattr(estimator, "reports_covariance", False)
