"""Exact stationary laws of the library's kernels on small conjugate models, for
`benchmarks.pages.bias`.

`exact_law` makes the law from `Kernel.transition` alone, every batch and its probability listed:

- where a step is an affine map of the state (memory included) for each batch, the Lyapunov equation
    (here);
- else, for a state of a few numbers and no memory, Galerkin's method (`bias_galerkin.py`).

`simulated_law` is for what neither reaches. Run in float64.
"""

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg

ROUNDING = 1e-9
"""Relative to what it is part of: below this a difference is rounding."""


class Law(NamedTuple):
    """Mean (k,) and covariance (k, k) of the state's numbers, the position's d first.

    `autocorrelation` is 1 + 2 Σ ρ of the position, (d,): steps for one independent draw. `error` is
    that of its relative variance: what a coarser grid or a smaller basis changes, or a standard
    error; 0 beside rounding.
    """

    mean: np.ndarray
    covariance: np.ndarray
    autocorrelation: np.ndarray
    error: float = 0.0


class Case(NamedTuple):
    """What a law is asked of.

    `build(h)` makes the kernel; `batch_law(h, numbers, p)` is the law of the batch where it is not
    p, that of the draws, but depends on the state; `step(h)` takes the place of `one_step`, and
    `batches` that of what is drawn.
    """

    build: Callable[[Any], ewsg.Kernel]
    data: Any
    start: Any
    batch_law: Callable[[Any, Any, Any], Any] | None = None
    step: Callable[[Any], "Step"] | None = None
    batches: tuple[Any, np.ndarray] | None = None


class Step(NamedTuple):
    """`move(numbers, noise, batch, stage) -> numbers`, the numbers of a first state, and how many
    noises.
    """

    move: Callable[..., jax.Array]
    first: jax.Array
    noises: int


# Every batch, and the parts of a state.


