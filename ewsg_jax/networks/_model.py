"""A network as a target: its posterior over sampled leaves, and what it predicts."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.leaves import named_leaves
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients import random_likelihood, uniform
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.networks._likelihoods import Likelihood, checked_draw
from ewsg_jax.networks._rows_last import over_rows
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows


class WithRawSD(NamedTuple):
    """A position of a network and of one standard deviation for all observations.

    Attributes:
        network: the network's sampled leaves.
        raw_sd: s, of the standard deviation softplus(s) plus the likelihood's floor; a scalar.
    """

    network: PyTree
    raw_sd: Array


class NetworkPrediction(NamedTuple):
    """What a network with one set of parameters says of the observations of b rows.

    Attributes:
        mean: their means, shape (b, …); None if the likelihood does not know them.
        sd: their standard deviations, like the means; None as above.
        probabilities: those of the classes, shape (b, classes); None without classes.
    """

    mean: Array | None
    sd: Array | None
    probabilities: Array | None


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel:
    """A network, a likelihood and a prior, as `ewsg_jax.networks.posterior` makes one.

    A position has the sampled leaves of the network's parameters, with None in the place of the
    others; with a standard deviation that is learned it is a `WithRawSD`. Rows are a pytree of
    arrays with the leading axis b, as in the data: {"x": …, "y": …}.

    Attributes:
        posterior: the target; of a network with a key a random potential, which `estimator` knows.
        position: the start, from the parameters that were given.
        prior_variance: the prior's variance of each number, a pytree like the position: an
            `inverse_mass`.
        likelihood: the likelihood.
        roles: what each leaf of the parameters is, by name: "sampled", "trained" (carried as it is
            here, and free while the network is trained) or "fixed".
    """

    posterior: Posterior
    position: Position
    prior_variance: Position
    likelihood: Likelihood
    roles: dict[str, str]
    _assembly: "Assembly"

    def __repr__(self) -> str:
        """Return one line: the likelihood, and how many numbers are sampled."""
        sampled = pytrees.size(self.position)
        others = pytrees.size(self._assembly.constants)
        rest = f", {others:,} carried" if others else ""
        return f"NetworkModel({self.likelihood.name}; {sampled:,} numbers sampled{rest})"

    @property
    def takes_key(self) -> bool:
        """Whether the network or the likelihood takes a key: the target is random then."""
        return self._assembly.keyed

    def params(self, position: Position) -> PyTree:
        """Return the network's parameters at a position, those that are not sampled included.

        Args:
            position: a position.
        """
        return self._assembly.params(position)

    def trainable(self) -> "NetworkModel":
        """Return the model in which trained leaves are sampled too, to train the network by its
        potential.
        """
        return self._assembly.remade(train=True)

    def side_by_side(self) -> "NetworkModel":
        """Return the model for several networks that run side by side, under `jax.vmap`: it is the
        same, and faster then.
        """
        return self._assembly.remade(several=True)

    def with_params(self, params: PyTree) -> "NetworkModel":
        """Return the same model at other parameters, such as trained ones.

        Args:
            params: parameters like those that it was made with.

        Raises:
            TypeError, ValueError: they are no such parameters.
        """
        takes = "params must be like those that the model was made with"
        checks.same_tree(takes, "params", params, self.params(self.position))
        return self._assembly.remade(params=params)

    def output(self, position: Position, x: PyTree, key: Key | None = None) -> Array:
        """Return the network's outputs for b rows of inputs, leading axis b.

        If a standard deviation is learned, its raw number is appended to the means of each row,
        once for each of them.

        Args:
            position: a position.
            x: inputs like data["x"], leading axis b.
            key: a typed PRNG key, for a network that takes one; others ignore it. Default: none.

        Raises:
            TypeError: the network takes a key, and got none.
        """
        count = jax.tree.leaves(x)[0].shape[0]
        if not self._assembly.keys.apply:
            return self._assembly.over_rows(self._assembly.output, position, x)
        keys = jax.random.split(checks.key(key), count)
        return jax.vmap(self._assembly.output, (None, 0, 0))(position, x, keys)

    def predict(self, position: Position, x: PyTree, key: Key | None = None) -> NetworkPrediction:
        """Return means, standard deviations and class probabilities of b new observations.

        Args:
            position: a position.
            x: inputs like data["x"], leading axis b.
            key: a typed PRNG key, for a network that takes one; others ignore it. Default: none.

        Raises:
            TypeError: the network takes a key, and got none.
        """
        outputs, likelihood = pytrees.widened(self.output(position, x, key)), self.likelihood
        functions = likelihood.mean, likelihood.sd, likelihood.probabilities
        mean, sd, probabilities = (None if f is None else jax.vmap(f)(outputs) for f in functions)
        return NetworkPrediction(self._as_observed(mean), self._as_observed(sd), probabilities)

    def log_density(self, position: Position, rows: Data, key: Key | None = None) -> Array:
        """Return the log density of each row's observation, shape (b,).

        Args:
            position: a position.
            rows: b rows of the data, {"x": …, "y": …} with the leading axis b.
            key: a typed PRNG key, for a network or a likelihood that takes one; others ignore it.
                Default: none.

        Raises:
            TypeError: the network or the likelihood takes a key, and got none.
        """
        if not self._assembly.keyed:
            return self._assembly.densities(position, rows)
        keys = jax.random.split(checks.key(key), jax.tree.leaves(rows)[0].shape[0])
        return jax.vmap(self._assembly.keyed_density, (None, 0, 0))(position, rows, keys)

    def draw(self, key: Key, position: Position, x: PyTree) -> Array:
        """Return a new observation for each of b rows of inputs.

        Args:
            key: a typed PRNG key.
            position: a position.
            x: inputs like data["x"], leading axis b.

        Returns:
            The observations, shape (b, …) like data["y"].

        Raises:
            TypeError: key is no typed PRNG key.
            ValueError: the likelihood does not know how to draw an observation.
        """
        draw = checked_draw(self.likelihood)
        network_key, draw_key = jax.random.split(checks.key(key))
        outputs = self.output(position, x, network_key if self._assembly.keys.apply else None)
        keys = jax.random.split(draw_key, len(outputs))
        return self._as_observed(jax.vmap(draw)(keys, pytrees.widened(outputs)))

    def _as_observed(self, numbers: Any) -> Any:
        """Return numbers of b observations in the shape that these have in the data: of shape (b,)
        in the place of (b, 1) they would be compared with all observations.
        """
        shape = self._assembly.observed_shape
        if shape is None or numbers is None or numbers[:1].size != math.prod(shape):
            return numbers
        return numbers.reshape(len(numbers), *shape)

    def estimator(
        self, *, batch_size: int, replace: bool = True, rows: Rows = "random"
    ) -> GradientEstimator:
        """Return the estimator of ∇V by batches: `gradients.uniform`, or
        `gradients.random_likelihood` for a network that takes a key.

        Args:
            batch_size: b, the number of rows in a batch.
            replace: whether a batch may hold a row twice, as for `gradients.uniform`. Default: yes.
            rows: the row subsampling scheme, as for `gradients.uniform`. Default: random rows.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """
        if not self._assembly.keyed:
            return uniform(self.posterior, batch_size=batch_size, replace=replace, rows=rows)
        return random_likelihood(
            self._assembly.keyed_density,
            self._assembly.log_prior,
            batch_size=batch_size,
            replace=replace,
            rows=rows,
        )


def checked_inputs(model: NetworkModel, x: PyTree) -> PyTree:
    """Return the argument `x` as arrays, on whose rows the network works."""
    x = checks.arrays("x", x)
    key = jax.random.key(0) if model._assembly.keys.apply else None
    try:
        jax.eval_shape(model.output, model.position, x, key)
    except Exception as error:
        raise ValueError(
            f"x must be rows of inputs like data['x']; the network failed on them: "
            f"{checks.reason(error)} ({checks.listed('x', checks.shapes(x))})"
        ) from error
    return x


class KeyUse(NamedTuple):
    """Which functions of a model take a key: the network's, and the log density."""

    apply: bool
    density: bool


