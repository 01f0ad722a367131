"""NUTS of NumPyro and BlackJAX, and NumPyro's HMCECS, for `answers.py`.

Of regressions eight chains, vectorised, twice: with their own warm-up from zero (dense masses, 300
steps, fewer than either suggests), and from draws of the normal approximation with its covariance
as the mass, where only the step size is left to adapt. Of other models NumPyro's as it comes: 1,000
steps of warm-up, a mass for each number, and one chain, or four vectorised.
"""

import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.answers.case import Case, Data, Regression
from benchmarks.answers.ours import NUM_CHAINS, Answer, Clock, mode_of
from benchmarks.answers.peers import AT_ONCE, Sampler, library, run

WARM_UP, WARM_UP_AT_MODE = 300, 75
OWN_WARM_UP = 1_000
"""NumPyro's own suggestion."""
FEW_ROWS, OFTEN = 100_000, 50
"""Up to so many rows a call of a program is of fifty transitions, for what a call takes itself
would count.
"""
JITTER = 0.1
"""Of where chains start, as of a position's numbers."""
SUBSAMPLE, BLOCKS = 1_000, 100
"""HMCECS: rows of a chain, and the blocks of which one is renewed at each draw; those of NumPyro's
own example.
"""


def _starts(mode: Any, d: int) -> jax.Array:
    if mode is None:
        return jnp.zeros((NUM_CHAINS, d))
    return jax.vmap(lambda key: mode.start(key, 1.0))(
        jax.random.split(jax.random.key(1), NUM_CHAINS)
    )


