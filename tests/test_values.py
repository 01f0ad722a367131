"""A kernel is a value: equal, printed, stored and stacked by numbers, one program."""

import copy
import functools
import inspect
import math
import pickle
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base.modules import Part, module
from ewsg_jax.run import compiled_loop
from tests import contract

MODELS = {
    "logistic_regression": lambda scale=2.0: ewsg.models.logistic_regression(prior_scale=scale),
    "softmax_regression": lambda scale=2.0: ewsg.models.softmax_regression(prior_scale=scale),
    "linear_regression": lambda scale=2.0: ewsg.models.linear_regression(
        noise_scale=0.5, prior_scale=scale
    ),
    "gaussian_location": lambda scale=2.0: ewsg.models.gaussian_location(
        noise_scale=0.5, prior_scale=scale
    ),
    "normal": lambda scale=2.0: ewsg.models.normal(prior_scale=scale),
}
NAMES = (
    {name: getattr(ewsg, name) for name in dir(ewsg)}
    | {name: getattr(ewsg.dynamics, name) for name in dir(ewsg.dynamics)}
    | {name: getattr(ewsg.gradients, name) for name in dir(ewsg.gradients)}
    | {name: getattr(ewsg.models, name) for name in MODELS}
    | {"inf": math.inf}
)
D, G = ewsg.dynamics, ewsg.gradients


def inverse_metric(position, data):
    return 1 / (1 + position**2)


def labels(data):
    return (data["y"] > 0).astype(jnp.int32)


def halved(step):
    return 0.1 / (1 + step)


class Dense(NamedTuple):
    weights: jax.Array
    bias: jax.Array


STORED = {"inverse_metric": inverse_metric, "labels": labels}


def kernel(name, step_size=0.05, **changes):
    options = ewsg.METHODS[name].example | {
        k: v for k, v in STORED.items() if k in ewsg.METHODS[name].example
    }
    return ewsg.METHODS[name].build(MODELS["logistic_regression"](), step_size, **options | changes)


# Equal by value.


@pytest.mark.usual_parameters("ld", "ewsg_ld", "hamcmc", "svrg_hmc")
@pytest.mark.parametrize("name", ewsg.METHODS)
def test_methods_are_equal_by_value(name):
    one = kernel(name)
    assert one == kernel(name)
    assert hash(one) == hash(kernel(name))
    assert one != kernel(name, step_size=0.06)
    assert one == kernel(name, step_size=np.float64(0.05))
    assert one != kernel(name, step_size=halved)
    assert kernel(name, step_size=halved) == kernel(name, step_size=halved)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (D.langevin(0.1), D.langevin(0.1, temperature=0.5)),
        (D.langevin(0.1), D.langevin(0.1, noise="rademacher")),
        (D.langevin(0.1), D.langevin(jnp.float32(0.1))),
        (D.euler(0.1, friction=1.0), D.semi_implicit(0.1, friction=1.0)),
        (D.exact(0.1), D.exact(0.1, inverse_mass=0.5)),
        (D.preconditioned(0.1, damping=1.0), D.preconditioned(0.1, damping=1.0, correction=True)),
        (D.quasi_newton(0.1), D.quasi_newton(0.1, memory_size=4)),
        (ewsg.bijectors.interval(0.0, 1.0), ewsg.bijectors.interval(0.0, 2.0)),
        (
            ewsg.bijectors.tree([ewsg.bijectors.positive()]),
            ewsg.bijectors.tree([ewsg.bijectors.ordered()]),
        ),
        (ewsg.bounds.bohning(), ewsg.bounds.jaakkola_jordan()),
    ],
    ids=repr,
)
def test_what_differs_is_not_equal(one, other):
    assert one == copy.deepcopy(one)
    assert one != other


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 3},
        {"replace": False},
        {"rows": "blocks"},
        {"rows": "epochs"},
        {"refresh_every": 4},
        {"option": "I"},
        {"chunk_size": 5},
    ],
    ids=str,
)
def test_what_shapes_an_estimator_is_part_of_it(changes):
    options = {"batch_size": 2, "refresh_every": 3}
    one, other = (G.svrg(MODELS["normal"](), **options | c) for c in ({}, changes))
    assert one != other
    assert other == G.svrg(MODELS["normal"](), **options | changes)


