"""Each map against its formula in NumPy float64, its inverse, its Jacobian's determinant."""

import fractions
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import bijectors


class Parts(NamedTuple):
    mean: list
    rest: dict


def sigmoid(x):
    return np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))


def stick_breaking(u):
    """θ and the log of the triangular Jacobian's diagonal, θᵢ by uᵢ, stick by stick."""
    k, left, parts, log_det = len(u) + 1, 1.0, [], 0.0
    for i, x in enumerate(u, start=1):
        z = 1 / (1 + np.exp(-x + np.log(k - i)))
        parts.append(left * z)
        log_det += np.log(left * z * (1 - z))
        left *= 1 - z
    return np.array([*parts, left]), log_det


# name: (bijector, θ(u), log|det|(u), θ without its dependent coordinates), typed from the
# definitions.
MAPS = {
    "identity": (bijectors.identity(), lambda u: u, lambda u: 0.0),
    "positive": (
        bijectors.positive(),
        lambda u: np.log(1 + np.exp(u)),
        lambda u: np.log(sigmoid(u)).sum(),
    ),
    "interval": (
        bijectors.interval(-1.5, 4.0),
        lambda u: -1.5 + 5.5 * sigmoid(u),
        lambda u: np.log(5.5 * sigmoid(u) * (1 - sigmoid(u))).sum(),
    ),
    "simplex": (
        bijectors.simplex(),
        lambda u: stick_breaking(u)[0],
        lambda u: stick_breaking(u)[1],
    ),
    "ordered": (
        bijectors.ordered(),
        lambda u: np.cumsum([u[0], *np.log(1 + np.exp(u[1:]))]),
        lambda u: np.log(sigmoid(u[1:])).sum(),
    ),
}
every_map = pytest.mark.parametrize("name", MAPS)
POINTS = np.random.default_rng(0).normal(size=(6, 4)) * np.array([[0.1], [1], [1], [2], [4], [0]])


@every_map
def test_closed_forms(x64, name):
    bijector, forward, log_det = MAPS[name]
    for u in POINTS:
        np.testing.assert_allclose(bijector.forward(u), forward(u), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(bijector.log_det(u), log_det(u), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        bijector.log_det(POINTS), sum(log_det(u) for u in POINTS), rtol=1e-12, atol=1e-12
    )


@every_map
def test_log_det_is_that_of_the_jacobian(x64, name):
    bijector = MAPS[name][0]
    for u in POINTS:
        jacobian = np.asarray(jax.jacfwd(bijector.forward)(jnp.asarray(u)))[
            : len(u)
        ]  # a simplex's free parts
        sign, expected = np.linalg.slogdet(jacobian)
        assert sign == 1
        np.testing.assert_allclose(bijector.log_det(u), expected, rtol=1e-10, atol=1e-12)


@every_map
def test_round_trips(x64, name):
    bijector = MAPS[name][0]
    np.testing.assert_allclose(
        bijector.inverse(bijector.forward(POINTS)), POINTS, rtol=1e-9, atol=1e-11
    )
    theta = np.array(bijector.forward(POINTS[::-1]))
    np.testing.assert_allclose(bijector.forward(bijector.inverse(theta)), theta, rtol=1e-12)


@every_map
def test_dtype_jit_and_vmap(x64, name):
    bijector = MAPS[name][0]
    for dtype, tolerance in ((jnp.float32, 3e-6), (jnp.float64, 1e-13)):
        u = jnp.asarray(POINTS, dtype)
        theta, log_dets = jax.jit(jax.vmap(lambda u: (bijector.forward(u), bijector.log_det(u))))(u)
        back = jax.jit(jax.vmap(bijector.inverse))(theta)
        assert theta.dtype == log_dets.dtype == back.dtype == dtype
        for i, point in enumerate(POINTS):
            np.testing.assert_allclose(
                theta[i], bijector.forward(point), rtol=tolerance, atol=tolerance
            )
            np.testing.assert_allclose(
                log_dets[i], bijector.log_det(point), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@every_map
def test_extreme_points(x64, name, dtype):
    """Value, gradient and the logarithms of θ stay finite; θ stays inside its constraint."""
    bijector = MAPS[name][0]
    sizes = [30.0, 100.0, 1e4, 1e30]
    signs = np.array([[1, 1, 1], [-1, -1, -1], [1, -1, 1], [-1, 1, -1], [0, 1, -1]])
    low, high = {"positive": (0, np.inf), "interval": (-1.5, 4.0), "simplex": (0, np.inf)}.get(
        name, (-np.inf, np.inf)
    )

    def prior(u):
        theta = bijector.forward(u)
        logs = jnp.log(theta - low) if np.isfinite(low) else theta
        logs = logs + jnp.log(high - theta) if np.isfinite(high) else logs
        return jnp.sum(logs) + bijector.log_det(u)

    points = jnp.asarray([z * s for z in sizes for s in signs], dtype)
    theta = np.asarray(jax.jit(jax.vmap(bijector.forward))(points))
    assert np.isfinite(theta).all()
    assert (low < theta).all()
    assert (theta < high).all()
    for values in jax.jit(jax.vmap(jax.value_and_grad(prior)))(points):
        np.testing.assert_array_equal(np.isfinite(values), True)
    if name == "simplex":
        np.testing.assert_allclose(theta.sum(1), 1, rtol=1e-6)
    if name == "ordered":
        assert (np.diff(theta) >= 0).all()


@pytest.mark.parametrize(("low", "high", "u"), [(-2.0, 0.0, 200.0), (0.0, 2.0, -200.0)])
def test_a_bound_of_zero_is_not_reached(low, high, u):
    """Nor a number so small that it counts as zero in a program."""
    theta = bijectors.interval(low, high).forward(jnp.float32(u))
    assert low < float(theta) < high
    assert np.isfinite(jax.jit(jnp.log)(jnp.abs(theta)))


def test_small_numbers_keep_their_digits():
    """In float32 far out: exp(u) for positive, the distance from either bound, the last stick."""
    u, small = jnp.float32(-40.0), np.exp(-40.0)
    np.testing.assert_allclose(bijectors.positive().forward(u), small, rtol=1e-5)
    np.testing.assert_allclose(bijectors.interval(0.0, 2.0).forward(u), 2 * small, rtol=1e-5)
    np.testing.assert_allclose(bijectors.interval(-2.0, 0.0).forward(-u), -2 * small, rtol=1e-5)
    np.testing.assert_allclose(bijectors.simplex().forward(-u[None])[1], small, rtol=1e-5)
    np.testing.assert_allclose(bijectors.positive().inverse(jnp.float32(small)), -40, rtol=1e-6)
    np.testing.assert_allclose(
        bijectors.simplex().inverse(jnp.float32([1, small])), [40], rtol=1e-6
    )


@pytest.mark.parametrize("number", [int, fractions.Fraction, np.int64, np.float64])
def test_bounds_are_numbers_of_any_kind(x64, number):
    """As floats, and a position keeps its dtype with 64 bits too."""
    bijector, u = bijectors.interval(number(1), number(3)), jnp.float32(0.5)
    assert bijector == bijectors.interval(1.0, 3.0)
    theta = bijector.forward(u)
    assert theta.dtype == jnp.float32
    np.testing.assert_allclose(theta, 1 + 2 * sigmoid(0.5), rtol=1e-6)
    np.testing.assert_allclose(bijector.inverse(theta), u, rtol=1e-6)


def test_tree_of_maps(x64):
    """Bijectors at leaves and subtrees, in a NamedTuple, a list, a dictionary, a user's object."""

    class Doubled:
        def forward(self, position):
            return 2 * position

        def log_det(self, position):
            return position.size * jnp.log(2.0)

    inner = bijectors.tree({"weights": bijectors.simplex(), "scales": bijectors.positive()})
    both = bijectors.tree(Parts([bijectors.identity(), bijectors.ordered()], inner))
    u, v = POINTS[1], POINTS[2]
    position = Parts([np.array(0.3), u], {"weights": v, "scales": {"a": u[:2], "b": v[2]}})
    theta = both.forward(position)
    assert jax.tree.structure(theta) == jax.tree.structure(position)
    np.testing.assert_allclose(theta.mean[0], 0.3)
    np.testing.assert_allclose(theta.mean[1], MAPS["ordered"][1](u))
    np.testing.assert_allclose(theta.rest["weights"], stick_breaking(v)[0])
    np.testing.assert_allclose(theta.rest["scales"]["b"], np.log(1 + np.exp(v[2])))
    expected = (
        MAPS["ordered"][2](u) + stick_breaking(v)[1] + MAPS["positive"][2](np.append(u[:2], v[2]))
    )
    np.testing.assert_allclose(both.log_det(position), expected, rtol=1e-12)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), both.inverse(theta), position
    )

    own = bijectors.tree([Doubled(), bijectors.positive()])
    np.testing.assert_allclose(own.forward([u, v])[0], 2 * u)
    np.testing.assert_allclose(
        own.log_det([u, v]), 4 * np.log(2) + MAPS["positive"][2](v), rtol=1e-12
    )
    with pytest.raises(TypeError, match=r"bijectors\[0\].inverse must be a function"):
        own.inverse([u, v])


