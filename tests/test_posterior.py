"""The posterior: closed forms against autodiff and NumPy, and what its checks say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from ewsg_jax.rows._view import num_rows, sum_over_rows

N = 7
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)
BINARY, CLASSES = np.array([0, 1, 1, 0, 1, 0, 1]), np.array([2, 0, 1, 1, 3, 0, 2])
MODELS = {
    "gaussian_location": (ewsg.models.gaussian_location(noise_scale=0.8, prior_scale=0.7), X, (3,)),
    "linear_regression": (
        ewsg.models.linear_regression(noise_scale=0.8, prior_scale=0.7),
        {"x": X, "y": Y},
        (3,),
    ),
    "logistic_regression": (
        ewsg.models.logistic_regression(prior_scale=0.7),
        {"x": X, "y": BINARY},
        (3,),
    ),
    "softmax_regression": (
        ewsg.models.softmax_regression(prior_scale=0.7),
        {"x": X, "y": CLASSES},
        (3, 4),
    ),
}
REPEATS = np.array([5, 2, 5, 5, 0], np.int32)


def numbers(tree, dtype):
    """The tree as jax arrays, its floating-point leaves in this dtype."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype if x.dtype.kind == "f" else x.dtype), tree)


def log_density(model, position, data):
    """Log prior and log likelihoods in float64, by SciPy, with their constants."""
    prior = stats.norm(0, 0.7).logpdf(position).sum()
    if model == "gaussian_location":
        return prior, stats.norm(position, 0.8).logpdf(data).sum(axis=1)
    s, y = data["x"] @ position, data["y"]
    if model == "linear_regression":
        return prior, stats.norm(s, 0.8).logpdf(y)
    if model == "logistic_regression":
        return prior, np.log(np.where(y == 1, 1 / (1 + np.exp(-s)), 1 / (1 + np.exp(s))))
    return prior, np.log(np.exp(s[np.arange(N), y]) / np.exp(s).sum(axis=1))


# Closed forms.


@pytest.mark.usual_parameters("*-float32")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_log_likelihood(x64, name, dtype):
    """A batch with repeats, all rows and chunks, against reverse and forward modes."""
    model, data, shape = MODELS[name]
    data, position = numbers(data, dtype), jnp.asarray(RNG.normal(size=shape), dtype)
    batch = jax.tree.map(lambda x: x[REPEATS], data)

    def minus_log_likelihood(p, rows):
        row = lambda i: jax.tree.map(lambda x: x[i], rows)
        return -sum(model.log_likelihood(p, row(i)) for i in range(num_rows(rows)))

    @jax.jit
    def ours(p):
        return {
            "batch": model.batch_gradient(p, data, jnp.asarray(REPEATS)),
            "all": model.likelihood_gradient(p, data),
            "chunks": model.likelihood_gradient(p, data, 3),
            "prior": model.prior_gradient(p),
            "potential": model.gradient(p, data, 2),
        }

    @jax.jit
    def theirs(p):
        everything = jax.jacfwd(minus_log_likelihood)(p, data)
        return {
            "batch": N / len(REPEATS) * jax.jacfwd(minus_log_likelihood)(p, batch),
            "all": everything,
            "chunks": everything,
            "prior": -jax.jacfwd(model.log_prior)(p),
            "potential": jax.grad(lambda p: minus_log_likelihood(p, data) - model.log_prior(p))(p),
        }

    eps = jnp.finfo(dtype).eps
    for (name, a), (_, b) in zip(ours(position).items(), theirs(position).items(), strict=True):
        assert a.dtype == dtype
        assert a.shape == shape
        np.testing.assert_allclose(a, b, rtol=0, atol=32 * eps * np.abs(b).max(), err_msg=name)


