"""The tags of classes in saved files: every class of a state has one."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import tags
from ewsg_jax.sampling import saved_as
from tests import contract


@saved_as("tests.spinning_state")
class SpinningState(NamedTuple):
    position: jax.Array
    step: jax.Array
    spin: jax.Array


@saved_as("tests.report")
@dataclasses.dataclass(frozen=True)
class Report:
    value: jax.Array
    note: str


class Unnamed(NamedTuple):
    position: jax.Array
    step: jax.Array


def classes(value):
    """The classes of a tree, down to its arrays."""
    if hasattr(value, "_fields") or dataclasses.is_dataclass(value):
        return {type(value)}.union(*(classes(item) for item in tags.fields(value).values()))
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return set().union(*map(classes, children))


@pytest.mark.parametrize("name", ewsg.METHODS)
def test_every_class_of_a_state_has_a_tag(name):
    found = set()
    # Weighted batches are of no epochs.
    has_epochs = "rows" in ewsg.METHODS[name].build.__kwdefaults__ and not name.startswith("ewsg")
    rows = [{"rows": "epochs", "replace": True}] if has_epochs else []
    # Nor are those blocks whose covariance is reported.
    if has_epochs and "structure" not in ewsg.METHODS[name].build.__kwdefaults__:
        rows.append({"rows": "block_epochs", "replace": True})
    for options in [options for method, options in contract.combinations() if method == name]:
        for more in [{}, *rows]:
            kernel = contract.build(name, options | more)
            state = jax.eval_shape(kernel.init, jax.random.key(0), contract.POSITION, contract.data())
            found |= classes(state)
    assert ewsg.KernelState in found
    assert {kind.__qualname__ for kind in found if kind not in tags._TAGS} == set()
    assert all(tags.class_of(tags._TAGS[kind]) is kind for kind in found)


@pytest.fixture
def samples():
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
    return ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), jnp.ones((6, 2)), 4)


def test_a_class_of_ones_own_comes_back(samples, tmp_path):
    state = SpinningState(*samples.state.dynamics, jnp.arange(3.0))
    changed = dataclasses.replace(samples, state=ewsg.KernelState(state, ()), draws=Report(samples.draws, "all"))
    changed.save(tmp_path / "run.npz")
    again = ewsg.load(tmp_path / "run.npz")
    assert type(again.state.dynamics) is SpinningState
    np.testing.assert_array_equal(again.state.dynamics.spin, np.arange(3.0))
    assert type(again.draws) is Report
    assert again.draws.note == "all"


def test_a_class_without_a_tag_is_told_of(samples, tmp_path):
    changed = dataclasses.replace(samples, state=ewsg.KernelState(Unnamed(*samples.state.dynamics), ()))
    with pytest.raises(
        TypeError, match=r"ewsg_jax\.sampling\.saved_as decorates; got .* as samples\.state\.dynamics"
    ):
        changed.save(tmp_path / "run.npz")


def test_a_class_that_is_not_there_is_told_of(samples, tmp_path, monkeypatch):
    state = SpinningState(*samples.state.dynamics, jnp.arange(3.0))
    dataclasses.replace(samples, state=ewsg.KernelState(state, ())).save(tmp_path / "run.npz")
    monkeypatch.delitem(tags._CLASSES, "tests.spinning_state")
    with pytest.raises(ValueError, match=r"run\.npz.*unknown class 'tests\.spinning_state'; .* been imported"):
        ewsg.load(tmp_path / "run.npz")


def test_a_class_may_be_made_again(monkeypatch):
    """As by a cell of a notebook that is run again."""
    monkeypatch.setattr(tags, "_CLASSES", dict(tags._CLASSES))

    def cell():
        @saved_as("tests.cell")
        class State(NamedTuple):
            position: jax.Array

        return State

    first, second = cell(), cell()
    assert tags.class_of("tests.cell") is second is not first
    assert tags.tag_of(first(0)) == tags.tag_of(second(0)) == "tests.cell"


def test_what_cannot_be_tagged_is_named():
    with pytest.raises(ValueError, match="tag must be one that no other class has; got 'kernel_state'"):
        saved_as("kernel_state")(Unnamed)
    with pytest.raises(TypeError, match="tag must be a text"):
        saved_as(Unnamed)
    with pytest.raises(TypeError, match="saved_as must decorate a named tuple or a dataclass"):
        saved_as("tests.function")(lambda: None)
