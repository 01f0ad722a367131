"""The tracked covariance: exact at a reset, in between along a NumPy run of EWSG-VR's Alg. 2."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.rows import Batch
from tests.gradients.six_rows import (
    MODELS,
    NAMES,
    N,
    as_jax,
    close,
    flat,
    like_position,
    no_weight,
    shifted,
)
from tests.oracles import enumeration

BATCHES = [(2, True), (2, False)]
STRUCTURES = {
    "dense": {"structure": "dense"},
    "diagonal": {"structure": "diagonal"},
    "low_rank": {"structure": "low_rank", "rank": 2},
    "full_rank": {"structure": "low_rank", "rank": 50},
}


def matrix_of(covariance):
    """A covariance as a matrix (d, d), in NumPy; leading axes are kept."""
    matrix = np.asarray(covariance.matrix)
    if covariance.basis is not None:
        basis = np.asarray(covariance.basis)
        if matrix.ndim < basis.ndim:  # eigenvalues
            return (basis * matrix[..., None, :]) @ np.swapaxes(basis, -1, -2)
        return basis @ matrix @ np.swapaxes(basis, -1, -2)
    return matrix


def restricted(matrix, structure, basis=None):
    """What is left of a matrix in a structure."""
    if structure == "diagonal":
        return np.diagonal(matrix, axis1=-2, axis2=-1)
    if basis is None:
        return matrix
    projection = basis @ np.swapaxes(basis, -1, -2)
    return projection @ matrix @ projection


# At a reset.


@functools.cache
def at_a_reset(estimator_name, name, structure):
    """(values of all batches, their reported covariance) right after a reset, for BATCHES."""
    model = MODELS[name]

    @jax.jit
    def every(position, elsewhere, data):
        found = []
        for batch_size, replace in BATCHES:
            # Six rows in chunks of four.
            estimator = getattr(ewsg.gradients, estimator_name)(
                model.posterior,
                batch_size=batch_size,
                replace=replace,
                chunk_size=4,
                **STRUCTURES[structure],
            )
            memory = estimator.init(jax.random.key(0), elsewhere, data)
            memory, _, evaluations = estimator.refresh((), memory, jnp.int32(0), position, data)

            def one(rows, estimator=estimator, memory=memory):
                estimate, _ = estimator.propose(rows, memory, position, data, no_weight)
                probe = estimator.gradient_at(estimate, elsewhere, data)
                return (
                    flat(estimate.gradient),
                    estimate.covariance,
                    estimate.batch.indices,
                    flat(probe),
                )

            rows = Batch(jnp.asarray(enumeration.batches(N, batch_size, replace)[0], jnp.int32))
            found.append((*jax.vmap(one)(rows), evaluations))
        return found

    elsewhere = shifted(model.position, 0.5, -0.2)
    return jax.device_get(every(as_jax(model.position), as_jax(elsewhere), as_jax(model.data)))


@pytest.mark.usual_parameters(
    "*-logistic_regression-dense", "*-custom-diagonal", "*-custom-low_rank"
)
@pytest.mark.parametrize(
    ("estimator", "name", "structure"),
    [
        *(("covariance_tracking", name, "dense") for name in NAMES),
        *(
            ("covariance_tracking", "custom", structure)
            for structure in STRUCTURES
            if structure != "dense"
        ),
        ("covariance_tracking", "softmax_regression", "low_rank"),
        *(("kept_covariance", "custom", structure) for structure in STRUCTURES),
        ("kept_covariance", "softmax_regression", "low_rank"),
    ],
)
def test_the_covariance_is_exact_at_a_reset(x64, estimator, name, structure):
    """That of the closed form and of all batches' estimates, or what the structure keeps."""
    model = MODELS[name]
    per_datum, prior = model.per_datum(model.position), model.prior(model.position)
    elsewhere = shifted(model.position, 0.5, -0.2)
    for (batch_size, replace), found in zip(
        BATCHES, at_a_reset(estimator, name, structure), strict=True
    ):
        values, covariance, batch, probes, evaluations = found
        listed, probabilities = enumeration.batches(N, batch_size, replace)
        np.testing.assert_array_equal(batch, listed)
        close(values, enumeration.stochastic_gradients(per_datum, prior, listed))
        close(
            probes,
            enumeration.stochastic_gradients(
                model.per_datum(elsewhere), model.prior(elsewhere), listed
            ),
        )
        mean, enumerated = enumeration.mean_and_covariance(values, probabilities)
        close(mean, enumeration.full_gradient(per_datum, prior))

        exact = enumeration.batch_covariance(per_datum, batch_size, replace)
        close(enumerated, exact)
        basis = covariance.basis
        d = len(mean)
        if basis is not None:
            rank = min(STRUCTURES[structure].get("rank", d), d)
            assert basis.shape == (len(listed), d, rank)
            close(
                np.swapaxes(basis, 1, 2) @ basis,
                np.broadcast_to(np.eye(rank), (len(listed), rank, rank)),
            )
        expected = np.broadcast_to(exact, (len(listed), d, d))
        close(matrix_of(covariance), restricted(expected, structure, basis), 1e-12)
        if structure == "full_rank":
            close(matrix_of(covariance), expected, 1e-12)
        assert evaluations == (2 * N if "rank" in structure else N)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "rank"),
    [("covariance_tracking", 1), ("covariance_tracking", 2), ("kept_covariance", 2)],
)
def test_the_basis_turns_to_the_leading_eigenvectors(x64, kind, rank):
    """Each reset at a point is orthogonal iteration: the error falls as (λ_{r+1}/λ_r)^resets."""
    model = MODELS["custom"]
    values, vectors = np.linalg.eigh(
        enumeration.batch_covariance(model.per_datum(model.position), batch_size=1, replace=True)
    )
    ratio = values[-rank - 1] / values[-rank]
    resets = int(np.ceil(np.log(1e-13) / np.log(ratio)))
    assert 5 < resets < 500
    estimator = getattr(ewsg.gradients, kind)(
        model.posterior, batch_size=1, structure="low_rank", rank=rank, chunk_size=4
    )

    def basis_of(memory):
        return (memory if kind == "covariance_tracking" else memory.covariance).basis

    @jax.jit
    def bases(position, data):
        def reset(memory, _):
            memory, _, _ = estimator.refresh((), memory, jnp.int32(0), position, data)
            return memory, basis_of(memory)

        memory = estimator.init(jax.random.key(1), position, data)
        last, later = jax.lax.scan(reset, memory, length=resets)
        return (
            basis_of(memory),
            later,
            estimator.propose(Batch(jnp.array([0])), last, position, data, no_weight)[0].covariance,
        )

    first, later, covariance = jax.device_get(bases(as_jax(model.position), as_jax(model.data)))
    projections = later @ np.swapaxes(later, 1, 2)
    leading = vectors[:, -rank:]
    close(projections[-1], leading @ leading.T, 1e-11)
    close(matrix_of(covariance), (leading * values[-rank:]) @ leading.T, 1e-10)
    # Along the way it is NumPy's iteration from the same start.
    basis = first
    for found in projections[:5]:
        basis = np.linalg.qr((vectors * values) @ vectors.T @ basis)[0]
        close(found, basis @ basis.T, 1e-10)
    errors = np.linalg.norm(projections - leading @ leading.T, axis=(1, 2))
    middle = np.flatnonzero((errors < 1e-2) & (errors > 1e-8))
    np.testing.assert_allclose(errors[middle[1:]] / errors[middle[:-1]], ratio, rtol=0.1)