def listed_batches(case: Case) -> tuple[Any, np.ndarray]:
    """Return every batch on a leading axis, as `draw` would give it, and their probabilities.

    Row numbers (int32) come as multisets; words that choose rows (uint32) as all tuples of ⌈k
    2³²/n⌉.
    """
    if case.batches is not None:
        return case.batches
    kernel = case.build(0.1)
    state = jax.eval_shape(kernel.init, jax.random.key(0), case.start, case.data)
    drawn = jax.eval_shape(kernel.draw, jax.random.key(0), state, case.data).batch
    whole = [x for x in jax.tree.leaves(drawn) if jnp.issubdtype(x.dtype, jnp.integer)]
    if not whole:
        return jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), drawn), np.ones(1)
    n, b = len(jax.tree.leaves(case.data)[0]), whole[0].shape[-1]
    if len(whole) > 1:
        raise ValueError(f"a batch of one array of indices can be listed; got {drawn}")
    if whole[0].dtype == jnp.uint32:
        rows = np.array(list(itertools.product(range(n), repeat=b)))
        rows, counts = -(-(rows << 32) // n), np.ones(len(rows))
    else:
        rows = np.array(list(itertools.combinations_with_replacement(range(n), b)))
        orders = [
            math.prod(math.factorial(c) for c in np.unique(row, return_counts=True)[1])
            for row in rows
        ]
        counts = math.factorial(b) / np.array(orders)

    def fill(leaf: Any) -> jax.Array:
        if not jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.zeros((len(rows), *leaf.shape), leaf.dtype)
        shape = (len(rows), *[1] * (len(leaf.shape) - 1), b)
        return jnp.broadcast_to(
            jnp.asarray(rows.reshape(shape), leaf.dtype), (len(rows), *leaf.shape)
        )

    return jax.tree.map(fill, drawn), counts / counts.sum()


def split_state(state: Any, whole: bool) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Return the floating-point numbers of a state and what puts others there; without `whole` no
    memory.
    """
    leaves, tree = jax.tree.flatten(state)
    end = len(leaves) if whole else len(jax.tree.leaves(state.dynamics))
    places = [i for i, x in enumerate(leaves[:end]) if jnp.issubdtype(x.dtype, jnp.floating)]
    flat, unravel = ravel_pytree([leaves[i] for i in places])

    def put(new: jax.Array) -> Any:
        given = dict(zip(places, unravel(new), strict=True))
        return jax.tree.unflatten(tree, [given.get(i, x) for i, x in enumerate(leaves)])

    return flat, put


def one_step(case: Case, h: Any, whole: bool) -> Step:
    """Return the step of the kernel at h as a function of the numbers of its state."""
    if case.step is not None:
        return case.step(h)
    kernel = case.build(h)
    first = kernel.init(jax.random.key(0), case.start, case.data)
    numbers, put = split_state(first, whole)
    shapes = jax.eval_shape(kernel.draw, jax.random.key(0), first, case.data).noise
    some, unravel = ravel_pytree(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))

    def move(z: jax.Array, noise: jax.Array, batch: Any, stage: Any) -> jax.Array:
        state = put(z).at_step(jnp.asarray(stage, jnp.int32))
        moved, _ = kernel.transition(ewsg.Randomness(batch, unravel(noise)), state, case.data)
        return split_state(moved, whole)[0]

    return Step(move, numbers, some.size)


def index_law(log_weights: Any, p: Any, chain_length: int) -> Any:
    """Return the law of the batch after M visits of the index chain: proposals p, accepted as
    Metropolis does.
    """
    accepted = jnp.exp(jnp.minimum(0, log_weights[None, :] - log_weights[:, None])) * p
    moves = accepted - jnp.diag(jnp.diag(accepted))
    chain = moves + jnp.diag(1 - moves.sum(1))
    for _ in range(chain_length):
        p = p @ chain
    return p


def weighted(
    case: Case,
    dynamics: Callable[[Any], Any],
    estimator: ewsg.gradients.GradientEstimator,
    chain_length: int,
) -> Case:
    """Return the case with the batch law of exponential weights around an estimator
    without memory.
    """
    inner = case._replace(build=lambda h: ewsg.kernel(dynamics(h), estimator))
    batches, _ = listed_batches(inner)

    def batch_law(h: Any, z: Any, p: Any) -> Any:
        made = dynamics(h)
        state = inner.build(h).init(jax.random.key(0), case.start, case.data)
        state = split_state(state, False)[1](z)

        def log_weight(batch: Any) -> Any:
            at = made.evaluation_point(state.dynamics)
            memory, point, _ = estimator.refresh(batch, state.memory, jnp.int32(0), at, case.data)
            prepared = made.prepare(state.dynamics, estimator.posterior.prior_gradient, case.data)
            weight = functools.partial(made.log_weight, prepared)
            return weight(estimator.propose(batch, memory, point, case.data, weight)[0], "momentum")

        return index_law(jax.vmap(log_weight)(batches), p, chain_length)

    return case._replace(batch_law=batch_law)


def with_pairs(case: Case) -> Case:
    """Return the case of a quasi-Newton kernel of one pair (M = 2) in one dimension, the pair's
    batch listed too.

    H is then 1/(curvature of the last step's batch + λ), whatever the points; θ_t is made of
    θ_{t−2} and H alone.
    """
    batches, p = listed_batches(case)
    last, this = (x.ravel() for x in np.indices((len(p), len(p))))
    pairs = (
        jax.tree.map(lambda x: jnp.asarray(x)[last], batches),
        jax.tree.map(lambda x: jnp.asarray(x)[this], batches),
    )

    def step(h: Any) -> Step:
        kernel = case.build(h)
        first = kernel.init(jax.random.key(0), case.start, case.data).at_step(jnp.int32(9))

        def move(z: jax.Array, noise: jax.Array, batch: Any, stage: Any) -> jax.Array:
            before, _ = kernel.transition(
                ewsg.Randomness(batch[0], 0 * noise + 1.5), first, case.data
            )
            state = before._replace(dynamics=before.dynamics._replace(point=z))
            return kernel.transition(ewsg.Randomness(batch[1], noise), state, case.data)[0].position

        return Step(move, case.start, case.start.size)

    return case._replace(step=step, batches=(pairs, np.outer(p, p).ravel()))


# Affine steps.


class Maps(NamedTuple):
    """z' = matrix z + shift + noise of this covariance: axes h, stage of the cycle, batch; and the
    first state.
    """

    matrix: np.ndarray
    shift: np.ndarray
    noise: np.ndarray
    first: np.ndarray


def affine_maps(case: Case, hs: list[float], stages: int, whole: bool) -> Maps | None:
    """Return the Jacobians of `transition` for every h, stage and batch; None where a step is not
    affine.
    """
    batches, weights = listed_batches(case)
    compiler = {"xla_backend_optimization_level": 0}  # most of the time is compilation

    @functools.partial(jax.jit, compiler_options=compiler)
    def every(hs: jax.Array, batches: Any) -> Any:
        def one(h: Any, stage: Any, batch: Any) -> Any:
            step, z, noises = one_step(case, h, whole)
            at, other = (jnp.linspace(*ends, z.size) for ends in ((-1.0, 1.5), (2.0, -3.0)))
            jacobians = jax.jacfwd(
                lambda *of: (step(*of, batch, stage),) * 2, argnums=(0, 1), has_aux=True
            )
            (matrix, factor), end = jacobians(at, jnp.zeros(noises))
            shift = end - matrix @ at
            elsewhere = step(other, jnp.ones(noises), batch, stage)
            return (
                matrix,
                shift,
                factor @ factor.T,
                elsewhere - matrix @ other - shift - factor.sum(1),
            )

        over_batches = jax.vmap(one, (None, None, 0), axis_size=len(weights))
        over_stages = jax.vmap(over_batches, (None, 0, None))
        return jax.vmap(over_stages, (0, None, None))(hs, jnp.arange(stages), batches)

    matrix, shift, noise, curvature = jax.device_get(every(jnp.asarray(hs), batches))
    if not np.abs(curvature).max() < ROUNDING:
        return None
    return Maps(matrix, shift, noise, np.asarray(one_step(case, hs[0], whole).first))


def reached(maps: Maps, k: int) -> np.ndarray:
    """Return an orthonormal basis of all that chains of the k-th h reach from the first state.

    A memory has numbers that never move (a centre) and numbers that follow from others (a sum of a
    table).
    """
    size = len(maps.first)
    steps = list(zip(*(x[k].reshape(-1, *x.shape[3:]) for x in maps[:3]), strict=True))
    found = np.zeros((size, 0))
    new = np.column_stack(
        [np.column_stack([noise, a @ maps.first + c - maps.first]) for a, c, noise in steps]
    )
    while new.size:
        new = new - found @ (found.T @ new)
        left, values, _ = np.linalg.svd(new / max(np.abs(new).max(), 1e-300), full_matrices=False)
        fresh = (
            left[:, values > 1e-7 * values.max()] if np.abs(new).max() > ROUNDING else left[:, :0]
        )
        found = np.column_stack([found, fresh])
        new = np.column_stack([a @ fresh for a, _, _ in steps]) if fresh.size else fresh
    return found


def affine_law(maps: Maps, k: int, weights: np.ndarray, d: int) -> Law | None:
    """Return the law of the k-th h, in the mean over the stages of the cycle; None where there is
    none.
    """
    basis = reached(maps, k)
    matrices = basis.T @ maps.matrix[k] @ basis
    shifts = (maps.matrix[k] @ maps.first + maps.shift[k] - maps.first) @ basis
    mean_maps = np.einsum("b,sbij->sij", weights, matrices)
    mean_shifts = np.einsum("b,sbi->si", weights, shifts)
    size, stages = basis.shape[1], len(matrices)
    seconds = [
        np.einsum("b,bij,bkl->ikjl", weights, a, a).reshape(size**2, size**2) for a in matrices
    ]

    cycle, constant = np.eye(size), np.zeros(size)
    for a, c in zip(mean_maps, mean_shifts, strict=True):
        cycle, constant = a @ cycle, a @ constant + c
    means = [np.linalg.solve(np.eye(size) - cycle, constant)]
    for a, c in zip(mean_maps, mean_shifts, strict=True):
        means.append(a @ means[-1] + c)
    sources = []
    for s in range(stages):
        off = matrices[s] @ means[s] + shifts[s] - means[s + 1]
        noise = np.einsum("b,bij->ij", weights, basis.T @ maps.noise[k, s] @ basis)
        sources.append(noise + np.einsum("b,bi,bj->ij", weights, off, off))
    second, total = np.eye(size**2), np.zeros(size**2)
    for a, q in zip(seconds, sources, strict=True):
        second, total = a @ second, a @ total + q.ravel()
    if not np.abs(np.linalg.eigvals(second)).max() < 1:
        return None
    covariances = [np.linalg.solve(np.eye(size**2) - second, total).reshape(size, size)]
    for a, q in zip(seconds[:-1], sources[:-1], strict=True):
        covariances.append((a @ covariances[-1].ravel()).reshape(size, size) + q)

    # Σ_{j ≥ 1} of the mean maps from stage s on: those of the first cycle, times the sum over
    # cycles.
    correlated = []
    for s, covariance in enumerate(covariances):
        product, added = np.eye(size), np.zeros((size, size))
        for r in range(stages):
            product = mean_maps[(s + r) % stages] @ product
            added = added + product
        correlated.append(added @ np.linalg.solve(np.eye(size) - product, covariance))
    mean = np.mean(means[:-1], axis=0)
    between = np.array(means[:-1]) - mean
    covariance = basis @ (np.mean(covariances, axis=0) + between.T @ between / stages) @ basis.T
    ahead = np.diag(basis @ np.mean(correlated, axis=0) @ basis.T)[:d]
    return Law(maps.first + basis @ mean, covariance, 1 + 2 * ahead / np.diag(covariance)[:d])


# What neither reaches.


def simulated_law(case: Case, h: float, chains: int, steps: int, burn_in: int) -> Law | None:
    """Return the law of the position from many chains, `error` its standard error; None where
    chains diverge.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = _sampled(case, h, chains, steps, burn_in)
    if samples.moments is None or np.any(samples.diverged_at >= 0):
        return None

    means, variances = np.asarray(samples.moments.mean), np.asarray(samples.moments.variance)
    mean = means.mean(0)
    squares = variances + (means - mean) ** 2
    variance = squares.mean(0)
    autocorrelation = steps * means.var(0) / variance
    error = float(squares[:, 0].std() / chains**0.5 / variance[0])
    return Law(mean, np.diag(variance), autocorrelation, error)


def _sampled(case: Case, h: float, chains: int, steps: int, burn_in: int) -> ewsg.Samples:
    return ewsg.sample(
        jax.random.key(0),
        case.build(h),
        case.start,
        case.data,
        burn_in + steps,
        num_chains=chains,
        burn_in=burn_in,
        keep=None,
        moments=ewsg.moments(covariance="diagonal"),
        progress=False,
    )