@pytest.mark.parametrize("name", MODELS)
def test_ready_models_are_equal_by_value(name):
    make = MODELS[name]
    assert make() == make() == pickle.loads(pickle.dumps(make())) == copy.deepcopy(make())
    assert hash(make()) == hash(make())
    assert make() != make(3.0)
    assert make() != make(math.inf)
    moved = [make().transformed(ewsg.bijectors.positive()) for _ in range(2)]
    assert moved[0] == moved[1] != make()
    assert moved[0] != make().transformed(ewsg.bijectors.identity())


@pytest.mark.full
def test_a_function_without_a_hash_is_known_by_its_identity():
    class Holder:
        __hash__ = None

        def __init__(self, rate):
            self.rate = jnp.asarray(rate)

        def __eq__(self, other):
            return True

        def __call__(self, step):
            return self.rate / (1 + step)

    schedule = Holder(0.1)
    one = D.langevin(schedule)
    assert one == one
    assert one != D.langevin(Holder(0.2))
    model = ewsg.Posterior(lambda p, x: -jnp.sum((x - p) ** 2) * schedule(0), lambda p: 0.0)
    made = ewsg.kernel(one, G.full(model))
    assert np.isfinite(
        ewsg.sample(jax.random.key(0), made, jnp.zeros(1), jnp.ones((3, 1)), 3).position
    ).all()


# Printed as the call that makes it.


@pytest.mark.usual_parameters("ld", "ewsg_ld", "hamcmc", "svrg_hmc")
@pytest.mark.parametrize("name", [n for n in ewsg.METHODS if n not in ("sgrld", "cp_sghmc")])
def test_the_text_of_a_kernel_makes_it_again(name):
    made = kernel(name)
    assert eval(repr(made), NAMES) == made
    assert "\n" not in repr(made)


@pytest.mark.parametrize(
    "text",
    [
        "langevin(step_size=0.001, temperature=1.0)",
        "langevin(step_size=0.001, temperature=1.0, noise='rademacher')",
        "splitting(step_size=0.1, friction=2.0, temperature=0.5)",
        "palindrome(step_size=0.1, friction=2.0, temperature=0.5, letters='BAOAB')",
        "noise_corrected(step_size=0.1, friction=2.0, temperature=1.0, integrator='euler')",
        "svrg(posterior=normal(prior_scale=2.0), batch_size=2, refresh_every=3, option='I', "
        "rows='epochs')",
        "saga(posterior=normal(prior_scale=2.0), batch_size=2, replace=False)",
        "full(posterior=gaussian_location(noise_scale=0.5, prior_scale=inf))",
        "stratified(posterior=logistic_regression(prior_scale=2.0), batch_size=4, labels='y', "
        "num_strata=2)",
        "exponentially_weighted(estimator=uniform(posterior=normal(prior_scale=2.0), "
        "batch_size=2), chain_length=inf, frozen_noise='one')",
    ],
)
def test_the_text_of_a_part_is_its_call(text):
    assert repr(eval(text, NAMES)) == text


def test_two_names_of_an_argument_make_equal_kernels():
    model = MODELS["logistic_regression"]()
    for build in (ewsg.ewsg, ewsg.ewsg_vr):
        kernels = [
            build(model, 0.1, friction=1.0, batch_size=2, **options)
            for options in ({"num_proposals": 3}, {"chain_length": 3})
        ]
        assert kernels[0] == kernels[1]
        assert repr(kernels[0]) == repr(kernels[1])
        assert kernels[0].estimator.num_proposals == 3
    nc = functools.partial(ewsg.nc_sghmc, model, 0.1, friction=1.0, batch_size=2)
    assert nc(covariance="periodic") == nc(covariance="kept") != nc()
    assert G.kept_covariance is G.periodic_covariance