def near(start: Any, num_chains: int, jitter: float = JITTER) -> Any:
    """Return where chains start: near the start, with an axis of chains where there are several."""
    leaves, tree = jax.tree.flatten(start)
    shape = (num_chains,) if num_chains > 1 else ()
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [
        x + jitter * jax.random.normal(key, shape + x.shape)
        for x, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def _regression(case: Regression, subsample: int | None = None) -> Any:
    numpyro, law = library("numpyro"), library("numpyro.distributions")

    def model(x: Any, y: Any) -> None:
        weights = numpyro.sample("weights", law.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
        with numpyro.plate("rows", len(x), subsample_size=subsample):
            if subsample is not None:
                x, y = numpyro.subsample(x, event_dim=1), numpyro.subsample(y, event_dim=0)
            fitted = x @ weights
            numpyro.sample(
                "y",
                law.Normal(fitted, 1.0) if case.is_linear else law.Bernoulli(logits=fitted),
                obs=y,
            )

    return model


def _density(case: Case) -> Any:
    """Return a model whose density is the case's, with the rows as an argument."""
    numpyro, law = library("numpyro"), library("numpyro.distributions")

    def model(rows: Any) -> None:
        free = {
            name: numpyro.sample(name, law.ImproperUniform(law.constraints.real, (), x.shape))
            for name, x in case.start.items()
        }
        numpyro.factor("density", case.log_density(free, rows))

    return model


class Setting(NamedTuple):
    """How NumPyro's NUTS is run.

    Attributes:
        kernel: the sampler.
        rows: arguments of its model.
        start: of all chains.
        num_chains: vectorised where there are several.
        warm_up: steps.
        at_once: transitions of one call of its program.
    """

    kernel: Any
    rows: tuple[Any, ...]
    start: dict[str, Any]
    num_chains: int
    warm_up: int
    at_once: int = AT_ONCE


def _numpyro(case: Case, setting: Setting, clock: Clock, limit: float, passes: float) -> Answer:
    """Run NumPyro's NUTS; the data are an argument of its program."""
    kernel, rows, is_one = setting.kernel, setting.rows, setting.num_chains == 1
    key = jax.random.key(2)
    keys = key if is_one else jax.random.split(key, setting.num_chains)
    state = kernel.init(keys, setting.warm_up, setting.start, rows, {})

    @jax.jit
    def advance(state: Any, rows: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, rows, {})
            return state, (state.z, state.num_steps)

        state, told = jax.lax.scan(step, state, None, setting.at_once)
        return state, jax.tree.map(lambda x: x[:, None], told) if is_one else told

    def warm(state: Any, piece: int) -> Any:
        state, (_, counts) = advance(state, rows)
        return state, counts

    def draw(state: Any) -> Any:
        state, (positions, counts) = advance(state, rows)
        return state, case.summary(positions), counts

    sampler = Sampler(
        state,
        warm,
        lambda state: state,
        draw,
        passes,
        num_chains=setting.num_chains,
        at_once=setting.at_once,
    )
    return run(sampler, clock, limit, setting.warm_up)


def numpyro_nuts(
    case: Regression, data: Data, limit: float, at_mode: bool = False
) -> dict[str, Answer]:
    """NumPyro's NUTS of a regression."""
    clock = Clock()
    mode = mode_of(case, data) if at_mode else None
    given: dict[str, Any] = {}
    if mode is not None:
        clock.tick("mode")
        given = {
            "inverse_mass_matrix": {("weights",): jnp.asarray(mode.covariance)},
            "adapt_mass_matrix": False,
        }
    kernel = library("numpyro.infer").NUTS(_regression(case), dense_mass=True, **given)
    start = {"weights": _starts(mode, data["x"].shape[1])}
    warm_up = WARM_UP_AT_MODE if at_mode else WARM_UP
    setting = Setting(kernel, (data["x"], data["y"]), start, NUM_CHAINS, warm_up)
    before = 0.0 if mode is None else mode.data_passes
    return {_named("NumPyro NUTS", at_mode): _numpyro(case, setting, clock, limit, before)}


def as_it_comes(num_chains: int) -> str:
    """Return the name of the answer."""
    return "NumPyro NUTS, one chain" if num_chains == 1 else f"NumPyro NUTS, {num_chains} chains"


def numpyro_as_it_comes(
    case: Case, data: Data, limit: float, num_chains: int = 1
) -> dict[str, Answer]:
    """NumPyro's NUTS with its own settings, of a model's log density."""
    clock = Clock()
    kernel = library("numpyro.infer").NUTS(_density(case))
    at_once = OFTEN if len(data["y"]) <= FEW_ROWS else AT_ONCE
    setting = Setting(
        kernel, (data,), near(case.start, num_chains), num_chains, OWN_WARM_UP, at_once
    )
    return {as_it_comes(num_chains): _numpyro(case, setting, clock, limit, 0.0)}


def blackjax_nuts(
    case: Regression, data: Data, limit: float, at_mode: bool = False
) -> dict[str, Answer]:
    """BlackJAX's NUTS, its window adaptation step by step so that it ends in time; the data are an
    argument.
    """
    nuts, windows = library("blackjax.mcmc.nuts"), library("blackjax.adaptation.window_adaptation")
    clock = Clock()
    mode = mode_of(case, data) if at_mode else None
    warm_up = WARM_UP_AT_MODE if at_mode else WARM_UP
    if mode is None:
        mass, schedule = None, jnp.asarray(windows.build_schedule(warm_up))
    else:
        clock.tick("mode")
        mass, schedule = (
            jnp.asarray(mode.covariance),
            jnp.zeros((warm_up, 2), int),
        )  # the step size alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        begin, update, final = windows.base(False, initial_inverse_mass_matrix=mass)
    kernel, density = nuts.build_kernel(), case.log_density

    def move(key: jax.Array, state: Any, step_size: Any, inverse_mass: Any, data: Data) -> Any:
        return kernel(key, state, lambda x: density(x, data), step_size, inverse_mass)

    @jax.jit
    def warm_some(state: Any, keys: jax.Array, stages: jax.Array, data: Data) -> Any:
        def step(state: Any, given: Any) -> Any:
            def of_chain(key: jax.Array, chain: Any, adapted: Any) -> Any:
                chain, info = move(key, chain, adapted.step_size, adapted.inverse_mass_matrix, data)
                stage = given[1][0], given[1][1] == 1
                return chain, update(adapted, stage, chain.position, info.acceptance_rate), info

            chains, adapted, info = jax.vmap(of_chain)(
                jax.random.split(given[0], NUM_CHAINS), *state
            )
            return (chains, adapted), info.num_integration_steps

        return jax.lax.scan(step, state, (keys, stages))

    @jax.jit
    def draw_some(state: Any, keys: jax.Array, data: Data) -> Any:
        chains, adapted = state
        step_size, mass = jax.vmap(final)(adapted)
        moved = jax.vmap(move, (0, 0, 0, 0, None))

        def step(chains: Any, key: jax.Array) -> Any:
            chains, info = moved(jax.random.split(key, NUM_CHAINS), chains, step_size, mass, data)
            return chains, (chains.position, info.num_integration_steps)

        chains, told = jax.lax.scan(step, chains, keys)
        return (chains, adapted), told

    keys = iter(jax.random.split(jax.random.key(3), 10_000))
    start = _starts(mode, data["x"].shape[1])
    init = jax.jit(jax.vmap(lambda x, data: nuts.init(x, lambda at: density(at, data)), (0, None)))
    chains = init(start, data)
    state = chains, jax.vmap(lambda x: begin(x, 1.0))(start)

    def warm(state: Any, piece: int) -> Any:
        stages = schedule[piece * AT_ONCE : (piece + 1) * AT_ONCE]
        return warm_some(state, jax.random.split(next(keys), AT_ONCE), stages, data)

    def draw(state: Any) -> Any:
        state, (positions, counts) = draw_some(state, jax.random.split(next(keys), AT_ONCE), data)
        return state, positions, counts

    before = 0.0 if mode is None else mode.data_passes
    sampler = Sampler(state, warm, lambda state: state, draw, passes=before)
    return {_named("BlackJAX NUTS", at_mode): run(sampler, clock, limit, warm_up)}


def hmcecs(case: Regression, data: Data, limit: float) -> dict[str, Answer]:
    """NumPyro's HMCECS around NUTS, its Taylor proxy and its mass at the mode; its proxy holds the
    data.
    """
    infer = library("numpyro.infer")
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    covariance = jnp.asarray(mode.covariance)
    inner = infer.NUTS(
        _regression(case, SUBSAMPLE),
        dense_mass=True,
        inverse_mass_matrix={("weights",): covariance},
        adapt_mass_matrix=False,
        init_strategy=infer.init_to_value(values={"weights": mode.position}),
    )
    proxy = infer.HMCECS.taylor_proxy({"weights": mode.position})
    kernel = infer.HMCECS(inner, num_blocks=BLOCKS, proxy=proxy)
    rows = data["x"], data["y"]
    keys = jax.random.split(jax.random.key(2), NUM_CHAINS)
    state = jax.vmap(lambda key: kernel.init(key, WARM_UP_AT_MODE, None, rows, {}))(keys)

    @jax.jit
    def advance(state: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = jax.vmap(lambda one: kernel.sample(one, rows, {}))(state)
            return state, (state.z["weights"], state.hmc_state.num_steps)

        return jax.lax.scan(step, state, None, AT_ONCE)

    def warm(state: Any, piece: int) -> Any:
        state, (_, counts) = advance(state)
        return state, counts

    def draw(state: Any) -> Any:
        state, (positions, counts) = advance(state)
        return state, positions, counts

    share = SUBSAMPLE / len(rows[1])
    sampler = Sampler(
        state,
        warm,
        lambda state: state,
        draw,
        passes=mode.data_passes
        + 3,  # the likelihood, its gradient and its curvature at the mode, all rows
        passes_of_gradient=share,
        passes_of_draw=(2 + 1 / BLOCKS)
        * share,  # the new block, and both blocks' rows before and after
    )
    return {"NumPyro HMCECS": run(sampler, clock, limit, WARM_UP_AT_MODE)}


def _named(name: str, at_mode: bool) -> str:
    return f"{name}, mass of the mode" if at_mode else name


numpyro_nuts_at_mode = functools.partial(numpyro_nuts, at_mode=True)
blackjax_nuts_at_mode = functools.partial(blackjax_nuts, at_mode=True)
