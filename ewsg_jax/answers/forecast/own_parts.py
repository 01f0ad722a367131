"""What a forecast takes for granted of parts of one's own, checked: that the step of a dynamics is
linear, and that a law of rows counts every row once, on average.

Derivatives at the mode say what a step does where it is affine in the position, the momentum, the
gradient and the noise. Elsewhere they say nothing of a step as long as those of a chain. So they
are compared with derivatives at points of the law, along random directions, for each of the four by
itself: beside a noise of order √h a force of order h would hardly be seen. The library's own linear
schemes have tests for this instead; that of `riemannian` is averaged over the law.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast.step import Scheme
from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.modules import Part, is_own, made_by
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.rows._scheme import RowLaw, laws_of
from ewsg_jax.rows._view import Batch, num_rows

NUM_POINTS = 16
"""Points, each with a direction."""
LINEAR = 0.01
"""Part of a derivative by which it may change."""
NUM_DRAWS, SURE = 512, 6.0
"""Draws of the noise, and standard errors beyond which a moment or a mean is another."""
OF = ("position and momentum", "gradient", "noise")


def is_checked(dynamics: Dynamics) -> bool:
    """Return whether the step of a dynamics is one's own: to be checked, and then linear."""
    return is_own(type(without_metric(dynamics)[0]))


def check_linear(
    scheme: Scheme,
    scale: np.ndarray,
    points: np.ndarray,
    gradients: np.ndarray,
    frozen_noise: str | None = None,
) -> None:
    """Raise ValueError unless the step of a dynamics of one's own is linear, and its noise standard
    normal in two moments.

    The state is at the mode, at rest, in float64. Derivatives are compared at points z (points, m)
    of the law with gradients there, (points, d); `scale`, shape (m,), says what is large of each
    number of z. A weight with a frozen noise must be quadratic.
    """
    plain = without_metric(scheme.dynamics)[0]
    rng = np.random.default_rng(23)
    turned = [x[rng.permutation(len(x))] for x in (points, gradients)]
    with jax.enable_x64(True):
        _check_noise(scheme)
        try:
            keys = jax.random.split(jax.random.key(29), (len(points), 2))
            here, along = (tuple(map(jnp.asarray, each)) for each in ((points, gradients), turned))
            found = _changes(scheme, jnp.asarray(scale), here, along, keys, frozen_noise)
        except (TypeError, ValueError) as error:
            raise _refused(plain, f"of which no derivative is known ({error})") from error
    changes, sizes, offset, step, of_weight = (np.asarray(x, float) for x in found)
    for name, change, size in zip(OF, changes.T, sizes.T, strict=True):
        with np.errstate(all="ignore"):
            # Of a derivative that is 0 at the mode any change is all of it.
            share = np.sqrt(np.mean(change**2) / np.mean(size**2))
        if not np.isfinite(change).all() or not np.isfinite(size).all():
            raise _refused(plain, "whose derivatives at the mode are not finite")
        if np.mean(change**2) > np.finfo(float).eps * np.mean(step**2) and share > LINEAR:
            by = f"{100 * share:.2g} %" if share < 10 else "more than ten times itself"
            raise _refused(plain, f"whose derivative by the {name} changes by {by} over the law")
    if not np.mean(offset**2) <= LINEAR**2 * np.mean(step**2):
        raise _refused(plain, "which moves at the mode, at rest, without a force or a noise")
    if not np.all(of_weight[:, 0] <= LINEAR * of_weight[:, 1]):
        raise _refused(plain, "whose log_weight is not quadratic in the gradient")


def _refused(dynamics: Dynamics, why: str) -> ValueError:
    return ValueError(
        "kernel must have a dynamics whose step is linear in position, momentum, gradient and "
        f"standard normal noise for a forecast; got {made_by(dynamics)}, {why}. Run it for some "
        "steps instead"
    )


def _check_noise(scheme: Scheme) -> None:
    """Raise that the noise has other first or second moments than standard normals."""
    keys = jax.random.split(jax.random.key(41), NUM_DRAWS)
    drawn = np.asarray(jax.vmap(scheme.noise)(keys), float)
    size = drawn.shape[1]
    # Of each number, and of some sums: numbers that depend on each other have others.
    signs = np.random.default_rng(43).choice([-1.0, 1.0], (size, 8)) / np.sqrt(max(size, 1))
    for values in (drawn, drawn @ signs):
        for moment, wanted in ((values, 0.0), (values**2, 1.0)):
            off = np.abs(moment.mean(0) - wanted)
            error = moment.std(0) / np.sqrt(NUM_DRAWS)
            if np.any(off > SURE * error + LINEAR):
                plain = without_metric(scheme.dynamics)[0]
                raise _refused(plain, "whose noise is not of mean 0 and covariance I")


