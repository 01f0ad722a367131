"""Mistakes in parts of one's own, each with one error that names the class and the method."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests import own

KEY = jax.random.key(0)
MODEL, ROWS, START = ewsg.models.gaussian_location(), jnp.ones((20, 2)), jnp.zeros(2)
UNIFORM = ewsg.gradients.uniform(MODEL, batch_size=5)


def of_class(base, **members):
    """A module derived from another with some members of its own."""
    return ewsg.module(type("Mine", (base,), members | {"__annotations__": {}}))


def moved(end):
    """`apply` of a dynamics that returns what `end` makes of the next state and of the last one."""
    return lambda self, noise, now, estimate, gradient_at: end(
        own.Plain.apply(self, noise, now, estimate, gradient_at), now, gradient_at
    )


def dynamics(**members):
    return own.plain(0.1, of_class(own.Plain, **members))


def estimator(**members):
    return own.of_rows(of_class(own.Averaged, **members), MODEL)


def init(kind, estimate=UNIFORM):
    return ewsg.kernel(kind, estimate).init(KEY, START, ROWS)


# Right ones.


def thrice(next_state, now, gradient_at):
    """Three gradients: in a loop, where they are traced once."""
    last = jax.lax.fori_loop(0, 3, lambda _, x: x - 0.1 * gradient_at(x), next_state.position)
    return next_state._replace(position=last)


@pytest.mark.usual_parameters(
    "estimate0-kind0", "estimate0-kind3", "estimate1-kind0", "estimate1-kind3"
)
@pytest.mark.parametrize(
    "kind",
    [
        own.plain(0.1),
        own.momentum(0.1, 1.0, alpha=0.5),
        ewsg.dynamics.in_metric(dynamics(translates=True), jnp.array([1.0, 2.0])),
        dynamics(apply=moved(thrice), extra_gradients=3),
        own.plain(lambda step: 0.1 / (1.0 + step)),
        # Of a number made by a function of JAX nothing is known while tracing.
        dynamics(apply=moved(lambda end, now, _: end._replace(step=jnp.add(now.step, 1)))),
    ],
)
@pytest.mark.parametrize("estimate", [UNIFORM, own.of_rows(own.Averaged, MODEL)])
def test_right_ones_are_taken(kind, estimate):
    assert int(init(kind, estimate).step) == 0


@pytest.mark.full
def test_they_are_taken_under_vmap_and_in_a_run():
    kernel = ewsg.kernel(own.plain(0.1), own.of_rows(own.Averaged, MODEL))
    starts = jnp.zeros((3, 2))
    states = jax.vmap(lambda x: kernel.init(KEY, x, ROWS))(starts)
    assert states.step.shape == (3,)
    samples = ewsg.sample(KEY, kernel, START, ROWS, 5, num_chains=2)
    assert samples.is_finite.all()


def test_a_gradient_may_be_more_exact_than_the_position():
    """As those of the library are: sums over rows are in float32."""

    def propose(self, randomness, memory, point, data, weight):
        estimate, update = own.Averaged.propose(self, randomness, memory, point, data, weight)
        gradient = estimate.gradient.astype(jnp.float32)
        return estimate._replace(gradient=gradient), update.astype(memory.dtype)

    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator(propose=propose))
    assert int(kernel.init(KEY, START.astype(jnp.bfloat16), ROWS).step) == 0


def test_equal_parts_are_traced_once():
    """With the number of the step, and without."""
    traces = []

    def noted(next_state, now, gradient_at):
        traces.append(now)
        return next_state

    kernel = ewsg.kernel(dynamics(apply=moved(noted)), UNIFORM)
    state = kernel.init(KEY, START, ROWS)
    for seed in range(3):
        kernel.init(jax.random.key(seed), START + seed, ROWS)
    assert len(traces) == 2
    traces.clear()
    for _ in range(3):
        kernel.transition(kernel.draw(KEY, state, ROWS), state, ROWS)
    assert len(traces) == 3  # of the steps themselves


def test_a_first_memory_of_pythons_numbers():
    """`scan` takes a carry that begins with one."""

    def propose(self, randomness, memory, *rest):
        estimate, _ = own.Averaged.propose(self, randomness, START, *rest)
        return estimate, memory + jnp.int16(1)

    counted = estimator(init=lambda self, key, position, data: jnp.array(0), propose=propose)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(0.1), counted)
    assert ewsg.sample(KEY, kernel, START, ROWS, 3).is_finite.all()


# Wrong ones.


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"apply": moved(lambda end, now, _: end._replace(step=now.step))},
            "apply of Mine must return a state whose step is one more than before; got step 7",
        ),
        (
            {"apply": moved(lambda end, now, _: end._replace(step=now.step + 2))},
            "apply of Mine must return a state whose step is one more than before; got step 9",
        ),
        (
            {"apply": moved(lambda end, now, _: end._replace(position=end.position[:1]))},
            "the state that apply of Mine returns must be like that of init",
        ),
        (
            {"apply": moved(lambda end, now, _: end.position)},
            "the state that apply of Mine returns must be like that of init",
        ),
        (
            {"apply": moved(lambda end, now, at: end._replace(position=at(end.position)))},
            "extra_gradients of Mine must be how often its apply calls gradient_at in a step; "
            "got 0, and 1 calls",
        ),
        ({"extra_gradients": 1}, "got 1, and 0 calls"),
        ({"apply": moved(thrice)}, "got 0, and 1 calls"),
        (
            {
                "apply": moved(lambda end, now, at: end._replace(position=at(end.position[:1]))),
                "extra_gradients": 1,
            },
            "the argument of gradient_at in apply of Mine must be a position",
        ),
        (
            {"init": lambda self, key, position: (position, jnp.int32(0))},
            "init of Mine must return a NamedTuple with at least position and step; got tuple",
        ),
        (
            {"frozen_noise": ("zero",), "log_weight": lambda self, now, g, x: g.gradient},
            "log_weight of Mine must return a scalar; got an array of shape (2,)",
        ),
    ],
)
def test_dynamics(members, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        init(dynamics(**members))


def proposed(change):
    return lambda self, *arguments: change(*own.Averaged.propose(self, *arguments))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"propose": proposed(lambda e, u: (e._replace(gradient=e.gradient[:1]), u))},
            "the gradient that propose of Mine returns must be shaped like the position; got "
            "shape (1,) float32, not shape (2,) float32",
        ),
        (
            {"propose": proposed(lambda e, u: (e._replace(gradient=[e.gradient]), u))},
            "the gradient that propose of Mine returns must be shaped like the position",
        ),
        (
            {"propose": proposed(lambda e, u: e)},
            "propose of Mine must return a pair, an Estimate and the update that commit gets",
        ),
        (
            {"propose": proposed(lambda e, u: (e.gradient, u))},
            "propose of Mine must return a pair",
        ),
        (
            {"gradient_at": lambda self, estimate, position, data: position[0]},
            "what gradient_at of Mine returns must be shaped like the position",
        ),
        (
            {"commit": lambda self, update, memory: update[:1]},
            "the memory that commit of Mine returns must be like that of init",
        ),
        (
            {"refresh": lambda self, r, memory, step, point, data: ((memory,), point, 0)},
            "the memory that refresh of Mine returns must be like that of init",
        ),
        (
            {
                "refresh": lambda self, r, memory, step, point, data: (
                    memory.astype(jnp.float16),
                    point,
                    0,
                )
            },
            "the memory that refresh of Mine returns must be like that of init, in structure, "
            "shapes and dtypes; got shape (2,) float16, not shape (2,) float32",
        ),
        (
            {"refresh": lambda self, r, memory, step, point, data: memory},
            "refresh of Mine must return three: the memory, the point and how many evaluations",
        ),
        (
            {"evaluations": lambda self, data: 5},
            "what evaluations of Mine returns must be an Evaluations (an ewsg_jax.gradients",
        ),
    ],
)
def test_estimators(members, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        init(ewsg.dynamics.langevin(0.1), estimator(**members))


@pytest.mark.full
def test_an_estimator_inside_another_one():
    wrong = estimator(gradient_at=lambda self, estimate, position, data: position[0])
    weighted = ewsg.gradients.exponentially_weighted(wrong)
    with pytest.raises(ValueError, match="what gradient_at of Mine returns"):
        init(ewsg.dynamics.langevin(0.1), weighted)


# Before there are any data.


def test_a_class_without_a_decorator():
    class Forgotten(own.Plain):
        alpha: float

    class WithoutFields(own.Plain):
        pass

    for cls in (Forgotten, WithoutFields):
        name = cls.__name__
        message = f"{name} must be decorated: write @ewsg_jax.module above class {name}"
        with pytest.raises(TypeError, match=message):
            own.plain(0.1, cls)


@pytest.mark.parametrize(
    "apply",
    [
        moved(lambda end, now, _: end if now.step > 5 else now),
        moved(lambda end, now, _: end if jnp.all(end.position > 0) else now),
        moved(lambda end, now, _: end._replace(position=np.asarray(end.position))),
    ],
    ids=["the step", "a value", "NumPy"],
)
def test_what_asks_for_values_is_found_by_init(apply):
    with pytest.raises(TypeError, match="apply of Mine must take arrays whose values are not"):
        init(dynamics(apply=apply))
    values = {"propose": lambda self, *given: float(given[2].sum())}
    with pytest.raises(TypeError, match=r"propose of Mine must take .* it raised Concret") as found:
        init(ewsg.dynamics.langevin(0.1), estimator(**values))
    # The line of one's own is in what JAX raised.
    assert isinstance(found.value.__cause__, jax.errors.ConcretizationTypeError)


@pytest.mark.parametrize("step_size", [0.1, lambda step: 0.1])
def test_a_step_size_that_is_not_called(step_size):
    def apply(self, noise, now, estimate, gradient_at):
        return now._replace(position=now.position - estimate.gradient * self.step_size)

    for each in (apply, lambda self, *given: 2.0 - self.step_size):
        kind = own.plain(step_size, of_class(own.Plain, apply=each))
        with pytest.raises(TypeError, match=r"such as self\.step_size\(step\); got .* itself"):
            init(kind)


def test_a_step_size_that_is_no_function_of_the_step():
    with pytest.raises(TypeError, match="step_size of Plain must be a field that is a function"):
        ewsg.kernel(own.Plain(step_size=0.1, temperature=lambda step: 1.0), UNIFORM)
    with pytest.raises(TypeError, match=r"temperature of Plain .* got 1\.0 \(float\)"):
        ewsg.kernel(own.Plain(step_size=lambda step: 0.1, temperature=1.0), UNIFORM)


def test_no_step_size():
    @ewsg.module
    class Without(ewsg.dynamics.Dynamics):
        h: float
        init = own.Plain.init
        apply = own.Plain.apply

    with pytest.raises(TypeError, match=r"step_size of Without must be a field .*; got none"):
        ewsg.kernel(Without(h=0.1), UNIFORM)


def test_a_field_that_is_no_number_is_static():
    cls = ewsg.module(type("Of", (own.Averaged,), {"__annotations__": {"model": object}}))
    law = ewsg.rows.row_law(5, True, "random")
    part = cls(posterior=MODEL, law=law, model={"a": MODEL})
    with pytest.raises(TypeError, match=r"model\['a'\] of Of must be a number or an array, or a f"):
        ewsg.kernel(ewsg.dynamics.langevin(0.1), part)


def test_a_step_that_evaluates_nothing():
    free = estimator(evaluations=lambda self, data: ewsg.gradients.Evaluations(0, 0))
    with pytest.raises(ValueError, match=r"per_step of what evaluations of Mine returns .* got 0"):
        init(ewsg.dynamics.langevin(0.1), free)


def test_a_memory_without_a_first_one():
    wrong = estimator(init=ewsg.gradients.GradientEstimator.init)
    with pytest.raises(TypeError, match="Mine must have an init that returns the first memory"):
        ewsg.kernel(ewsg.dynamics.langevin(0.1), wrong)


def test_a_memory_that_never_changes():
    wrong = estimator(commit=ewsg.gradients.GradientEstimator.commit)
    with pytest.raises(TypeError, match="Mine must have a commit that makes the next memory"):
        init(ewsg.dynamics.langevin(0.1), wrong)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"noise": 0.5},
            r"noise of Mine must be the distribution .* 'gaussian', 'rademacher', .* got 0\.5",
        ),
        (
            {"noise": "student"},
            r"noise of Mine must be the distribution .* 'gaussian', 'rademacher', .* got 'student'",
        ),
        ({"bias_order": "2"}, "bias_order of Mine must be a whole number, at least 1; got '2'"),
    ],
)
def test_names_that_mean_something(members, message):
    with pytest.raises(TypeError, match=message):
        ewsg.kernel(dynamics(**members), UNIFORM)


def test_a_field_called_noise_beside_a_draw_of_its_own():
    own_draw = {"noise": 0.5, "draw": lambda self, key, state: jnp.ones_like(state.position)}
    assert int(init(dynamics(**own_draw)).step) == 0


def test_rows_that_are_no_whole_numbers():
    def draw(self, key, data, order=None):
        return ewsg.rows.Batch(jnp.zeros(self.batch_size))

    law = of_class(ewsg.rows.RowLaw, draw=draw)(batch_size=5)
    with pytest.raises(
        TypeError, match=r"draw of .* must return row numbers that are whole; got f"
    ):
        init(ewsg.dynamics.langevin(0.1), ewsg.gradients.uniform(MODEL, batch_size=5, rows=law))


def test_an_estimate_that_holds_more_than_its_batch():
    def propose(self, randomness, memory, point, data, weight):
        estimate, update = own.Averaged.propose(self, randomness, memory, point, data, weight)
        return estimate._replace(batch=(estimate.batch, point)), update

    with pytest.raises(
        TypeError, match=r"batch must be an .*Batch .* needs a gradient_at of its own"
    ):
        init(ewsg.dynamics.langevin(0.1), estimator(propose=propose))
