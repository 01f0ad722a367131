"""`uniform`, SVRG, SAGA and control variates on every batch of six rows, formulas in NumPy."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._control_variate import ControlVariateMemory
from ewsg_jax.gradients._saga import SAGAMemory
from ewsg_jax.gradients._svrg import SVRGDraw, SVRGMemory
from ewsg_jax.rows import Batch, Block
from tests.gradients.six_rows import (
    MODELS,
    NAMES,
    N,
    X,
    as_jax,
    close,
    flat,
    like_position,
    no_weight,
    shifted,
)
from tests.oracles import enumeration

KINDS = ("svrg", "saga", "control_variate")
ESTIMATORS = {kind: getattr(ewsg.gradients, kind) for kind in ("uniform", *KINDS)}
IN_EVERY_RUN = pytest.mark.usual_parameters("custom-*", "softmax_regression-saga")
"""A position for each row of a table, and a number for each of its linear predictors."""

# b, and how rows are drawn; subsets of one row are listed as rows drawn with replacement are.
LAWS = [
    (1, {"replace": False}),
    (2, {"replace": True}),
    (2, {"replace": False}),
    (2, {"rows": "blocks"}),
]


def batches_of(law):
    """All equally probable batches of a law as row numbers, (N, b)."""
    batch_size, options = law
    if "rows" in options:
        return enumeration.blocks(N, batch_size)
    return enumeration.batches(N, batch_size, options["replace"])[0]


def randomness_of(law):
    """The same as what an estimator draws: blocks are told by where they start."""
    listed = jnp.asarray(batches_of(law), jnp.int32)
    return Block(start=listed[:, 0], size=law[0]) if "rows" in law[1] else Batch(listed)


def covariance_over(law, per_datum):
    batch_size, options = law
    if "rows" in options:
        return enumeration.block_covariance(per_datum, batch_size)
    return enumeration.batch_covariance(per_datum, batch_size, options["replace"])


def drawn(kind, randomness):
    return SVRGDraw(randomness, ()) if kind == "svrg" else randomness


def some_memory(kind, model):
    """A memory that is not one of the point, and the references α that it stands for, (n, d)."""
    if kind == "uniform":
        return (), np.zeros_like(model.per_datum(model.position))
    if kind == "saga":
        rng = np.random.default_rng(7)
        if model.posterior.predictor is None:
            references = rng.normal(size=(N, flat(model.position).size))
            table = jax.vmap(lambda row: like_position(row, model))(jnp.asarray(references))
        else:
            table = rng.normal(size=(N, *np.shape(model.position)[1:]))
            references = np.stack(
                [np.multiply.outer(x, t).ravel() for x, t in zip(X, table, strict=True)]
            )
        total = like_position(references.sum(axis=0), model)
        return SAGAMemory(as_jax(table), total, jax.tree.map(jnp.zeros_like, total)), references
    reference = shifted(model.position, -0.7, 0.3)
    references = model.per_datum(reference)
    total = like_position(references.sum(axis=0), model)
    if kind == "svrg":
        return SVRGMemory(as_jax(reference), total, ()), references
    return ControlVariateMemory(as_jax(reference), total), references


class Outcomes(NamedTuple):
    """Of each batch: the estimate, the probe elsewhere, both (N, d), and the memory after it."""

    gradients: object
    probes: object
    memories: object


@functools.cache
def estimators_on_all_batches(name, kind):
    """`every(memory, position, elsewhere, data) -> Outcomes` of each law, from the one memory."""
    model = MODELS[name]

    def every(memory, position, elsewhere, data):
        found = []
        for law in LAWS:
            estimator = ESTIMATORS[kind](model.posterior, batch_size=law[0], **law[1])

            def one(randomness, estimator=estimator, batch_size=law[0]):
                estimate, update = estimator.propose(randomness, memory, position, data, no_weight)
                probe = estimator.gradient_at(estimate, elsewhere, data)
                return Outcomes(
                    flat(estimate.gradient), flat(probe), estimator.commit(update, memory)
                )

            found.append(jax.vmap(one)(drawn(kind, randomness_of(law))))
        return found

    return jax.jit(every)


def outcomes(name, kind, memory):
    model = MODELS[name]
    every = estimators_on_all_batches(name, kind)
    elsewhere = shifted(model.position, 0.5, -0.2)
    return jax.device_get(
        every(memory, as_jax(model.position), as_jax(elsewhere), as_jax(model.data))
    )


@IN_EVERY_RUN
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", NAMES)
def test_estimates_over_all_batches(x64, name, kind):
    """Whatever the memory is, the mean is ∇V and the covariance that of the differences; a probe is
    the estimate of the same batch and memory elsewhere.
    """
    model = MODELS[name]
    memory, references = some_memory(kind, model)
    elsewhere = shifted(model.position, 0.5, -0.2)
    per_datum, prior = model.per_datum(model.position), model.prior(model.position)
    there = model.per_datum(elsewhere), references, model.prior(elsewhere)
    for law, found in zip(LAWS, outcomes(name, kind, memory), strict=True):
        listed = batches_of(law)
        close(found.gradients, enumeration.reduced_gradients(per_datum, references, prior, listed))
        close(found.probes, enumeration.reduced_gradients(*there, listed))
        probabilities = np.full(len(listed), 1 / len(listed))
        mean, covariance = enumeration.mean_and_covariance(found.gradients, probabilities)
        close(mean, enumeration.full_gradient(per_datum, prior))
        close(covariance, covariance_over(law, per_datum - references))
        assert np.abs(covariance).max() > 1e-3, f"{law} says nothing"


@IN_EVERY_RUN
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_batch_is_exact_where_the_memory_was_made(x64, name, kind):
    """SVRG at its anchor, control variates at their centre, SAGA at its start, own memories."""
    model = MODELS[name]
    # Six rows in chunks of four.
    estimator = ESTIMATORS[kind](model.posterior, batch_size=2, chunk_size=4)

    @jax.jit
    def made(position, data):
        memory = estimator.init(jax.random.key(0), position, data)
        return estimator.refresh(drawn(kind, ()), memory, jnp.int32(0), position, data)[0]

    memory = made(as_jax(model.position), as_jax(model.data))
    per_datum = model.per_datum(model.position)
    close(flat(memory.gradient), per_datum.sum(axis=0))
    if kind == "saga":
        assert sum(x.size for x in jax.tree.leaves(memory.table)) == N * numbers_per_row(model)
        close(table_rows(memory.table, model), per_datum)
    full = enumeration.full_gradient(per_datum, model.prior(model.position))
    for found in outcomes(name, kind, memory):
        close(found.gradients, np.tile(full, (len(found.gradients), 1)))


def numbers_per_row(model):
    """One for each linear predictor, or a whole position."""
    if model.posterior.predictor is None:
        return flat(model.position).size
    return int(np.prod(np.shape(model.position)[1:]))


def table_rows(table, model):
    """What SAGA's table stands for, (n, d), in NumPy."""
    if model.posterior.predictor is None:
        return np.asarray(jax.vmap(flat)(table))
    return np.stack(
        [np.multiply.outer(x, t).ravel() for x, t in zip(X, np.asarray(table), strict=True)]
    )


@pytest.mark.usual_parameters("custom", "softmax_regression")
@pytest.mark.parametrize("name", NAMES)
def test_commit_replaces_the_rows_of_the_batch(x64, name):
    """Every batch of every law, also with a row twice: α, its sum, and nothing else."""
    model = MODELS[name]
    memory, references = some_memory("saga", model)
    per_datum = model.per_datum(model.position)
    for law, found in zip(LAWS, outcomes(name, "saga", memory), strict=True):
        for number, rows in enumerate(batches_of(law)):
            after = jax.tree.map(lambda x, k=number: x[k], found.memories)
            expected = references.copy()
            expected[rows] = per_datum[rows]
            close(table_rows(after.table, model), expected)
            close(np.asarray(flat(after.gradient)), expected.sum(axis=0))
