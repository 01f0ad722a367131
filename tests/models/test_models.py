"""The ready models: types of data, extremes, conjugate answers, arguments they refuse."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from tests.oracles import enumeration

N = 8
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)
INTEGERS = RNG.integers(-3, 4, size=(N, 3))
BINARY, CLASSES = RNG.integers(2, size=N), np.array([0, 3, 1, 2, 1, 0, 2, 2])
W, MATRIX = RNG.normal(size=3), RNG.normal(size=(3, 4))


def prior(position):
    """−log N(position; 0, I)."""
    return np.sum(position**2) / 2 + 0.5 * np.size(position) * np.log(2 * np.pi)


def gradient_and_potential(model, position, data):
    position = jnp.asarray(position, jnp.float32)
    data = jax.tree.map(jnp.asarray, data)
    model.check(position, data)
    gradient = model.gradient(position, data, 3)
    assert gradient.dtype == jnp.float32
    return gradient, model.potential(position, data)


@pytest.mark.usual_parameters("uint8", "bool")
@pytest.mark.parametrize("label", [np.int32, np.int8, np.uint8, np.float32, bool])
def test_logistic_takes_any_type_of_label(label):
    """In uint8 0 − 1 would be 255."""
    model, x = ewsg.models.logistic_regression(), X.astype(np.float32)
    gradient, potential = gradient_and_potential(model, W, {"x": x, "y": BINARY.astype(label)})
    expected = enumeration.full_gradient(enumeration.logistic_regression(W, X, BINARY), W)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
    signs = np.where(BINARY == 1, 1, -1)
    np.testing.assert_allclose(
        potential, np.log1p(np.exp(-signs * (X @ W))).sum() + prior(W), rtol=1e-5
    )


@pytest.mark.usual_parameters("uint8")
@pytest.mark.parametrize("label", [np.int32, np.int8, np.uint8])
def test_softmax_takes_any_type_of_label(label):
    model, x = ewsg.models.softmax_regression(), X.astype(np.float32)
    gradient, potential = gradient_and_potential(
        model, MATRIX, {"x": x, "y": CLASSES.astype(label)}
    )
    per_datum = enumeration.softmax_regression(MATRIX, X, CLASSES)
    np.testing.assert_allclose(
        gradient.ravel(), enumeration.full_gradient(per_datum, MATRIX.ravel()), rtol=1e-5, atol=1e-5
    )
    logits = X @ MATRIX
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(N), CLASSES]
    np.testing.assert_allclose(potential, losses.sum() + prior(MATRIX), rtol=1e-5)


@pytest.mark.usual_parameters("int8")
@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_integer_features(dtype):
    """Whole-number features and targets are data like any other; nothing is cast on the way."""
    x, y = INTEGERS.astype(dtype), INTEGERS[:, 0].astype(dtype)
    cases = [
        (
            ewsg.models.gaussian_location(),
            W,
            x,
            enumeration.gaussian_location(W, INTEGERS, 1),
            0 * W,
        ),
        (
            ewsg.models.linear_regression(),
            W,
            {"x": x, "y": y},
            enumeration.linear_regression(W, INTEGERS, INTEGERS[:, 0], 1),
            W,
        ),
        (
            ewsg.models.logistic_regression(),
            W,
            {"x": x, "y": BINARY},
            enumeration.logistic_regression(W, INTEGERS, BINARY),
            W,
        ),
        (
            ewsg.models.softmax_regression(),
            MATRIX,
            {"x": x, "y": CLASSES},
            enumeration.softmax_regression(MATRIX, INTEGERS, CLASSES),
            MATRIX.ravel(),
        ),
    ]
    for model, position, data, per_datum, prior in cases:
        gradient, _ = gradient_and_potential(model, position, data)
        expected = enumeration.full_gradient(per_datum, prior)
        np.testing.assert_allclose(
            gradient.ravel(), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
        )


def test_flat_gaussian_location_is_centred_on_the_data(x64):
    """EWSG section 5.1: N(mean, s²/n I)."""
    model, data = ewsg.models.gaussian_location(noise_scale=0.6), jnp.asarray(X)
    np.testing.assert_allclose(model.gradient(jnp.asarray(X.mean(0)), data), 0, atol=1e-12)
    hessian = jax.hessian(lambda p: model.potential(p, data))(jnp.zeros(3))
    np.testing.assert_allclose(hessian, N / 0.6**2 * np.eye(3), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("prior_scale", [0.7, math.inf])
def test_linear_regression_has_its_conjugate_posterior(x64, prior_scale):
    """Mean (XᵀX/s² + 1/τ²)⁻¹ Xᵀy/s², precision XᵀX/s² + 1/τ²."""
    model = ewsg.models.linear_regression(noise_scale=0.6, prior_scale=prior_scale)
    precision = X.T @ X / 0.6**2 + np.eye(3) / prior_scale**2
    mean = np.linalg.solve(precision, X.T @ Y / 0.6**2)
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
    np.testing.assert_allclose(model.gradient(jnp.asarray(mean), data), 0, atol=1e-11)
    np.testing.assert_allclose(
        jax.hessian(lambda p: model.potential(p, data))(jnp.zeros(3)), precision, rtol=1e-11
    )


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (ewsg.models.gaussian_location, (3,)),
        (ewsg.models.linear_regression, (3,)),
        (ewsg.models.logistic_regression, (3,)),
        (ewsg.models.softmax_regression, (3, 4)),
    ],
)
def test_prior_scale(x64, make, shape):
    position = jnp.asarray(RNG.normal(size=shape))
    np.testing.assert_allclose(
        make(prior_scale=0.5).prior_gradient(position), 4 * position, rtol=1e-14
    )
    density = stats.norm(0, 0.5).logpdf(position).sum()
    np.testing.assert_allclose(make(prior_scale=0.5).log_prior(position), density, rtol=1e-13)
    np.testing.assert_array_equal(
        make(prior_scale=math.inf).prior_gradient(position), np.zeros(shape)
    )
    default = 0.0 if make is ewsg.models.gaussian_location else 1.0
    np.testing.assert_allclose(make().prior_gradient(position), default * position, rtol=1e-14)


@pytest.mark.parametrize("logit", [-1e4, -100.0, 100.0, 1e4])
def test_extreme_logits_stay_finite(logit):
    x, w = jnp.ones((1, 1)), jnp.full(1, logit)
    for label in (0, 1):
        data = {"x": x, "y": jnp.array([label])}
        logistic = ewsg.models.logistic_regression(prior_scale=math.inf)
        wrong = (logit > 0) != (label == 1)
        np.testing.assert_allclose(
            logistic.potential(w, data), abs(logit) if wrong else 0.0, atol=1e-30
        )
        np.testing.assert_allclose(
            logistic.gradient(w, data), [np.sign(logit) if wrong else 0.0], atol=1e-30
        )
        softmax = ewsg.models.softmax_regression(prior_scale=math.inf)
        matrix = jnp.array([[0.0, logit]])
        np.testing.assert_allclose(
            softmax.potential(matrix, data), abs(logit) if wrong else 0.0, atol=1e-30
        )
        expected = np.array([[-1.0, 1.0]]) * np.sign(logit) if wrong else np.zeros((1, 2))
        np.testing.assert_allclose(softmax.gradient(matrix, data), expected, atol=1e-30)


def test_wrong_shapes_are_refused_at_init():
    kernel = ewsg.sgld(ewsg.models.logistic_regression(), 1e-3, batch_size=2)
    data = {"x": jnp.asarray(X, jnp.float32), "y": jnp.asarray(BINARY)}
    for position in (jnp.zeros(2), jnp.zeros((3, 2)), {"w": jnp.zeros(3)}):
        with pytest.raises(ValueError, match="log_likelihood must return a"):
            kernel.init(jax.random.key(0), position, data)
    with pytest.raises(
        ValueError, match=r"log_likelihood must return a scalar .*; it failed on them"
    ):
        kernel.init(jax.random.key(0), jnp.zeros(3), jnp.asarray(X, jnp.float32))


KINDS = {
    "signs": (
        ewsg.models.logistic_regression(),
        W,
        2.0 * BINARY - 1,
        r"0 and 1 only; got -1.0 in row \d \(\d such",
    ),
    "one and two": (ewsg.models.logistic_regression(), W, BINARY + 1, "0 and 1 only; got 2 in row"),
    "halves": (ewsg.models.logistic_regression(), W, BINARY / 2, "0 and 1 only; got 0.5"),
    "from one": (
        ewsg.models.softmax_regression(),
        MATRIX,
        CLASSES + 1,
        r"from 0 to 3 only; got 4 in row 1 \(1 such",
    ),
    "below": (
        ewsg.models.softmax_regression(),
        MATRIX,
        CLASSES - 1,
        "from 0 to 3 only; got -1 in row 0",
    ),
}


@pytest.mark.usual_parameters("halves")
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_another_kind_are_refused(kind):
    model, position, y, message = KINDS[kind]
    position, data = jnp.asarray(position, jnp.float32), {"x": np.float32(X), "y": y}
    key, kernel = jax.random.key(0), ewsg.sgld(model, 1e-3, batch_size=2)
    twice = model.transformed(ewsg.bijectors.identity())
    for use in (
        lambda: model.check(position, data),
        lambda: twice.check(position, data),
        lambda: model.gradient(position, data),
        lambda: kernel.init(key, position, data),
        lambda: ewsg.find_mode(key, model, position, data),
        lambda: ewsg.sample(key, kernel, position, data, 3),
    ):
        with pytest.raises(ValueError, match=rf"data\['y'\] must hold .*{message}"):
            use()
    # Where only shapes are known, and where it is not to be looked at, nothing is said.
    model.check(position, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), data))
    jax.jit(kernel.init)(key, position, data)
    ewsg.sample(key, kernel, position, data, 3, check_data=False)


@pytest.mark.full
def test_values_are_looked_at_by_init_and_not_again_in_each_step():
    looked = []
    model = ewsg.Posterior(
        lambda p, x: -0.5 * (x - p) ** 2,
        lambda p: 0.0 * p,
        check_values=lambda p, x: looked.append(x),
    )
    kernel, data = ewsg.sgld(model, 1e-3, batch_size=2), jnp.arange(4.0)
    state = kernel.init(jax.random.key(0), jnp.float32(0), data)
    assert len(looked) == 1
    kernel.step(jax.random.key(1), state, data)
    model.batch_gradient(state.position, data, jnp.arange(2))
    assert len(looked) == 1