@pytest.mark.usual_parameters("linear_regression", "softmax_regression")
@pytest.mark.parametrize("name", MODELS)
def test_potential_and_log_likelihoods(x64, name):
    model, data, shape = MODELS[name]
    position = RNG.normal(size=shape)
    prior, rows = log_density(name, position, data)
    ours = jax.jit(
        lambda p, d: (
            model.log_likelihoods(p, d),
            [model.potential(p, d, k) for k in (1, 3, N, 50)],
        )
    )
    log_likelihoods, potentials = ours(jnp.asarray(position), numbers(data, jnp.float64))
    np.testing.assert_allclose(log_likelihoods, rows, rtol=1e-12)
    np.testing.assert_allclose(potentials, -prior - rows.sum(), rtol=1e-12)


def test_linear_with_and_without_a_closed_form(x64):
    """Residuals by autodiff, in closed form, and the same model without `linear`."""

    def log_likelihood(rate, row):
        return row["y"] * rate - jnp.exp(rate)

    def log_prior(w):
        return -jnp.sum(jnp.abs(w))

    inputs = lambda row: jnp.concatenate([row["x"], jnp.ones(1)])
    models = [
        ewsg.Posterior.linear(log_likelihood, log_prior, inputs=inputs),
        ewsg.Posterior.linear(
            log_likelihood,
            log_prior,
            inputs=inputs,
            residual=lambda rates, rows: rows["y"] - jnp.exp(rates),
        ),
        ewsg.Posterior(lambda w, row: log_likelihood(inputs(row) @ w, row), log_prior),
    ]
    w, data = jnp.array([0.3, -0.2, 0.5, 0.1]), numbers({"x": X, "y": CLASSES}, jnp.float64)
    with_one = np.column_stack([X, np.ones(N)])
    per_datum = (np.exp(with_one @ np.asarray(w)) - CLASSES)[:, None] * with_one
    for model in models:
        model.check(w, data)
        np.testing.assert_allclose(
            model.gradient(w, data), per_datum.sum(0) + np.sign(w), rtol=1e-12
        )
        batch = model.batch_gradient(w, data, jnp.asarray(REPEATS))
        np.testing.assert_allclose(batch, N / 5 * per_datum[REPEATS].sum(0), rtol=1e-12)
        np.testing.assert_allclose(
            model.log_likelihoods(w, data), models[2].log_likelihoods(w, data), rtol=1e-12
        )


def test_flat_prior_of_python_zero():
    model = ewsg.Posterior(lambda p, x: -jnp.sum((x - p["a"]) ** 2), lambda p: 0.0)
    position, data = {"a": jnp.ones(3), "b": jnp.ones((2, 2))}, jnp.asarray(X, jnp.float32)
    model.check(position, data)
    prior = model.prior_gradient(position)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), prior) == jax.tree.map(
        lambda x: (x.shape, x.dtype), position
    )
    assert not any(np.any(x) for x in jax.tree.leaves(prior))
    np.testing.assert_allclose(model.gradient(position, data)["a"], 2 * (N - X.sum(0)), rtol=1e-5)
    np.testing.assert_allclose(model.potential(position, data), np.sum((X - 1) ** 2), rtol=1e-5)


@pytest.mark.usual_parameters("3", "7")
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_sums_over_rows_see_each_row_once(n):
    """Whole numbers in binary: row i adds 2^i, so the sum tells how often each row was seen."""
    rows = {"bit": jnp.asarray(2 ** np.arange(n), jnp.int32)}
    for chunk_size in range(1, n + 2):
        total = sum_over_rows(lambda r: jnp.sum(r["bit"], dtype=jnp.int32), rows, chunk_size)
        assert int(total) == 2**n - 1


@pytest.mark.parametrize(("n", "chunk_size", "lengths"), [
    (60, 16, {15}), (60, 60, {60}), (60, 64, {60}), (61, 16, {16, 13}), (35, 16, {16, 3}),
    (5, 16, {5}), (4_100, 4_096, {2_050}), (8_190, 4_096, {4_095}),
])  # fmt: skip
def test_chunks_of_one_length_where_they_divide_the_rows(n, chunk_size, lengths):
    """Rows that are left over are a second copy of the function in the program."""
    seen = set()

    def of_rows(rows):
        seen.add(rows.shape[0])
        return jnp.sum(rows, dtype=jnp.int32)

    assert sum_over_rows(of_rows, jnp.arange(n), chunk_size) == n * (n - 1) // 2
    assert seen - {chunk_size} <= lengths
    assert lengths <= seen


