"""Stein's identity of any function of the position, by its differences around the draws.

For h a function of the position, v a direction, ε a length and U uniform between 0 and 1,

    E[(h(θ + εv) + h(θ − εv) − 2 h(θ))/ε² − (g·v) (h(θ + Uεv) − h(θ − Uεv))/ε] = 0

with θ from the target and g the gradient of V/T. It is Stein's identity of h, averaged along v with
triangular weights of half-width ε, which has a second derivative even if h has jumps. It holds for
any ε: a function may have kinks, as a network of rectified units, or be true or false.

With directions whose outer products add up to C on average it is E[∇·C∇h − g·C∇h] = 0. If h has a
gradient, 2U(g·v)(v·∇h), which is the term of a linear function, is replaced by its mean g·C∇h.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.stein import STEIN_FUNCTIONS
from ewsg_jax.base import checks, limits, rng, tracing
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.optional import error_function
from ewsg_jax.base.typing import Array, Key, Position, PyTree
from ewsg_jax.vectors.layout import Layout

ANTIDERIVATIVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "1": lambda u: u,
    "u": lambda u: u**2 / 2,
    "u²": lambda u: u**3 / 3,
    "exp(-u²/2)": lambda u: np.sqrt(np.pi / 2) * error_function(u / np.sqrt(2)),
}
"""The functions h of u whose derivatives are the Stein functions φ."""


class Metric(NamedTuple):
    """Draws and the scale of directions around them.

    Attributes:
        rows: the numbers of the draws, in the order of `Draws.flat`.
        root: L with L Lᵀ = C, shape (d, d), or its diagonal, shape (d,).
    """

    rows: np.ndarray
    root: np.ndarray


class Differences(NamedTuple):
    """A function of q numbers at draws, and around them along p directions of each.

    Attributes:
        here: its values at the draws, shape (draws, q).
        far: those at θ + εv and at θ − εv, shape (draws, p, 2, q).
        near: those at θ + Uεv and at θ − Uεv, the same shape.
        uniform: U, shape (draws, p).
        derivatives: v·∇f, shape (draws, p, q); 0 if the function has no gradient.
        along: v·g on one minibatch and on another, shape (draws, 2, p).
        products: g·C∇f on both, shape (draws, 2, q).
    """

    here: np.ndarray
    far: np.ndarray
    near: np.ndarray
    uniform: np.ndarray
    derivatives: np.ndarray
    along: np.ndarray
    products: np.ndarray


class OfFunctions(NamedTuple):
    """The identities of functions, standardised, in units in which E g u = 1 under the target.

    Attributes:
        draws: u, the functions' values less their mean in their sds, shape (chain, draw, q).
        values: each identity by the name of its Stein function, on one minibatch and on another,
            shape (2, chain, draw, q).
        order: the mean square of the gradient of u in the metric C, shape (q,); 0 if the function
            changes around no draw. If C is the covariance of a normal target it is the mean degree
            of u in orthogonal polynomials: 1 if u is linear.
    """

    draws: np.ndarray
    values: dict[str, np.ndarray]
    order: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the mean and of the standard deviation, which are judged."""
        return "1", "u"

    @property
    def num_orthogonal(self) -> int:
        """All functions have a common average."""
        return self.draws.shape[2]

    def at_draws(self, name: str, part: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return an identity at the draws, and half its difference between two minibatches."""
        first, second = self.values[name][..., part]
        if np.array_equal(first, second):
            return first.copy(), None
        return (first + second) / 2, (first - second) / 2


def shapes_of(function: Callable[[Position], PyTree], layout: Layout) -> PyTree:
    """Return the shapes of what a function of the position returns.

    Raises:
        ValueError: it is no such function, or returns too many numbers.
    """
    position = layout.tree(np.zeros(layout.size, np.float32))
    shapes = tracing.outputs("of", function, "one position", position)
    size = sum(int(np.prod(x.shape)) for x in jax.tree.leaves(shapes))
    if not 0 < size <= settings.COLUMNS_AT_ONCE:
        raise ValueError(
            f"of must return 1 to {settings.COLUMNS_AT_ONCE} numbers; it returned {size:,} "
            f"({checks.listed('of', shapes)}): choose some of them"
        )
    return shapes


def differences(
    key: Key,
    function: Callable[[Position], PyTree],
    draws: Draws,
    gradients: tuple[np.ndarray, np.ndarray],
    metrics: list[Metric],
) -> Differences:
    """Return a function at draws and around them.

    Args:
        key: a typed PRNG key, for the directions.
        function: a function of one position, of which `shapes_of` knows the shapes.
        draws: the draws.
        gradients: gradients of V/T on one minibatch and on another, shape (draws, d) both.
        metrics: which draws have which scale; each draw is in one of them.

    Raises:
        ValueError: the function is not finite there, or one number at all draws.
    """
    layout, dtype = draws.layout, jnp.result_type(float, *draws.layout.dtypes)
    both = np.stack(gradients, axis=1)
    # Blocks of one length have one program.
    length = max(len(metric.rows) for metric in metrics)
    with as_of_now(function):
        at = jax.jit(_program(function, layout))
        parts = []
        for number, (rows, root) in enumerate(metrics):
            padded = np.resize(rows, length)
            arrays = (jnp.asarray(x, dtype) for x in (root, draws.flat[padded], both[padded]))
            block = at(jax.random.fold_in(key, number), *arrays)
            parts.append([np.asarray(x, np.float64)[: len(rows)] for x in block])
    order = np.argsort(np.concatenate([metric.rows for metric in metrics]), kind="stable")
    values = Differences(*(np.concatenate(x)[order] for x in zip(*parts, strict=True)))
    if not all(np.isfinite(x).all() for x in (values.here, values.far, values.near)):
        raise ValueError(
            "of must return finite numbers at the draws, and within "
            f"{settings.OF_STEP:g} sds of them; got some that are not"
        )
    if still := int(np.sum(np.ptp(values.here, axis=0) == 0)):
        raise ValueError(
            "of must return numbers that differ between draws; got "
            f"{still} of {values.here.shape[1]} that are the same at all of them"
        )
    return values


def of_functions(draws: Draws, around: Differences) -> OfFunctions:
    """Return identities of functions.

    Args:
        draws: the draws at which they are evaluated.
        around: the functions at the draws and around them.
    """
    step = settings.OF_STEP
    mean, sd = around.here.mean(0), around.here.std(0)
    here, far, near = ((x - mean) / sd for x in (around.here, around.far, around.near))
    derivatives, products = around.derivatives / sd, around.products / sd
    # Axes are added up, random directions averaged.
    count = around.uniform.shape[1]
    weight = 1.0 if count == draws.size else 1.0 / count
    size = weight * np.sum((far - here[:, None, None]) ** 2, axis=(1, 2)).mean(0) / (2 * step**2)
    values = {}
    for name, function in STEIN_FUNCTIONS.items():
        h = ANTIDERIVATIVES[name]
        phi = function.value(here)
        second = (np.sum(h(far), axis=2) - 2 * h(here)[:, None]) / step**2
        first = (h(near[:, :, 0]) - h(near[:, :, 1])) / step
        first -= 2 * around.uniform[..., None] * derivatives * phi[:, None]
        terms = [
            phi * products[:, batch]
            + weight * np.einsum("np,npq->nq", around.along[:, batch], first)
            - weight * second.sum(1)
            for batch in (0, 1)
        ]
        unit = np.where(size > 0, size, 1.0) * function.size
        values[name] = np.stack([draws.in_chains(x / unit) for x in terms])
    return OfFunctions(draws.in_chains(here), values, size)


def _program(function: Callable[[Position], PyTree], layout: Layout) -> Callable[..., Any]:
    """Return the program that evaluates a function at positions and around them."""

    def value(flat: Array) -> Array:
        leaves = jax.tree.leaves(function(layout.tree(flat)))
        return jnp.concatenate([jnp.ravel(x).astype(flat.dtype) for x in leaves])

    # Without a derivative its term stays in the differences: right, and with more noise.
    is_differentiable = _is_differentiable(value, layout.size)
    size, step = layout.size, settings.OF_STEP
    # More directions have less noise and take more time: eight are worth a gradient or so.
    count = min(size, 8)

    def of_place(key: Key, flat: Array, both: Array, root: Array) -> tuple[Array, ...]:
        sign_key, uniform_key = jax.random.split(key)
        # All axes if they are few, else random signs: I is the mean of their outer products.
        axes = jnp.eye(size, dtype=flat.dtype)
        axes = axes if count == size else rng.signs(sign_key, (count, size), flat.dtype)
        uniform = jax.random.uniform(uniform_key, (count, 1), flat.dtype)
        directions = axes * root[None] if root.ndim == 1 else axes @ root.T
        of_gradients = both * root[None] ** 2 if root.ndim == 1 else both @ root @ root.T
        here = value(flat)
        jacobian = jnp.zeros((*here.shape, size), flat.dtype)
        if is_differentiable:
            jacobian = jax.jacrev(value)(flat)

        def around(moves: Array) -> Array:
            ends = jnp.stack([flat[None] + moves, flat[None] - moves], axis=1)
            return jax.vmap(jax.vmap(value))(ends)

        return (
            here,
            around(step * directions),
            around(step * uniform * directions),
            uniform[:, 0],
            directions @ jacobian.T,
            both @ directions.T,
            of_gradients @ jacobian.T,
        )

    def at(key: Key, root: Array, places: Array, both: Array) -> tuple[Array, ...]:
        keys = jax.random.split(key, len(places))
        return jax.lax.map(
            lambda args: of_place(args[0], args[1], args[2], root),
            (keys, places, both),
            batch_size=limits.POSITIONS_AT_ONCE // (4 * count),
        )

    return at


def _is_differentiable(value: Callable[[Array], Array], size: int) -> bool:
    """Return whether JAX differentiates a function of `size` numbers, in reverse."""
    try:
        jax.make_jaxpr(jax.jacrev(value))(np.zeros(size, np.float32))
    except Exception:  # such as a loop of unknown length
        return False
    return True