@pytest.mark.parametrize(
    ("name", "theta"),
    [
        ("positive", [1.0, 0.0]),
        ("interval", [0.0, 4.0]),
        ("simplex", [0.5, 0.5, 0.0]),
        ("simplex", [0.5, 0.6]),
        ("ordered", [0.0, 1.0, 1.0]),
    ],
)
def test_inverse_refuses_what_lies_outside(name, theta):
    with pytest.raises(ValueError, match=r"position must be .*numbers are not"):
        MAPS[name][0].inverse(jnp.array(theta))


def test_refusals():
    for bounds in ((1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="low must be less than high"):
            bijectors.interval(*bounds)
    with pytest.raises(ValueError, match="high must be a finite number; got inf"):
        bijectors.interval(0.0, np.inf)
    with pytest.raises(ValueError, match=r"high must be a finite number; got 1000.*\(int\)"):
        bijectors.interval(0, 10**400)
    with pytest.raises(TypeError, match="low must be a finite number"):
        bijectors.interval("0", 1.0)
    with pytest.raises(ValueError, match="float32 numbers between them"):
        bijectors.interval(1.0, 1.0 + 1e-12).forward(jnp.zeros(2))
    for bijector in (bijectors.simplex(), bijectors.ordered()):
        with pytest.raises(ValueError, match="whose last axis is at least 1 long"):
            bijector.forward(jnp.array(1.0))
    with pytest.raises(TypeError, match="tree of floating-point arrays; position is"):
        bijectors.positive().forward(jnp.arange(3))
    with pytest.raises(
        TypeError, match=r"bijectors\['scale'\] must be an object with the methods forward"
    ):
        bijectors.tree({"mean": bijectors.identity(), "scale": 3})
    with pytest.raises(TypeError, match=r"bijectors\['scale'\] must be an object"):
        bijectors.tree({"scale": bijectors.positive})
    both = bijectors.tree({"mean": bijectors.identity(), "scale": bijectors.positive()})
    with pytest.raises(ValueError, match="position must have the structure of the bijectors"):
        both.forward({"mean": jnp.zeros(2)})
    assert ewsg.bijectors is bijectors
