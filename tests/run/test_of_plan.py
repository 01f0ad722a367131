"""A plan in the place of what it settles, and samples that know what was sampled."""

import copy
import functools
import pickle
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run.of_plan import SamplePlan

KEY, POINT = jax.random.key(0), jnp.zeros(1)
MODEL = ewsg.models.gaussian_location()
DATA = jnp.linspace(-1.0, 1.0, 8)[:, None]


class Settled(NamedTuple):
    """A plan of whoever likes: what `sample` asks for, and nothing else."""

    kernel: ewsg.Kernel
    start: object

    def sample_options(self):
        moments = ewsg.moments()
        return {"data_passes": 30, "num_chains": 2, "burn_in": 4, "thin": 3, "moments": moments}


PLAN = Settled(ewsg.ld(MODEL, 0.01), functools.partial(jax.random.normal, shape=(1,)))
run = functools.partial(ewsg.sample, progress=False)


def test_a_plan_is_its_arguments_one_by_one():
    options = PLAN.sample_options()
    wanted = run(KEY, PLAN.kernel, PLAN.start, DATA, **options)
    calls = (
        run(KEY, PLAN, DATA),
        run(KEY, PLAN, data=DATA),
        run(key=KEY, plan=PLAN, data=DATA),
        run(data=DATA, key=KEY, kernel=PLAN),
    )
    for samples in calls:
        np.testing.assert_array_equal(samples.position, wanted.position)
        np.testing.assert_array_equal(samples.moments.mean, wanted.moments.mean)
        assert (samples.num_chains, samples.num_steps, samples.step[0]) == (2, 30, 7)


@pytest.mark.parametrize(
    "given",
    [
        {"num_steps": 20},
        {"data_passes": 10.0},
        {"num_chains": 1},
        {"burn_in": 0},
        {"thin": 1},
        {"moments": None},
        {"position": POINT},
        {"kernel": ewsg.ld(MODEL, 0.02)},
        {"keep": jnp.sum, "seconds": 60.0, "first_chain": 3},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_is_given_counts(given):
    full = {"kernel": PLAN.kernel, "position": PLAN.start, **PLAN.sample_options()}
    if "num_steps" in given:
        del full["data_passes"]
    wanted = run(key=KEY, data=DATA, **full | given)
    samples = run(KEY, PLAN, DATA, **given)
    np.testing.assert_array_equal(samples.draws, wanted.draws)
    np.testing.assert_array_equal(samples.step, wanted.step)
    assert (samples.moments is None) == (wanted.moments is None)


def test_steps_may_follow_the_data():
    assert run(KEY, PLAN, DATA, 20).num_steps == 20


def test_a_run_that_goes_on_has_its_chains_and_no_burn_in():
    whole = run(KEY, PLAN, DATA, 40, num_chains=3, burn_in=0)
    first = run(KEY, PLAN, DATA, 18, num_chains=3, burn_in=0)
    later = run(KEY, PLAN, DATA, 22, state=first.state)
    np.testing.assert_array_equal(later.step, [21, 24, 27, 30, 33, 36, 39])
    np.testing.assert_array_equal(later.position, whole.position[:, -7:])


def test_chains_of_stacked_starts_are_as_many_as_there_are():
    assert run(KEY, PLAN, DATA, position=jnp.zeros((3, 1)), stacked=True).num_chains == 3


def test_a_plan_of_the_library_is_one():
    mode = ewsg.find_mode(KEY, MODEL, POINT, DATA)
    plan = ewsg.plan(KEY, MODEL, POINT, DATA, mode=mode, methods=["ld"], progress=False)
    assert isinstance(plan, SamplePlan)
    assert not isinstance(PLAN.kernel, SamplePlan)
    options = {"progress": False} | plan.sample_options()
    wanted = ewsg.sample(KEY, plan.kernel, plan.start, DATA, **options)
    samples = run(KEY, plan, DATA)
    np.testing.assert_array_equal(samples.position, wanted.position)
    short, full = (
        ewsg.check(KEY, samples, DATA, max_draws=400),
        ewsg.check(KEY, samples, MODEL, DATA, max_draws=400),
    )
    assert repr(short) == repr(full)


# What samples know.


def test_samples_know_the_posterior_of_their_run(tmp_path):
    samples = run(KEY, PLAN, DATA)
    assert samples.kernel == PLAN.kernel
    assert samples.posterior == MODEL
    assert samples.concatenate(run(KEY, PLAN, DATA, state=samples.state)).posterior == MODEL
    # Files and pickled samples hold no functions of a user.
    samples.save(tmp_path / "run.npz")
    read, known = ewsg.load(tmp_path / "run.npz"), {"kernel": PLAN.kernel, "data": DATA}
    for other in (read, pickle.loads(pickle.dumps(samples)), copy.deepcopy(samples)):
        assert other.kernel is other.posterior is None
    assert ewsg.load(tmp_path / "run.npz", **known).posterior == MODEL


def test_an_exact_kernel_has_a_posterior_of_its_own():
    kernel = ewsg.random_walk_metropolis(MODEL, 0.5)
    assert run(KEY, kernel, POINT, DATA, 5).posterior == MODEL


def test_members_of_a_stack_have_their_own():
    kernels = [ewsg.ld(MODEL, h) for h in (0.01, 0.02)]
    runs = run(KEY, ewsg.stack(kernels), POINT, DATA, 10)
    assert [one.kernel for one in runs] == kernels
    assert [one.posterior for one in runs] == [MODEL, MODEL]


def test_a_check_takes_the_posterior_by_its_place_or_its_name():
    samples = run(KEY, PLAN, DATA, 400)
    check = functools.partial(ewsg.check, max_draws=200)
    wanted = repr(check(KEY, samples, MODEL, DATA))
    assert repr(check(KEY, samples, DATA)) == wanted
    assert repr(check(KEY, samples=samples, data=DATA)) == wanted
    assert repr(check(KEY, samples, DATA, posterior=MODEL)) == wanted
    assert repr(check(data=DATA, key=KEY, samples=samples, posterior=MODEL)) == wanted


def test_the_temperature_of_a_run_is_that_of_its_check():
    samples = run(KEY, PLAN, DATA, 2_000, kernel=ewsg.ld(MODEL, 0.01, temperature=0.25))
    short = ewsg.check(KEY, samples, DATA, max_draws=200)
    assert repr(short) == repr(ewsg.check(KEY, samples, MODEL, DATA, max_draws=200))
    tempered = ewsg.check(KEY, samples.position, MODEL, DATA, max_draws=200, temperature=0.25)
    np.testing.assert_allclose(short.sd_ratio, tempered.sd_ratio, rtol=1e-6)