# Between resets.

EVERY, STEPS = 6, 14
RUNS = [("custom", structure, 2, replace) for structure in STRUCTURES for replace in (True, False)]
RUNS.append(("linear_regression", "dense", 3, True))


class Steps(NamedTuple):
    """Of each step: the estimate, the memory it was made with and the one after it, the cost."""

    estimate: Any
    seen: Any
    after: Any
    evaluations: Any


def along(estimator, points, rows, data):
    """Steps of an estimator from the first of the points on, at each with a batch of its own."""

    @jax.jit
    def run(points, batches, data):
        def step(memory, given):
            number, point, batch = given
            seen, same, evaluations = estimator.refresh(batch, memory, number, point, data)
            estimate, update = estimator.propose(batch, seen, same, data, no_weight)
            after = estimator.commit(update, seen)
            return after, Steps(estimate, seen, after, evaluations)

        start = estimator.init(jax.random.key(2), jax.tree.map(lambda x: x[0], points), data)
        numbers = jnp.arange(len(rows), dtype=jnp.int32)
        return jax.lax.scan(step, start, (numbers, points, batches))[1]

    return jax.device_get(run(points, Batch(jnp.asarray(rows, jnp.int32)), data))


def positions(points, model):
    """Points as positions of a model, on a leading axis."""
    return jax.vmap(lambda point: like_position(point, model))(jnp.asarray(points))


