"""How many programs a plan compiles, in a process of its own: people wait for each of them."""

import subprocess
import sys

import pytest

PRELUDE = """
import jax
programs = []


def count_from_here():
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: programs.append(event) if "backend_compile" in event else None
    )


"""


def printed(code):
    """What a program prints, in words, whose list `programs` has an entry for each compilation."""
    finished = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


COUNTED = """
import ewsg_jax as ewsg
from benchmarks.answers.models import MODELS

model = MODELS[{name!r}]
rows = jax.tree.map(jax.numpy.asarray, model.load())
key = jax.random.key(0)
count_from_here()
plan = ewsg.plan(key, model.posterior, model.start, rows)
print(len(programs), plan.is_trusted)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "most"),
    [("robust", 16), ("irt", 22)],
    ids=["near normal", "by chains"],
)
def test_a_plan_compiles_few_programs(name, most):
    """15 and 21: nothing is compiled by operations one by one."""
    count, is_trusted = printed(COUNTED.format(name=name))
    assert is_trusted == "True"
    assert 8 <= int(count) <= most


HIERARCHY = """
import itertools
import ewsg_jax as ewsg
from benchmarks.hierarchies.models import models

model, traces = models()["few_groups_c"], itertools.count()
posterior = model.posterior


def log_likelihood(position, row):
    next(traces)
    return posterior.log_likelihood(position, row)


rows = jax.tree.map(jax.numpy.asarray, model.data)
keys = jax.random.split(jax.random.key(0), 3)
count_from_here()
counted = ewsg.Posterior(log_likelihood, posterior.log_prior)
plan = ewsg.plan(keys[0], counted, model.start, rows, seconds=1e4, progress=False)
options = plan.sample_options(ess=1_000)
samples = ewsg.sample(keys[1], plan.kernel, plan.start, rows, **options, progress=False)
report = ewsg.check(keys[2], samples, counted, rows)
print(len(programs), next(traces))
"""


@pytest.mark.full
def test_a_hierarchy_takes_few_programs_and_traces():
    """59 and 37 for plan, run and check; coordinates of the plan's own are not checked as models of
    users are.
    """
    programs, traces = map(int, printed(HIERARCHY))
    assert 20 <= programs <= 64
    assert 10 <= traces <= 42
