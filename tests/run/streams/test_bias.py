"""What windows add to a run's variance: the exact law, the library's steps and runs."""

import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.rows._window import Window
from tests.oracles import windows as oracle

PAGE = Path(__file__).parents[3] / "docs/streams.md"
MODEL = ewsg.models.gaussian_location()


@pytest.mark.full
def test_the_law_of_an_epoch_is_that_of_steps_over_all_orders(x64):
    """Whole windows for batches, no noise: the transition, three windows of two steps each."""
    rows = np.random.default_rng(0).normal(size=(12, 1))
    rows -= rows.mean()
    stream, h, held = ewsg.stream(rows, window=4), 0.02, 2
    estimator = ewsg.gradients.uniform(MODEL, batch_size=4, replace=False)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(h), estimator)
    cut = [Window(rows=jnp.asarray(rows[first : first + 4]), source=stream) for first in (0, 4, 8)]
    drawn = ewsg.Randomness(ewsg.rows.Batch(jnp.arange(4, dtype=jnp.int32)), jnp.zeros(1))
    step, ends = jax.jit(lambda state, data: kernel.transition(drawn, state, data)[0]), []
    for places in itertools.permutations(range(3)):
        state, path = kernel.init(jax.random.key(0), jnp.zeros(1), cut[0]), []
        for place in np.repeat(places, held):
            state = step(state, cut[place])
            path.append(float(state.position[0]))
        ends.append(path)
    between = np.var([one.rows.mean() for one in cut])
    weights = oracle.response(1 - 12 * h, 3, held)
    np.testing.assert_allclose(
        np.mean(np.square(ends), axis=0), oracle.of_order(weights) * between, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("heat", "count", "passes"), [*itertools.product((0.02, 0.3), (2, 7), (0.5, 3, 40))]
)
def test_the_rule(heat, count, passes):
    """At most that of fresh windows, and W − 1; where small (2/3)(passes · heat)²."""
    share = oracle.share_added(heat, count, passes)
    assert 0 < share < min(passes * heat * (1 - 1 / count), count - 1)
    if passes * heat < 0.02:
        np.testing.assert_allclose(share, 2 / 3 * (passes * heat) ** 2 * (1 - 1 / count), rtol=0.05)


COORDINATES, STEPS, HELD = 400, 8_000, 40


def measured():
    """Return a run's variance over the posterior's, the law's, and that without windows."""
    rows = np.random.default_rng(3).normal(size=(400, COORDINATES)).astype(np.float32)
    stream = ewsg.stream(rows, window=100, passes=4.0)
    kernel = ewsg.sgld(MODEL, 0.05 / 400, batch_size=10)
    samples = ewsg.sample(
        jax.random.key(0),
        kernel,
        jnp.asarray(rows.mean(0)),
        stream,
        STEPS,
        keep=None,
        moments=ewsg.moments(),
    )
    assert samples.moments is not None
    # About the mean that it should have: a run's own hides what is slow.
    spread = (
        np.asarray(samples.moments.variance[0])
        + (np.asarray(samples.moments.mean[0]) - rows.mean(0)) ** 2
    )
    parts = rows.reshape(4, 100, COORDINATES)
    within, between = parts.var(axis=1).mean(), parts.mean(axis=1).var(axis=0).mean()
    law = oracle.variance(0.95, 400, 10, 4, HELD, within, between)
    alone = oracle.variance(0.95, 400, 10, 1, HELD, rows.var(axis=0).mean(), 0.0)
    return 400 * spread.mean(), 400 * law, 400 * alone


@pytest.mark.full
def test_a_run_has_the_law_that_its_windows_give_it():
    run, law, alone = measured()
    assert law > 1.5 * alone
    np.testing.assert_allclose(run, law, rtol=0.02)


def table():
    """Return the rows of the page's table."""
    rows = []
    for heat, passes in itertools.product((0.05, 0.5), (1, 4, 16, 64)):
        cells = " | ".join(
            f"{oracle.share_added(heat, count, passes):.2g}" for count in (2, 10, 100)
        )
        rows.append(f"| {heat} | {passes} | {cells} |")
    return rows


def test_the_page_has_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| 0\.0?5 \|.*\|$", text, re.MULTILINE) == table()
