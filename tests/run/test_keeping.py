"""What a run keeps: functions, running moments, weights under a schedule; how it goes on."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import compiled_loop, layout, loop, plan
from ewsg_jax.run.moments import Moments

KEY = jax.random.key(2)
DATA = {"x": jnp.arange(12.0).reshape(6, 2) / 10, "t": jnp.arange(6.0) / 5}
MODEL = ewsg.Posterior(
    lambda p, row: -0.5 * (row["t"] - row["x"] @ p["w"] - p["b"]) ** 2,
    lambda p: -0.5 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2),
)
START = {"w": jnp.zeros(2), "b": jnp.zeros(())}
KERNEL = ewsg.ewsg(MODEL, 0.1, friction=2.0, batch_size=2)
run = functools.partial(ewsg.sample, KEY, KERNEL, START, DATA, 60, num_chains=3, burn_in=10, thin=5)


def flat(draws):
    """Draws as (chain, draw, d) in float64, in the order of ravel_pytree: b, then w."""
    return np.concatenate([draws["b"][..., None], draws["w"]], -1).astype(np.float64)


@pytest.mark.full
def test_functions_of_the_position():
    whole = run()
    norms = run(keep=lambda p: jnp.sum(p["w"] ** 2))
    np.testing.assert_allclose(norms.draws, np.sum(whole.position["w"] ** 2, -1), rtol=1e-6)
    assert list(norms.named()) == ["draws"]
    with pytest.raises(AttributeError, match="these samples hold no positions"):
        _ = norms.position
    nothing = run(keep=None)
    assert nothing.draws is None
    assert nothing.num_draws == whole.num_draws == 10
    np.testing.assert_array_equal(nothing.state.position["w"], whole.state.position["w"])


@pytest.mark.full
@pytest.mark.parametrize("few", [False, True], ids=["room", "no room"])
def test_steps_that_a_function_chooses(monkeypatch, few):
    """They are those of the whole run, whatever calls it is cut into; and where it goes on."""
    if few:
        monkeypatch.setattr(plan.limits, "BYTES_AT_ONCE", 3 * 3 * 3 * 4)
        monkeypatch.setattr(layout, "MOST_STEPS_PER_BLOCK", 4)
        monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e-9)

    def ends(step):
        return step % 25 >= 10

    whole, some = run(), run(keep_when=ends, moments=ewsg.moments(weights="step_size"))
    chosen = whole.step % 25 >= 10
    assert some.step.tolist() == [15, 20, 35, 40, 45, 60]
    np.testing.assert_array_equal(some.step, whole.step[chosen])
    np.testing.assert_array_equal(flat(some.position), flat(whole.position)[:, chosen])
    for field in ("evaluations", "step_size"):
        np.testing.assert_array_equal(getattr(some, field), getattr(whole, field)[chosen])
    np.testing.assert_allclose(flat(some.moments.mean), flat(some.position).mean(1), rtol=1e-5)
    on = ewsg.sample(KEY, KERNEL, None, DATA, 20, state=some.state, keep_when=ends)
    assert on.step.tolist() == [*range(61, 75)]


@pytest.mark.full
@pytest.mark.parametrize(("most", "made"), [(256, [60]), (8, [8, 48, 4])])
def test_an_accelerators_program_draws_the_same(monkeypatch, most, made):
    """Loops of known length, but for the rest of a run, and no conditions: bit for bit, here on
    this processor.

    The last step is not kept, when every slot is full.
    """
    monkeypatch.setattr(layout, "MOST_STEPS_PER_BLOCK", most)
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e9)
    advance, calls = compiled_loop.advance, []

    def watched(*arguments, **options):
        calls.append((int(arguments[4].num_steps), options["kind"].counted))
        return advance(*arguments, **options)

    monkeypatch.setattr(compiled_loop, "advance", watched)
    monkeypatch.setattr(layout, "SMALL_STEP_NUMBERS", 0)
    here = run(thin=7, moments=ewsg.moments())
    assert not any(counted for _, counted in calls)
    calls.clear()
    monkeypatch.setattr(plan, "on_accelerator", lambda data: True)
    there = run(thin=7, moments=ewsg.moments())
    assert [call for call in calls if call[0]] == [
        (steps, steps % most == 0 or steps == 60) for steps in made
    ]
    assert {counted for steps, counted in calls if not steps} == {
        counted for steps, counted in calls if steps
    }
    np.testing.assert_array_equal(flat(there.position), flat(here.position))
    np.testing.assert_array_equal(there.moments.weight, 7)
    for of in ("mean", "variance"):
        mine, other = getattr(there.moments, of), getattr(here.moments, of)
        for name in START:
            np.testing.assert_allclose(mine[name], other[name], rtol=1e-5)


@pytest.mark.parametrize("accelerator", [False, True])
def test_moments_over_all_steps(monkeypatch, accelerator):
    """A thinned run has the moments of every step after its burn-in, and the draws that it keeps:
    against NumPy on the draws of a run that keeps every step, whatever calls it is cut into.
    """
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)
    monkeypatch.setattr(plan, "on_accelerator", lambda data: accelerator)
    every = flat(run(thin=1).position)
    thinned = run(thin=7, moments=ewsg.moments(steps="all", covariance="dense"))
    np.testing.assert_array_equal(flat(thinned.position), every[:, 6::7])
    np.testing.assert_array_equal(thinned.moments.weight, [50] * 3)
    mean = np.concatenate([thinned.moments.mean["b"][:, None], thinned.moments.mean["w"]], 1)
    np.testing.assert_allclose(mean, every.mean(1), rtol=1e-5, atol=1e-7)
    for covariance, draws in zip(thinned.moments.covariance, every, strict=True):
        expected = np.cov(draws, rowvar=False, ddof=0)
        np.testing.assert_allclose(covariance, expected, rtol=1e-4, atol=1e-8)
    without = run(keep=None, keep_when=lambda step: step == 60, moments=ewsg.moments(steps="all"))
    np.testing.assert_allclose(without.moments.mean["w"], every[..., 1:].mean(1), rtol=1e-5)
    np.testing.assert_allclose(without.moments.variance["b"], every[..., 0].var(1), rtol=1e-4)


@pytest.mark.usual_parameters("True")
@pytest.mark.parametrize("pieces", [False, True])
def test_moments_are_those_of_the_draws(monkeypatch, pieces):
    """Against NumPy on the draws themselves, in one call or merged over many."""
    if pieces:
        monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)
    options = {"randomness_memory": 1} if pieces else {}
    dense = run(moments=ewsg.moments(covariance="dense"), **options)
    draws = flat(dense.position)
    np.testing.assert_array_equal(dense.moments.weight, [10, 10, 10])
    mean = np.concatenate([dense.moments.mean["b"][:, None], dense.moments.mean["w"]], 1)
    np.testing.assert_allclose(mean, draws.mean(1), rtol=1e-5, atol=1e-7)
    for chain in range(3):
        expected = np.cov(draws[chain], rowvar=False, ddof=0)
        np.testing.assert_allclose(dense.moments.covariance[chain], expected, rtol=1e-4, atol=1e-8)
    diagonal = run(keep=None, moments=ewsg.moments(), **options).moments
    np.testing.assert_allclose(diagonal.variance["w"], draws[..., 1:].var(1), rtol=1e-4, atol=1e-8)
    assert diagonal.covariance is None
    mean_only = run(keep=None, moments=ewsg.moments(covariance="none"), **options).moments
    assert mean_only.variance is None
    np.testing.assert_allclose(mean_only.mean["b"], draws[..., 0].mean(1), rtol=1e-5, atol=1e-7)


@pytest.mark.full
def test_moments_of_a_call_of_many_steps(monkeypatch):
    """Values ±a of variance a² less the mean's square: float32 sums round each step's share."""
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 1e9)
    flip = ewsg.Posterior(lambda p, x: 0.0 * p * x, lambda p: -0.5 * p**2)
    kernel, sizes = ewsg.ld(flip, 1.0, noise="rademacher"), np.array([0.1, 0.3, 0.7])
    of = ewsg.moments(lambda p: jnp.asarray(sizes, jnp.float32) * p)
    options = {"keep": None, "moments": of}
    found = ewsg.sample(KEY, kernel, jnp.zeros(()), jnp.zeros(1), 1_500_000, **options).moments
    np.testing.assert_allclose(found.variance[0], 2 * sizes**2 - found.mean[0] ** 2, rtol=5e-4)


@pytest.mark.full
def test_pooled_moments_are_those_of_all_draws_together():
    """Chains of three draws and of nine; one without weight drops, whatever it holds."""
    rng = np.random.default_rng(0)
    draws = [rng.normal(size=(n, 2)) + n for n in (3, 9)]
    lost = np.full((2, 2), np.nan)
    each = Moments(
        np.array([3.0, 9.0, 0.0]),
        np.array([*(chain.mean(0) for chain in draws), lost[0]]),
        np.array([*(chain.var(0) for chain in draws), lost[0]]),
        np.array([*(np.cov(chain.T, ddof=0) for chain in draws), lost]),
    )
    pooled, whole = each.pooled(), np.concatenate(draws)
    assert pooled.weight == 12
    np.testing.assert_allclose(pooled.mean, whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(pooled.variance, whole.var(0), rtol=1e-12)
    np.testing.assert_allclose(pooled.covariance, np.cov(whole.T, ddof=0), rtol=1e-5)


@pytest.mark.full
def test_moments_of_a_function_and_of_few_bits():
    of = run(moments=ewsg.moments(lambda p: p["w"][0] * p["b"], covariance="diagonal"))
    product = of.position["w"][..., 0] * of.position["b"]
    np.testing.assert_allclose(of.moments.mean, product.mean(1), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(of.moments.variance, product.var(1), rtol=1e-3, atol=1e-8)
    one = run(moments=ewsg.moments(lambda p: {"w": p["w"][0], "one": 1.0})).moments
    np.testing.assert_array_equal(one.mean["one"], 1.0)
    start = jax.tree.map(lambda x: x.astype(jnp.bfloat16), START)
    few = ewsg.sample(KEY, KERNEL, start, DATA, 50, keep=None, moments=ewsg.moments())
    assert few.moments.mean["w"].dtype == np.float32, (
        "sums of many numbers need more bits than bfloat16 has"
    )


@pytest.mark.full
@pytest.mark.parametrize("weights", ["step_size", "next_step_size"])
def test_step_size_weights(weights):
    """Decreasing steps: a position counts with the step that made it or that leaves it."""

    def schedule(step):
        return 0.2 / (1.0 + step)

    kernel = ewsg.sgld(MODEL, schedule, batch_size=2)
    samples = ewsg.sample(
        KEY,
        kernel,
        START,
        DATA,
        40,
        num_chains=2,
        burn_in=4,
        thin=3,
        moments=ewsg.moments(weights=weights),
    )
    assert samples.step.tolist() == list(range(7, 41, 3))
    # The step that made the state t was the one after t − 1 others.
    made = 0.2 / (1.0 + np.arange(6, 40, 3))
    np.testing.assert_allclose(samples.step_size, made, rtol=1e-6)
    weights = made if weights == "step_size" else 0.2 / (1.0 + np.arange(7, 41, 3))
    np.testing.assert_allclose(samples.moments.weight, [weights.sum()] * 2, rtol=1e-6)
    expected = np.average(flat(samples.position), axis=1, weights=weights)
    np.testing.assert_allclose(samples.moments.mean["w"], expected[:, 1:], rtol=1e-5)
    assert not np.allclose(expected, flat(samples.position).mean(1), rtol=1e-3), (
        "the weights must matter"
    )
    constant = ewsg.sample(KEY, KERNEL, START, DATA, 10)
    np.testing.assert_allclose(constant.step_size, np.full(10, 0.1), rtol=1e-6)


@pytest.mark.full
def test_networks_keep_what_they_are_asked_for():
    network = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(1))
    weights, static = eqx.partition(network, eqx.is_inexact_array)
    posterior = ewsg.Posterior(
        lambda w, row: -0.5 * jnp.sum((eqx.combine(w, static)(row["x"]) - row["t"]) ** 2),
        lambda w: -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(w)),
    )
    kernel = ewsg.sghmc(posterior, 1e-2, friction=1.0, batch_size=3)

    def prediction(w):
        return jax.vmap(eqx.combine(w, static))(DATA["x"])

    samples = ewsg.sample(
        KEY,
        kernel,
        weights,
        DATA,
        30,
        num_chains=2,
        keep=prediction,
        moments=ewsg.moments(covariance="diagonal"),
    )
    assert samples.draws.shape == (2, 30, 6, 1)
    assert jax.tree.structure(samples.moments.mean) == jax.tree.structure(weights)