def test_texts_of_what_has_no_call():
    assert repr(D.langevin(halved)) == "langevin(step_size=halved, temperature=1.0)"
    assert repr(D.langevin(jnp.float32(0.5))) == "langevin(step_size=0.5, temperature=1.0)"
    centred = G.control_variate(MODELS["normal"](), batch_size=2, center=jnp.zeros(2))
    assert "center=<float32[2]>" in repr(centred)
    trees = {
        "{'b': [<float32[1]>, (0.5,)], 'w': <float32[2]>}": {
            "b": [jnp.zeros(1), (0.5,)],
            "w": jnp.zeros(2),
        },
        "(<float32[2]>,)": (jnp.zeros(2),),
        "<list of 40 arrays>": [jnp.zeros(2)] * 40,
        "<Dense of 2 arrays>": Dense(jnp.zeros((2, 3)), jnp.zeros(2)),
    }
    for shown, center in trees.items():
        assert f"center={shown})" in repr(
            G.control_variate(MODELS["normal"](), batch_size=2, center=center)
        )
    traced = []
    jax.jit(lambda h: traced.append(repr(D.langevin(h))))(0.1)
    assert traced == ["langevin(step_size=<traced float32[]>, temperature=1.0)"]
    posterior = ewsg.Posterior(labels, halved)
    assert repr(posterior) == "Posterior(labels, halved)"


# Stored.


@pytest.mark.usual_parameters("ld", "ewsg_ld", "hamcmc", "svrg_hmc")
@pytest.mark.parametrize("name", ewsg.METHODS)
def test_kernels_are_pickled_and_copied(name):
    made = kernel(name)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again == made
        assert repr(again) == repr(made)
    made.check(jnp.asarray(contract.POSITION, jnp.float32), contract.data(jnp.float32))
    assert pickle.loads(pickle.dumps(made)) == made


# One program for all values.


@pytest.mark.usual_parameters("ld", "ewsg_ld", "hamcmc", "svrg_hmc")
@pytest.mark.parametrize("name", ewsg.METHODS)
def test_numbers_are_leaves(name):
    """For any numbers a kernel has one structure: nothing is compiled for it again."""
    accepted = inspect.signature(ewsg.METHODS[name].build).parameters
    numbers = {
        "friction": 3.0,
        "temperature": 0.5,
        "inverse_mass": 1.0,
        "damping": 0.2,
        "decay": 0.5,
    }
    numbers |= {"trust_region": 2.0, "initial_scale": 3.0, "curvature_threshold": 0.1}
    other = kernel(name, step_size=0.01, **{k: v for k, v in numbers.items() if k in accepted})
    assert jax.tree.structure(other) == jax.tree.structure(kernel(name))
    assert jax.tree.map(jnp.result_type, other) == jax.tree.map(jnp.result_type, kernel(name))


def test_a_second_step_size_and_a_second_equal_model_compile_nothing():
    data, key = contract.data(jnp.float32), jax.random.key(0)
    position = jnp.asarray(contract.POSITION, jnp.float32)
    compiled_loop.advance_small.clear_cache()
    found = []
    for step_size in (0.01, 0.02, 0.03):
        made = ewsg.svrg_ld(
            ewsg.models.logistic_regression(prior_scale=2.0), step_size, batch_size=2
        )
        found.append(ewsg.sample(key, made, position, data, 5).position)
        assert compiled_loop.advance_small._cache_size() == 1
    assert not np.allclose(found[0], found[1])
    ewsg.sample(
        key, ewsg.svrg_ld(ewsg.models.logistic_regression(), 0.01, batch_size=2), position, data, 5
    )
    assert compiled_loop.advance_small._cache_size() == 2, "another prior is another program"


@pytest.mark.full
def test_the_derivative_by_a_step_size(x64):
    data, key = contract.data(), jax.random.key(2)
    state = kernel("sghmc").init(key, jnp.asarray(contract.POSITION), data)
    randomness = kernel("sghmc").draw(key, state, data)

    def moved(h):
        return kernel("sghmc", step_size=h).transition(randomness, state, data)[0].position

    h, small = 0.05, 1e-6
    derivative = jax.jacfwd(moved)(h)
    np.testing.assert_allclose(
        derivative, (moved(h + small) - moved(h - small)) / (2 * small), rtol=1e-6
    )