class _Carried(threading.local):
    """Arrays that models read in the place of their own leaves that are not sampled, in a thread.

    Attributes:
        leaves: these arrays by the identity of an `Assembly`.
    """

    def __init__(self) -> None:
        self.leaves: dict[int, list[Array]] = {}


# Not an attribute of an `Assembly`: a digest of the model's functions would read it.
_CARRIED = _Carried()


class Remake(Protocol):
    """Makes a model again: with trained leaves sampled too, at other parameters, or for several
    networks side by side.
    """

    def __call__(
        self, *, train: bool = False, params: PyTree | None = None, several: bool = ...
    ) -> NetworkModel: ...


class Assembly:
    """What the functions of a model are made of.

    Attributes:
        apply: `apply(params, x)`, or `apply(params, x, key)`.
        keys: which functions take a key.
        likelihood: the likelihood.
        structure: the pytree structure of the parameters.
        is_sampled: which of their leaves are sampled.
        constants: the leaves that are not sampled.
        dtypes: the dtype in which the network reads each sampled leaf; None for the position's.
        log_prior: the log density of a position.
        training_prior: the log density of a position by which networks are trained.
        check_values: raises what is wrong with rows at a position; also of a random network, whose
            posterior has no values.
        remade: makes the model again with other roles or parameters, or for several networks.
        several: whether several networks run side by side, under `jax.vmap`.
        convolves: whether the network has convolutions.
        observed_shape: the shape of an observation; None if it is no array.
    """

    def __init__(
        self,
        apply: Callable[..., Any],
        keys: KeyUse,
        likelihood: Likelihood,
        params: PyTree,
        is_sampled: list[bool],
    ) -> None:
        leaves, self.structure = jax.tree.flatten(jax.tree.map(jnp.asarray, params))
        self.apply, self.keys, self.likelihood = apply, keys, likelihood
        self.is_sampled = tuple(is_sampled)
        self.constants = [x for x, sampled in zip(leaves, is_sampled, strict=True) if not sampled]
        sampled_leaves = [x for x, sampled in zip(leaves, is_sampled, strict=True) if sampled]
        self.dtypes = [x.dtype if x.dtype.itemsize < 4 else None for x in sampled_leaves]
        self.log_prior: Callable[[Position], Array] = lambda position: jnp.float32(0)
        self.training_prior: Callable[[Position], Array] = self.log_prior
        self.check_values: Callable[[Position, Data], None]
        self.remade: Remake
        self.several = self.convolves = False
        self.observed_shape: tuple[int, ...] | None = None

    @contextlib.contextmanager
    def reading(self, leaves: list[Array]) -> Iterator[None]:
        """Read other arrays for the leaves that are not sampled, in a `with` block."""
        before = _CARRIED.leaves
        _CARRIED.leaves = before | {id(self): leaves}
        try:
            yield
        finally:
            _CARRIED.leaves = before

    @property
    def keyed(self) -> bool:
        """Whether the density of a row is random."""
        return any(self.keys)

    @property
    def has_raw_sd(self) -> bool:
        """Whether a standard deviation is a parameter."""
        return self.likelihood.raw_sd is not None

    def start(self, params: PyTree) -> Position:
        """Return the position of these parameters."""
        leaves = jax.tree.leaves(jax.tree.map(jnp.asarray, params))
        # Steps are smaller than what half precision resolves.
        kept = [
            pytrees.widened(x) if sampled else None
            for x, sampled in zip(leaves, self.is_sampled, strict=True)
        ]
        network = self.structure.unflatten(kept)
        if not self.has_raw_sd:
            return network
        dtype = jnp.result_type(*[x for x in kept if x is not None])
        return WithRawSD(network, jnp.asarray(self.likelihood.raw_sd, dtype))

    def params(self, position: Position) -> PyTree:
        """Return the parameters at a position."""
        wide = jax.tree.leaves(position.network if self.has_raw_sd else position)
        leaves = iter(
            [
                x if dtype is None else x.astype(dtype)
                for x, dtype in zip(wide, self.dtypes, strict=True)
            ]
        )
        others = iter(_CARRIED.leaves.get(id(self), self.constants))
        return self.structure.unflatten(
            [next(leaves) if sampled else next(others) for sampled in self.is_sampled]
        )

    def output(self, position: Position, x: PyTree, *key: Key) -> Array:
        """Return the output for one row of inputs: with a learned standard deviation, the means and
        then its raw number, once for each of them.
        """
        output = jnp.asarray(self.apply(self.params(position), x, *key))
        if not self.has_raw_sd:
            return output
        means = jnp.ravel(output)
        return jnp.concatenate([means, jnp.broadcast_to(position.raw_sd, means.shape)])

    def density(self, position: Position, row: Data) -> Array:
        """Return the log density of one row."""
        # In float32: half precision has not the digits for a density.
        output = pytrees.widened(self.output(position, row["x"]))
        return self.likelihood.log_density(output, row)

    def densities(self, position: Position, rows: Data) -> Array:
        """Return the log density of each of b rows, shape (b,)."""
        return self.over_rows(self.density, position, rows)

    def over_rows(
        self, function: Callable[[Position, PyTree], Array], position: Position, rows: PyTree
    ) -> Array:
        """Return the values of a function of one row for b rows."""
        if not self.is_batched:
            return jax.vmap(function, (None, 0))(position, rows)
        return over_rows(function, position, rows, several=self.several)

    @property
    def is_batched(self) -> bool:
        """Whether many rows at once may take less time than `jax.vmap` of one."""
        return self.several or self.convolves

    def keyed_density(self, position: Position, row: Data, key: Key) -> Array:
        """Return the log density of one row, by a network or a likelihood that takes a key."""
        # One that alone takes a key has the key itself.
        network_key, density_key = jax.random.split(key) if all(self.keys) else (key, key)
        output = pytrees.widened(self.output(position, row["x"], *[network_key] * self.keys.apply))
        density: Callable[..., Array] = self.likelihood.log_density
        return density(output, row, *[density_key] * self.keys.density)

    def named(self, position: Position) -> list[tuple[str, Any]]:
        """Return the leaves of a position by their names in the parameters."""
        return named_leaves(position.network if self.has_raw_sd else position)