# What the checks say.


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["linear", "any"])
@pytest.mark.parametrize("of", ["gradient", "likelihood_gradient", "batch_gradient"])
def test_positions_of_python_and_numpy(kind, of):
    """Numbers and float64 arrays are taken for what JAX makes of them, as `check` takes them."""
    if kind == "linear":
        model = ewsg.models.linear_regression()
        at, data = np.array([0.5, -1.0]), {"x": jnp.ones((4, 2)), "y": jnp.arange(4.0)}
    else:
        model = ewsg.Posterior(lambda p, x: -((x - p["a"]) ** 2), lambda p: -(p["a"] ** 2))
        at, data = {"a": 0.5}, jnp.arange(4.0)
    batch = (jnp.array([0, 2]),) if of == "batch_gradient" else ()
    found = getattr(model, of)(at, data, *batch)
    expected = getattr(model, of)(jax.tree.map(jnp.float32, at), data, *batch)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


# Indices out of bounds.

GROUPS = {"group": np.array([0, 3, 4, 1, 2]), "y": np.arange(5, dtype=np.float32)}
FINE = GROUPS | {"group": np.arange(5) % 4}
FOUND = "index 4 is out of bounds for axis 0 with size 4"


def grouped(log_likelihood, **options):
    return ewsg.Posterior(log_likelihood, lambda p: -0.5 * jnp.sum(p**2), **options)


def of_group(p, row):
    return -0.5 * (row["y"] - p[row["group"]]) ** 2


def in_a_loop(p, row):
    return jax.lax.fori_loop(0, 2, lambda i, total: total - p[row["group"] - i] ** 2, 0.0)


@pytest.mark.usual_parameters("compiled", "beside NaN")
@pytest.mark.parametrize(
    "log_likelihood",
    [
        of_group,
        lambda p, row: -jnp.sum(p[jnp.stack([row["group"], 0])] ** 2),
        jax.jit(of_group),
        in_a_loop,
        lambda p, row: of_group(p, row) - jax.nn.softplus(jnp.take(p, row["group"])),
        jax.jit(lambda p, row: of_group(p.at[row["group"] + 9].add(1.0), row)),
    ],
    ids=["a number", "an array", "compiled", "in a loop", "beside NaN", "beside what is dropped"],
)
def test_an_index_out_of_bounds_is_refused(log_likelihood):
    """Group 4 of 0 to 3, which JAX takes for 3."""
    model, point = grouped(log_likelihood), np.zeros(4, np.float32)
    model.check(point, FINE)
    with pytest.raises(
        ValueError, match=f"data must lead to indices in bounds in log_likelihood.*{FOUND}"
    ):
        model.check(point, GROUPS)
    model.check(np.zeros(5, np.float32), GROUPS)


@pytest.mark.full
def test_an_index_out_of_bounds_is_refused_wherever_values_are_looked_at():
    model, point, key = grouped(of_group), jnp.zeros(4), jax.random.key(0)
    kernel = ewsg.sgld(model, 1e-3, batch_size=2)
    calls = [
        lambda: kernel.init(key, point, GROUPS),
        lambda: ewsg.sample(key, kernel, point, GROUPS, 2),
        lambda: ewsg.find_mode(key, model, point, GROUPS),
        lambda: model.potential(point, GROUPS),
    ]
    samples = ewsg.sample(key, kernel, point, FINE, 2)
    calls.append(lambda: ewsg.diagnostics.log_predictive_density(samples, model, GROUPS))
    calls.append(lambda: model.transformed(ewsg.bijectors.identity()).check(point, GROUPS))
    for call in calls:
        with pytest.raises(ValueError, match=FOUND):
            call()
    assert jax.tree.map(np.shape, jax.jit(kernel.init)(key, point, GROUPS).position) == (4,)
    ewsg.sample(key, kernel, point, GROUPS, 2, check_data=False)