@functools.cache
def tracked(name, structure, batch_size, replace):
    """A run along given points with given batches: (points, rows, steps)."""
    model = MODELS[name]
    rng = np.random.default_rng(11)
    center = np.asarray(flat(as_jax(model.position)))
    # Away from where the moments are reset, so that they become indefinite.
    away = np.arange(STEPS)[:, None] % EVERY > 0
    points = center + 0.2 * rng.normal(size=(STEPS, len(center))) + 0.4 * away
    listed = enumeration.batches(N, batch_size, replace)[0]
    rows = listed[rng.integers(len(listed), size=STEPS)]
    estimator = ewsg.gradients.covariance_tracking(
        model.posterior,
        batch_size=batch_size,
        replace=replace,
        refresh_every=EVERY,
        **STRUCTURES[structure],
    )
    return points, rows, along(estimator, positions(points, model), rows, as_jax(model.data))


def as_numpy(vector, model):
    return jax.tree.map(np.asarray, like_position(vector, model))


@pytest.mark.usual_parameters("custom-dense-2-False", "linear*")
@pytest.mark.parametrize(("name", "structure", "batch_size", "replace"), RUNS)
def test_moments_and_covariance_follow_algorithm_two(x64, name, structure, batch_size, replace):
    """Step by step: m₁ and m₂ by lines 16 and 17, the covariance by 18 but its negative part, ω and
    the count.

    The library's moments are those of ∇Vᵢ − c, with c the mean at the last reset; the paper's,
    about 0, have the covariance.
    """
    model = MODELS[name]
    points, rows, steps = tracked(name, structure, batch_size, replace)
    covariance, counts = steps.estimate.covariance, steps.after.num_clipped
    anchors = jax.vmap(flat)(steps.seen.anchor)
    moments = steps.seen.center, *steps.seen.moments
    is_clipped, found = [], matrix_of(covariance)
    anchor, there = points[0], model.per_datum(as_numpy(points[0], model))
    first, second = enumeration.moments(there)
    for step in range(STEPS):
        here = model.per_datum(as_numpy(points[step], model))
        if step % EVERY == 0:
            anchor, there, center = points[step], here, here.mean(axis=0)
            first, second = enumeration.moments(here)
            centred = enumeration.moments(here - center)
        np.testing.assert_allclose(anchors[step], anchor, rtol=1e-15)
        basis = covariance.basis[step] if "rank" in structure else None
        close(moments[0][step], center, 1e-12)
        close(moments[1][step], centred[0], 1e-12)
        kept = restricted(centred[1], structure) if basis is None else basis.T @ centred[1] @ basis
        close(moments[2][step], kept, 1e-12)

        exact = enumeration.covariance_of_moments(first, second, N, batch_size, replace)
        if structure == "diagonal":
            least = np.diag(exact).min()
            expected = np.maximum(np.diag(exact), 0)
        else:
            seen = exact if basis is None else basis.T @ exact @ basis
            least = np.linalg.eigvalsh(seen)[0]
            expected = enumeration.without_negative_part(seen)
            expected = expected if basis is None else basis @ expected @ basis.T
        assert abs(least) > 1e-6 * np.abs(exact).max(), "neither clipped nor not"
        is_clipped.append(least < 0)
        close(found[step], expected, 1e-11)
        first, second = enumeration.moved_moments(first, second, here, there, rows[step])
        centred = enumeration.moved_moments(*centred, here - center, there - center, rows[step])
    np.testing.assert_array_equal(counts, np.cumsum(is_clipped))
    assert not any(is_clipped[::EVERY])
    assert name != "custom" or 3 < counts[-1] < STEPS - 3


def test_rounding_is_no_negative_part():
    """A singular covariance in float32: d = 12 and six rows. It is no step to count."""
    model = MODELS["softmax_regression"]
    position, data = jnp.asarray(model.position, jnp.float32), as_jax(model.data)
    data = data | {"x": jnp.asarray(data["x"], jnp.float32)}
    estimator = ewsg.gradients.covariance_tracking(model.posterior, batch_size=1, refresh_every=1)
    points = position * (1 + jnp.arange(20)[:, None, None] / 10)
    steps = along(estimator, points, np.zeros((20, 1)), data)
    covariance = steps.estimate.covariance
    assert steps.after.num_clipped[-1] == 0
    values = np.linalg.eigvalsh(
        matrix_of(jax.tree.map(lambda x: np.asarray(x, np.float64), covariance))
    )
    assert np.all(values[:, 0] > -1e-5 * values[:, -1])
    assert np.all(values[:, :7] < 1e-5 * values[:, -1:])


