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