@pytest.mark.usual_parameters("filled")
@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda p, row: -(p[row["group"] % 4] ** 2),
        lambda p, row: -(p.at[row["group"]].get(mode="fill", fill_value=0.0) ** 2),
        lambda p, row: -jnp.sum(p.at[jnp.stack([row["group"]])].get(mode="clip") ** 2),
        lambda p, row: -(jnp.take(p, row["group"]) ** 2),
        lambda p, row: -(p[row["group"] - 4] ** 2),
        lambda p, row: -(jnp.take(p, row["group"]) ** 2) - p[row["group"] % 4] ** 2,
        lambda p, row: jax.lax.cond(row["y"] > 0, jnp.take, lambda p, g: p[g % 4], p, row["group"]),
    ],
    ids=["in bounds", "filled", "clipped", "NaN", "from behind", "NaN beside it", "in a branch"],
)
def test_an_index_that_is_meant_is_not_refused(log_likelihood):
    """In bounds; or where the likelihood says itself what is beyond them."""
    model, point, data = grouped(log_likelihood), jnp.ones(4), jax.tree.map(jnp.asarray, GROUPS)
    model.check(point, data)
    assert np.shape(model.log_likelihoods(point, data)) == (5,)


MISSING = GROUPS | {"group": np.array([0, 1, -1, 2, -1], np.int8)}
FROM_ONE = MISSING | {"group": MISSING["group"] + 1}
IN_ONE_TABLE = np.stack([MISSING["group"], MISSING["y"]], 1).astype(np.float32)


@pytest.mark.usual_parameters("codes", "from one")
@pytest.mark.parametrize(
    ("log_likelihood", "data"),
    [
        (of_group, MISSING),
        (lambda p, row: -((row["y"] - p[row["group"] - 1]) ** 2), FROM_ONE),
        (lambda p, row: -((row[1] - p[row[0].astype(int)]) ** 2), IN_ONE_TABLE),
        (lambda p, row: -(jnp.take(p, row["group"]) ** 2), MISSING),
        (jax.jit(lambda p, row: -jnp.sum(p[jnp.stack([row["group"], 0])] ** 2)), MISSING),
        (lambda p, row: -(p.reshape(1, 4)[0, row["group"]] ** 2), MISSING),
    ],
    ids=["codes", "from one", "a column of floats", "taken", "an array", "a matrix"],
)
def test_a_missing_label_is_not_the_last_one(log_likelihood, data):
    """pandas has the code −1 for a missing category, which JAX takes for the last group."""
    model, point = grouped(log_likelihood), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match=r"indices from 0 on.*got one in row 2 \(2 such rows\)"):
        model.check(point, data)
    model.check(point, jax.tree.map(lambda x: x[:2], data))


@pytest.mark.usual_parameters("masked")
@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda p, row: jnp.where(row["group"] < 0, 0.0, of_group(p, row)),
        lambda p, row: -((row["y"] - p[row["group"] % 4]) ** 2),
        lambda p, row: -(p[jnp.where(row["group"] < 0, row["group"] + 4, row["group"])] ** 2),
        lambda p, row: -(jnp.dot(jax.nn.one_hot(row["group"], 4), p) ** 2),
        lambda p, row: -(p[-1] ** 2) - row["group"] ** 2,
        lambda p, row: -(p[jnp.maximum(row["group"], 0)] ** 2),
    ],
    ids=["masked", "modulo", "from the end", "one hot", "the last", "at least 0"],
)
def test_a_label_below_0_that_is_meant_is_taken(log_likelihood):
    grouped(log_likelihood).check(np.zeros(4, np.float32), MISSING)


def test_check_values_is_asked_instead_of_the_look():
    asked = []
    model = grouped(of_group, check_values=lambda position, data: asked.append(len(data["y"])))
    model.check(np.zeros(4, np.float32), GROUPS)
    assert asked == [5]
