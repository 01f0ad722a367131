"""A centred hierarchy is planned in coordinates that fit it, and draws come back in its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.kernels.in_coordinates import InCoordinates
from tests.answers.check.test_hierarchy import GROUPS, Groups

START = {"a": jnp.zeros(GROUPS), "t": jnp.zeros(())}


@pytest.mark.full
@pytest.mark.parametrize("tau", [0.1, pytest.param(0.8, marks=pytest.mark.sweep)])
def test_a_centred_hierarchy_is_sampled_without_a_word(tau):
    groups = Groups(tau)
    keys = jax.random.split(jax.random.key(0), 3)
    plan = ewsg.plan(keys[0], groups.posterior, START, groups.data, progress=False)
    assert isinstance(plan.kernel, InCoordinates)
    assert plan.is_trusted, plan.doubts
    assert "hierarchy of 12 effects" in plan.notes[0]
    options = plan.sample_options()
    samples = ewsg.sample(keys[1], plan.kernel, plan.start, groups.data, progress=False, **options)
    # In the user's coordinates, against quadrature.
    t = np.asarray(samples.position["t"], float)
    assert abs(t.mean() - groups.mean) < 0.12 * groups.sd
    assert abs(t.std() / groups.sd - 1) < 0.08
    a = groups.draws(1, count=160_000)["a"].reshape(-1, GROUPS)
    np.testing.assert_allclose(samples.mean["a"], a.mean(0), atol=0.12 * a.std(0).max())
    report = ewsg.check(keys[2], samples, groups.posterior, groups.data)
    assert report.outcome == "right"


@pytest.mark.full
def test_a_prior_without_a_hierarchy_is_planned_as_it_is():
    groups = Groups(0.5)
    plain = ewsg.Posterior(
        groups.posterior.log_likelihood, lambda p: -0.5 * (jnp.sum(p["a"] ** 2) + p["t"] ** 2)
    )
    plan = ewsg.plan(jax.random.key(0), plain, START, groups.data, progress=False)
    assert not isinstance(plan.kernel, InCoordinates)