# What is public.


def test_only_public_names_are_listed():
    hidden = [
        name
        for name in dir(ewsg)
        if inspect.ismodule(getattr(ewsg, name)) and name not in PUBLIC_ROOMS
    ]
    assert hidden == []
    assert not [name for name in dir(ewsg) if name.startswith("_") and name != "__version__"]
    assert set(ewsg.METHODS) < set(dir(ewsg))
    for name in dir(ewsg):
        getattr(ewsg, name)


PUBLIC_ROOMS = {
    "bijectors",
    "bounds",
    "bridges",
    "datasets",
    "diagnostics",
    "dynamics",
    "gradients",
    "models",
    "networks",
    "rows",
}


@pytest.mark.parametrize(
    "kind",
    [
        ewsg.Kernel,
        D.Dynamics,
        G.GradientEstimator,
        ewsg.bounds.Bound,
        ewsg.bijectors.Bijector,
        ewsg.rows.RowLaw,
    ],
)
def test_every_function_of_a_base_class_says_what_it_does(kind):
    """The classes that fill them in have the same words."""
    # Other tests and documents make parts of their own.
    kinds = [
        cls for cls in (kind, *kind.__subclasses__()) if cls.__module__.startswith("ewsg_jax.")
    ]
    for cls in kinds:
        for name, member in inspect.getmembers(cls):
            if not name.startswith("_") and (
                inspect.isfunction(member) or isinstance(member, property)
            ):
                assert inspect.getdoc(member), f"{cls.__name__}.{name}"


# The trees themselves.


def test_structures_of_other_classes_are_others():
    """As `register_dataclass` of jax 0.10 and 0.12 would not: a program might be mistaken."""

    @module
    class Plus(Part):
        number: float

        def __call__(self, x):
            return x + self.number

    @module
    class Times(Plus):
        def __call__(self, x):
            return x * self.number

    plus, times = Plus(number=3.0), Times(number=3.0)
    assert jax.tree.structure(plus) != jax.tree.structure(times)
    assert plus != times
    called = jax.jit(lambda part, x: part(x))
    assert [float(called(part, 5.0)) for part in (plus, times, plus)] == [8.0, 15.0, 8.0]


def test_a_step_checks_in_full_only_what_init_has_not_checked():
    """A state of another kernel or process is checked, and keeps what it was checked for."""
    data, key = jnp.ones((6, 2)), jax.random.key(0)
    kernel = ewsg.sghmc(MODELS["gaussian_location"](), 0.1, friction=1.0, batch_size=2)
    other = ewsg.sghmc(
        MODELS["gaussian_location"](), lambda step: 0.1 / (1 + step), friction=1.0, batch_size=2
    )
    first = kernel.init(key, jnp.zeros(2), data)
    assert kernel.step(key, first, data)[0].rows is first.rows
    for state in (pickle.loads(pickle.dumps(first)), other.init(key, jnp.zeros(2), data)):
        assert jax.tree.structure(state) == jax.tree.structure(first)
        after, _ = kernel.step(key, state, data)
        assert after.rows is not state.rows
        assert after.rows.signature == first.rows.signature
        assert kernel.step(key, after, data)[0].rows is after.rows
    # Data of NumPy may have changed since.
    assert kernel.step(key, first, np.ones((6, 2), np.float32))[0].rows.signature is None
    with pytest.raises(ValueError, match="all 6 rows that init saw; got 5"):
        kernel.step(key, first, data[:5])


def test_a_kernel_made_under_vmap_is_refused_by_its_own_first_state():
    data, key = jnp.ones((6, 2)), jax.random.key(0)
    batched = jax.vmap(lambda h: ewsg.sgld(MODELS["gaussian_location"](), h, batch_size=2))(
        jnp.array([0.1, 0.2])
    )
    with pytest.raises(ValueError, match="kernel must be of one step_size, or a stack"):
        batched.step(key, batched.init(key, jnp.zeros(2), data), data)