@pytest.mark.full
@pytest.mark.parametrize("structure", STRUCTURES)
def test_differences_of_large_moments_are_no_negative_part(structure):
    """A coordinate equal in all rows, in float32: m₂ − m₁m₁ᵀ is rounding of m₂'s size."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[:, 1] = 0.3
    estimator = ewsg.gradients.covariance_tracking(
        ewsg.models.gaussian_location(), batch_size=1, refresh_every=1, **STRUCTURES[structure]
    )
    points = jnp.linspace(0.0, 5.0, 50)[:, None] * jnp.ones(3)
    steps = along(estimator, points, np.zeros((50, 1)), jnp.asarray(rows, jnp.float32))
    assert steps.after.num_clipped[-1] == 0


@pytest.mark.full
@pytest.mark.parametrize("structure", STRUCTURES)
def test_far_from_the_mode_the_covariance_does_not_cancel(structure):
    """Gradients of 10³ that differ by 1, rows sorted so that the chunks have means of their own.

    At 10⁸ neighbouring float32 are 8 apart: the gradients say nothing of the rows, and the step is
    counted.
    """
    data = jnp.asarray(np.sort(np.random.default_rng(0).normal(size=(20_000, 2)), 0), jnp.float32)
    estimator = ewsg.gradients.covariance_tracking(
        ewsg.models.gaussian_location(), batch_size=1, refresh_every=1, **STRUCTURES[structure]
    )
    steps = along(estimator, jnp.array([[1e3, 1e3], [1e8, 1e8]]), np.zeros((2, 1)), data)
    rows, counts, covariance = (
        np.asarray(data, float),
        steps.after.num_clipped,
        steps.estimate.covariance,
    )
    n = len(rows)
    exact = n**2 * np.cov(rows.T, bias=True)
    basis = covariance.basis[0] if "rank" in structure else None
    first = matrix_of(jax.tree.map(lambda x: x[0], covariance))
    np.testing.assert_allclose(
        first, restricted(exact, structure, basis), rtol=0, atol=1e-4 * np.abs(exact).max()
    )
    assert counts.tolist() == [0, 1]


def test_float32_counts_the_steps_that_float64_does(x64):
    """Along the same points and batches, some clipped: no bound on rounding may hide those."""
    points, rows, steps = tracked("custom", "dense", 2, True)
    model = MODELS["custom"]
    estimator = ewsg.gradients.covariance_tracking(
        model.posterior, batch_size=2, refresh_every=EVERY
    )
    single = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)
    found = along(estimator, single(positions(points, model)), rows, single(model.data))
    np.testing.assert_array_equal(found.after.num_clipped, steps.after.num_clipped)


@pytest.mark.parametrize("batch_size", [2, 3, 6])
def test_batches_of_an_epoch_are_subsets(x64, batch_size):
    """b divides n: over all permutations a batch is a uniform subset; none varies for b = n."""
    model = MODELS["custom"]
    estimator = ewsg.gradients.covariance_tracking(
        model.posterior, batch_size=batch_size, rows="epochs"
    )

    @jax.jit
    def covariance(position, data):
        memory = estimator.init(jax.random.key(0), position, data)
        memory, _, _ = estimator.refresh((), memory, jnp.int32(0), position, data)
        batch = Batch(jnp.arange(batch_size))
        return estimator.propose(batch, memory, position, data, no_weight)[0].covariance

    exact = enumeration.batch_covariance(model.per_datum(model.position), batch_size, replace=False)
    close(matrix_of(covariance(as_jax(model.position), as_jax(model.data))), exact, 1e-12)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["covariance_tracking", "kept_covariance"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_position_may_be_more_exact_than_its_likelihood(x64, kind, structure):
    """A float64 leaf beside others and a float32 likelihood: the closed form's covariance."""
    rows = np.random.default_rng(3).normal(size=(8, 2))

    def log_likelihood(position, row):
        there = position["wide"].astype(jnp.float32) + position["narrow"]
        return -0.5 * jnp.sum((row - there) ** 2)

    position = {"narrow": jnp.zeros(2, jnp.float32), "wide": jnp.zeros(2, jnp.float64)}
    posterior = ewsg.Posterior(log_likelihood, lambda position: 0.0)
    estimator = getattr(ewsg.gradients, kind)(posterior, batch_size=2, **STRUCTURES[structure])
    data = jnp.asarray(rows, jnp.float32)

    @jax.jit
    def reported(position, data):
        memory = estimator.init(jax.random.key(0), position, data)
        # Of a low rank the basis turns towards the leading directions.
        reset = lambda _, memory: estimator.refresh((), memory, jnp.int32(0), position, data)[0]
        memory = jax.lax.fori_loop(0, 20, reset, memory)
        return estimator.propose(Batch(jnp.array([0, 1])), memory, position, data, no_weight)[
            0
        ].covariance

    found = matrix_of(jax.device_get(reported(position, data)))
    exact = np.tile(8 * 8 / 2 * np.cov(rows.T, bias=True), (2, 2))
    exact = np.diag(exact) if structure == "diagonal" else exact
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
