"""SVRG's anchors, along a NumPy run of the whole method without noise."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._svrg import SVRGDraw
from ewsg_jax.rows import Batch
from tests.gradients.six_rows import MODELS, N, W, as_jax, close
from tests.oracles import enumeration

STEP_SIZE, FRICTION = 0.1, 1.5
DYNAMICS = {
    "langevin": lambda: ewsg.dynamics.langevin(STEP_SIZE),
    "semi_implicit": lambda: ewsg.dynamics.semi_implicit(STEP_SIZE, friction=FRICTION),
    "splitting": lambda: ewsg.dynamics.splitting(STEP_SIZE, friction=FRICTION),
}


def point_of(dynamics, position, momentum):
    return position + STEP_SIZE / 2 * momentum if dynamics == "splitting" else position


def moved(dynamics, position, momentum, gradient):
    """One step without noise: methods.md, section 1."""
    h, gamma = STEP_SIZE, FRICTION
    if dynamics == "langevin":
        return position - h * gradient, momentum
    if dynamics == "semi_implicit":
        momentum = (1 - gamma * h) * momentum - h * gradient
        return position + h * momentum, momentum
    after = np.exp(-gamma * h / 2) * (np.exp(-gamma * h / 2) * momentum - h * gradient)
    return position + h / 2 * (momentum + after), after


def run_of_svrg(dynamics, every, batches, takes=None):
    """(points, anchors, ends): where each step begins, its anchor, and (position, momentum) after
    it.

    `takes` (option I) says for each step whether its point becomes the next anchor's candidate.
    """
    model = MODELS["linear_regression"]
    position, momentum, anchor, candidate = W, np.zeros_like(W), W, W
    points, anchors, ends = [], [], []
    for step, batch in enumerate(batches):
        point = point_of(dynamics, position, momentum)
        points.append(point)
        if takes is not None and (takes[step] or step == 0):
            candidate = point
        if step % every == 0:
            anchor = point if takes is None else candidate
            # The chain restarts at the anchor: its evaluation point, with the momentum that it has.
            position, point = position + anchor - point, anchor
        here, there = model.per_datum(point), model.per_datum(anchor)
        gradient = enumeration.reduced_gradients(here, there, model.prior(point), batch[None])[0]
        position, momentum = moved(dynamics, position, momentum, gradient)
        anchors.append(anchor)
        ends.append(np.concatenate([position, momentum]))
    return np.array(points), np.array(anchors), np.array(ends)


def steps_of(kernel, batches, words=()):
    """Anchors, gradients and (position, momentum) by step, for chosen batches, no noise."""
    model = MODELS["linear_regression"]

    def step(state, randomness):
        batch, word = randomness
        noise = jnp.zeros(3)
        state, _ = kernel.transition(
            ewsg.Randomness(SVRGDraw(batch, word), noise), state, as_jax(model.data)
        )
        momentum = getattr(state.dynamics, "momentum", noise)
        return state, (
            state.memory.anchor,
            state.memory.gradient,
            jnp.concatenate([state.position, momentum]),
        )

    start = kernel.init(jax.random.key(0), jnp.asarray(W), as_jax(model.data))
    return jax.lax.scan(step, start, (Batch(jnp.asarray(batches, jnp.int32)), words))[1]


PERIODS = {"K": (3, 3), "1": (1, 1), "K(n)": (lambda n: n - 1, 5), "n/b": (None, 2)}


@pytest.mark.usual_parameters("langevin-K", "langevin-n/b")
@pytest.mark.parametrize(
    ("dynamics", "period"),
    [
        *(("langevin", period) for period in PERIODS),
        ("semi_implicit", "K"),
        ("splitting", "K"),
        ("splitting", "n/b"),
    ],
)
def test_option_two_anchors_where_the_gradient_is_wanted(x64, dynamics, period):
    """At steps 0, K, 2K and no other; K = ⌈6/4⌉ = 2 where none is given."""
    model, (refresh_every, every) = MODELS["linear_regression"], PERIODS[period]
    batches = np.random.default_rng(0).integers(N, size=(11, 4))
    estimator = ewsg.gradients.svrg(model.posterior, batch_size=4, refresh_every=refresh_every)
    kernel = ewsg.kernel(DYNAMICS[dynamics](), estimator)
    anchors, totals, ends = jax.jit(lambda: steps_of(kernel, batches))()
    points, expected, positions = run_of_svrg(dynamics, every, batches)
    np.testing.assert_array_equal(expected, points[np.arange(11) // every * every])
    close(np.asarray(anchors), expected, 1e-12)
    close(np.asarray(totals), np.stack([model.per_datum(w).sum(axis=0) for w in expected]), 1e-12)
    close(np.asarray(ends), positions, 1e-12)


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_option_one_restarts_at_each_point_with_equal_probability(x64, dynamics):
    """All words that matter: the i-th point since the last anchor is taken with probability 1/i.

    Over two periods of K = 3 the pair of anchors has 9 values, each of probability 1/9, and the
    chain is in each case NumPy's that goes on from there with the momentum it had.
    """
    model, every, num_steps = MODELS["linear_regression"], 3, 8
    batches = np.random.default_rng(1).integers(N, size=(num_steps, 1))
    places = [(step - 1) % every + 1 for step in range(1, 2 * every + 1)]
    patterns = np.array(list(itertools.product([True, False], repeat=len(places))))
    probabilities = np.prod(
        np.where(patterns, 1 / np.array(places), 1 - 1 / np.array(places)), axis=1
    )
    patterns, probabilities = patterns[probabilities > 0], probabilities[probabilities > 0]
    takes = np.pad(patterns, ((0, 0), (1, num_steps - 1 - len(places))))

    # The largest word that takes a point, and the least that does not: of 2³² words the first
    # ⌈2³²/i⌉ do.
    edges = [-(-(2**32) // i) for i in places]
    words = np.pad(
        np.where(patterns, np.array(edges) - 1, np.minimum(edges, 2**32 - 1)), ((0, 0), (1, 1))
    )
    assert all(abs(edge / 2**32 - 1 / i) <= 2.0**-32 for edge, i in zip(edges, places, strict=True))

    estimator = ewsg.gradients.svrg(model.posterior, batch_size=1, refresh_every=every, option="I")
    kernel = ewsg.kernel(DYNAMICS[dynamics](), estimator)
    run = jax.jit(jax.vmap(lambda words: steps_of(kernel, batches, words)))
    anchors, totals, ends = run(jnp.asarray(words[:, :, None], jnp.uint32))

    law = {}
    for number, (taken, probability) in enumerate(zip(takes, probabilities, strict=True)):
        points, expected, positions = run_of_svrg(dynamics, every, batches, taken)
        close(np.asarray(anchors[number]), expected, 1e-12)
        close(
            np.asarray(totals[number]),
            np.stack([model.per_datum(w).sum(axis=0) for w in expected]),
            1e-12,
        )
        close(np.asarray(ends[number]), positions, 1e-12)
        chosen = [
            period + np.flatnonzero((points[period : period + every] == w).all(axis=1))
            for period, w in ((1, expected[every]), (1 + every, expected[2 * every]))
        ]
        pair = tuple(int(x.item()) for x in chosen)
        law[pair] = law.get(pair, 0) + probability
    assert set(law) == set(itertools.product((1, 2, 3), (4, 5, 6)))
    np.testing.assert_allclose(list(law.values()), 1 / 9, rtol=1e-14)


def test_option_one_warns_where_a_momentum_is_kept():
    """Not Langevin dynamics, which has none, nor option II, nor anchors that do not move."""
    posterior = ewsg.models.gaussian_location()
    svrg = {
        option: ewsg.gradients.svrg(posterior, batch_size=2, option=option)
        for option in ("I", "II")
    }
    underdamped = ewsg.dynamics.splitting(0.1, friction=1.0, inverse_mass=2.0)
    weighted = ewsg.gradients.exponentially_weighted(svrg["I"])
    for estimator in (svrg["I"], weighted):
        with pytest.warns(
            UserWarning, match=r"variances are about \(K \+ 1\)/\(2K\) of the right ones"
        ):
            ewsg.kernel(underdamped, estimator)
    for build in (ewsg.svrg_hmc, ewsg.svrg2nd_hmc):
        with pytest.warns(UserWarning, match="of the right ones") as caught:
            build(posterior, 0.1, friction=1.0, batch_size=2, option="I")
        assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ewsg.kernel(ewsg.dynamics.langevin(0.1, inverse_mass=2.0), svrg["I"])
        ewsg.kernel(underdamped, svrg["II"])


def test_option_one_draws_one_word_beside_the_batch():
    """It is uniform on 32 bits, and says nothing of the batch's rows."""
    model, count = MODELS["linear_regression"], 4096
    data = as_jax(model.data)
    one, two = (
        ewsg.gradients.svrg(model.posterior, batch_size=2, option=option) for option in ("I", "II")
    )
    assert two.draw(jax.random.key(0), data).word == ()
    draws = jax.jit(lambda key: jax.vmap(lambda k: one.draw(k, data))(jax.random.split(key, count)))
    batch, word = jax.device_get(draws(jax.random.key(0)))
    assert (word.shape, word.dtype) == ((count, 1), np.uint32)
    assert len(np.unique(word)) == count
    # 6 standard deviations of the mean of so many throws.
    bits = (word >> np.arange(32, dtype=np.uint32)) & 1
    assert np.abs(bits.mean(axis=0) - 1 / 2).max() < 6 * (1 / 2) / np.sqrt(count)
    same = np.uint64(N) * word >> np.uint64(32) == batch.indices
    assert np.abs(same.mean(axis=0) - 1 / N).max() < 6 * np.sqrt(1 / N * (1 - 1 / N)) / np.sqrt(
        count
    )