@functools.partial(jax.jit, static_argnames="frozen_noise", compiler_options=UNOPTIMISED)
def _changes(
    scheme: Scheme,
    scale: Array,
    points: tuple[Array, ...],
    directions: tuple[Array, ...],
    keys: Array,
    frozen_noise: str | None,
) -> PyTree:
    """Return how derivatives change, how large they are, and what moves without any cause."""

    def norm(flat: Array) -> Array:
        return jnp.linalg.norm(scale * flat)

    def of_point(each: PyTree) -> PyTree:
        (z, g), (along_z, along_g), (one, other) = each
        xi, along_xi = scheme.noise(one), scheme.noise(other)
        here, along = (z, g, xi), (along_z, along_g, along_xi)
        still = jax.tree.map(jnp.zeros_like, here)
        changes, sizes, change = [], [], -along_z
        for i, direction in enumerate(along):
            only = tuple(direction if i == j else jnp.zeros_like(x) for j, x in enumerate(here))
            now, then = (jax.jvp(scheme.step, place, only)[1] for place in (here, still))
            change = change + then
            changes.append(norm(now - then))
            # What a free step does is what it adds to a position.
            sizes.append(norm(then - along_z if i == 0 else then))
        turned = jnp.zeros(2)
        if frozen_noise is not None:
            of = jax.grad(functools.partial(scheme.log_weight, frozen_noise=frozen_noise))
            now, then = (
                jax.jvp(of, place, (along_g, along_z))[1]
                for place in ((g, z), (still[1], still[0]))
            )
            turned = jnp.stack([jnp.linalg.norm(now - then), jnp.linalg.norm(then)])
        at_rest = norm(scheme.step(*still))
        return jnp.stack(changes), jnp.stack(sizes), at_rest, norm(change), turned

    return jax.lax.map(of_point, (points, directions, keys))


MOST_BATCHES, MOST_NUMBERS = 4096, 2**23
"""Batches, and row numbers of all of them."""
ROUNDING = 1e-4
"""Of sums in float32, as a part of n."""
NUM_SIGNS = 32
"""Signs of rows, over which weights are summed."""
LEAST = 0.01
"""Part of n beyond which a mean of sums is another."""


def check_rows(part: Part, data: Data) -> None:
    """Raise ValueError unless of laws of rows of one's own every row has the weight 1 in the mean
    over batches.

    Sums of weights over all rows, and over rows with signs drawn once for each, are compared with
    what they are where every row counts once. Unequal rows are found where batches hold several
    times n rows together; of more rows only the sum of all weights is known.
    """
    for rows in laws_of(part):
        if is_own(type(rows)) and not rows.ordered:
            _check_row_law(rows, data)


def _check_row_law(law: RowLaw, data: Data) -> None:
    n = num_rows(data)
    count = max(64, min(MOST_BATCHES, MOST_NUMBERS // law.batch_size))
    found = np.asarray(_sums(law, jax.random.key(53), n, count, data), float)
    rows = np.arange(n, dtype=np.uint32)
    wanted = np.array([n, *(_signs(rows, k).sum(dtype=float) for k in range(NUM_SIGNS))])
    off, error = found.mean(0) - wanted, found.std(0) / np.sqrt(count)
    takes = (
        "kernel must have a law of rows in which every row counts once on average (weights that "
        f"sum to n, or rows that are equally probable) for a forecast; got {law!r}"
    )
    if abs(off[0]) > SURE * error[0] + LEAST * n:
        raise ValueError(f"{takes}, whose weights sum to {found[:, 0].mean() / n:.3g} n on average")
    # All signs together: each by itself says little of weights that differ a little.
    known = np.maximum(error[1:], ROUNDING * n)
    if np.mean((off[1:] / known) ** 2) > 1 + SURE * np.sqrt(2 / NUM_SIGNS):
        raise ValueError(f"{takes}, in which some rows count more than others")


def _signs(rows: PyTree, which: int) -> PyTree:
    """Return 1 or −1 of each row number, a hash of it."""
    mixed = (rows + np.uint32(which * 0x9E3779B9 % 2**32)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return 1.0 - 2.0 * (mixed >> np.uint32(31))


@jax.jit(static_argnums=(2, 3))
def _sums(law: RowLaw, key: Key, n: int, count: int, data: Data) -> Array:
    """Return sums of weights of drawn batches, plain and with signs, shape (count, 1 + signs)."""

    def of_batch(key: Key) -> Array:
        drawn = law.draw(key, data, None)
        weights = jnp.asarray(n / law.batch_size)
        if isinstance(drawn, Batch):
            rows = drawn.indices
            weights = weights if drawn.weights is None else drawn.weights
        else:
            rows = (drawn.start + jnp.arange(drawn.size)) % n
        signs = [_signs(rows.astype(jnp.uint32), k) for k in range(NUM_SIGNS)]
        return jnp.stack([jnp.sum(weights * each) for each in (jnp.ones(rows.shape), *signs)])

    return jax.lax.map(of_batch, jax.random.split(key, count), batch_size=256)
