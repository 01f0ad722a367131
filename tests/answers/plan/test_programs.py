"""How many programs a plan compiles, in a process of its own: people wait for each of them."""

import subprocess
import sys

import pytest

COUNTED = """
import jax
import ewsg_jax as ewsg
from benchmarks.answers.models import MODELS

model, found = MODELS[{name!r}], []
rows = jax.tree.map(jax.numpy.asarray, model.load())
key = jax.random.key(0)
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: found.append(event) if "backend_compile" in event else None
)
plan = ewsg.plan(key, model.posterior, model.start, rows)
print(len(found), plan.is_trusted)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "most"),
    [("robust", 16), ("irt", 22)],
    ids=["near normal", "by chains"],
)
def test_a_plan_compiles_few_programs(name, most):
    """15 and 21: nothing is compiled by operations one by one."""
    made = subprocess.run(
        [sys.executable, "-c", COUNTED.format(name=name)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    count, is_trusted = made.stdout.split()
    assert is_trusted == "True"
    assert 8 <= int(count) <= most


HIERARCHY = """
import itertools
import jax
import ewsg_jax as ewsg
from benchmarks.hierarchies.models import models

model, traces, found = models()["few_groups_c"], itertools.count(), []
posterior = model.posterior


def log_likelihood(position, row):
    next(traces)
    return posterior.log_likelihood(position, row)


rows = jax.tree.map(jax.numpy.asarray, model.data)
keys = jax.random.split(jax.random.key(0), 3)
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: found.append(event) if "backend_compile" in event else None
)
counted = ewsg.Posterior(log_likelihood, posterior.log_prior)
plan = ewsg.plan(keys[0], counted, model.start, rows, seconds=1e4, progress=False)
options = plan.sample_options(ess=1_000)
samples = ewsg.sample(keys[1], plan.kernel, plan.start, rows, **options, progress=False)
report = ewsg.check(keys[2], samples, counted, rows)
print(len(found), next(traces))
"""


@pytest.mark.full
def test_a_hierarchy_takes_few_programs_and_traces():
    """59 and 37 for plan, run and check; coordinates of the plan's own are not checked as models of
    users are.
    """
    made = subprocess.run(
        [sys.executable, "-c", HIERARCHY], capture_output=True, text=True, timeout=600
    )
    assert made.returncode == 0, made.stderr
    programs, traces = map(int, made.stdout.split()[-2:])
    assert 20 <= programs <= 64
    assert 10 <= traces <= 42
