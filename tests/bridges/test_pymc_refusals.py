"""What PyMC models `from_pymc` refuses: one sentence each, which names the variable."""

import contextlib
import warnings

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.bridges.needs_pymc import skip_without_pymc

skip_without_pymc()

import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.graph import Apply, Op  # noqa: E402

from tests.bridges import pymc_models as models  # noqa: E402

X, Y, N = models.X, models.Y, models.N


class Foreign(Op):
    """An operation that JAX does not have, as of an ODE solver or a simulator."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


def nothing_observed():
    pm.Normal("w")


def nothing_sampled():
    pm.Normal("y", observed=Y)


def discrete():
    state = pm.Bernoulli("state", 0.5)
    pm.Normal("y", state, 1, observed=Y)


def improper():
    pm.Normal("y", pm.Flat("level"), 1, observed=Y)


def missing():
    pm.Normal("y", pm.Normal("w"), 1, observed=np.where(Y > 0, np.nan, Y))


def several_lengths():
    w = pm.Normal("w")
    pm.Normal("y", w, 1, observed=Y, dims="obs")
    pm.Normal("z", w, 1, observed=Y[:5])


def no_axis():
    pm.GaussianRandomWalk("y", 0, pm.HalfNormal("sigma"), init_dist=pm.Normal.dist(), observed=Y)


def summed_potential():
    w = pm.Normal("w", shape=3)
    pm.Normal("y", pt.dot(X, w), 1, observed=Y)
    pm.Potential("penalty", -pt.sum((Y - pt.dot(X, w)) ** 2))


def centred():
    """Data that the model centres: rows depend on all."""
    x = pm.Data("x", X)
    pm.Normal("y", pt.dot(x - x.mean(axis=0), pm.Normal("w", shape=3)), 1, observed=Y)


def lagged():
    """Each row depends on the row before."""
    y = pm.Data("series", Y)
    before = pt.concatenate([[0.0], y[:-1]])
    pm.Normal("y", pm.Normal("rho") * before, 1, observed=y)


def in_pieces():
    """Predictors of two parts of the rows, one after the other."""
    a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
    parts = [a[models.GROUP[:10]], b[models.GROUP[10:]]]
    pm.Normal("y", pt.concatenate(parts), 1, observed=Y)


def impossible():
    pm.Exponential("y", pm.HalfNormal("rate"), observed=Y)


def not_a_number():
    w = pm.Normal("w")
    pm.Normal("y", w * np.where(np.arange(N) == 3, np.nan, 1.0), 1, observed=Y)


def foreign():
    pm.Normal("y", Foreign()(pm.Normal("w")), 1, observed=Y)


REFUSED = {
    nothing_observed: "must observe something | 'w'",
    nothing_sampled: "must have a variable to sample",
    discrete: "the discrete one 'state' (pm.Bernoulli) | pm.Mixture",
    improper: "the improper one of 'level' (pm.Flat) | pm.Normal(0, 100)",
    missing: "missing values | 'y' | 'y_unobserved' | rows='all'",
    several_lengths: "rows must name | 'y' (obs: 24), 'z' (5)",
    no_axis: "'y' (a scalar) | rows='all'",
    summed_potential: "the potential 'penalty' | 24 rows | rows='all'",
    centred: "independent | 'y' | with all 24 | rows='all'",
    lagged: "independent | 'y' | rows='all'",
    in_pieces: "on some rows | 'y' | shape=x.shape[0]",
    impossible: "finite log density | 'y' | -inf at [",
    not_a_number: "finite log density | 'y' | nan at [3] (1 of 24)",
    foreign: "that JAX can evaluate | 'y' | Foreign",
}


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
@pytest.mark.parametrize("write", REFUSED, ids=lambda write: write.__name__)
def test_a_model_is_refused_in_a_sentence(write):
    with pytest.raises(ValueError, match=r"^(model|rows) must ") as raised:
        ewsg.from_pymc(models.model("", write))
    message = str(raised.value)
    assert [text for text in REFUSED[write].split(" | ") if text not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ("site", ValueError, "rows must be the name of a dimension | 'y' (obs: 24) | 'site'"),
        (3, TypeError, "rows must be the name of a dimension | got 3"),
    ],
)
def test_rows_are_refused_in_a_sentence(rows, error, said):
    with pytest.raises(error) as raised:
        ewsg.from_pymc(models.model("logistic"), rows=rows)
    assert [text for text in said.split(" | ") if text not in str(raised.value)] == []


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="model must be a Model"):
        ewsg.from_pymc(models.logistic)


def test_named_rows_leave_other_observations_whole():
    """What has another length belongs to the prior."""
    model = ewsg.from_pymc(models.model("", several_lengths), rows="obs")
    assert ewsg.rows.num_rows(model.data) == N
    whole = models.model("", several_lengths)
    at = whole.initial_point()
    potential = model.posterior.potential(at, model.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert abs(potential + whole.compile_logp(mode="FAST_COMPILE")(at)) < 1e-3


@pytest.mark.parametrize("write", [centred, lagged, in_pieces, no_axis, summed_potential])
def test_dependent_rows_are_one_datum_when_asked(write):
    whole = models.model("", write)
    model = ewsg.from_pymc(whole, rows="all")
    assert ewsg.rows.num_rows(model.data) == 1
    at = {k: np.asarray(x) + 0.3 for k, x in model.position.items()}
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(False))
        found = model.posterior.potential(at, model.data)
    wanted = -whole.compile_logp(mode="FAST_COMPILE")(at)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
