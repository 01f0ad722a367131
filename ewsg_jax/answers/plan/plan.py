"""How to sample a posterior: which kernel, from where, how long; and whether a chain is needed at
all.
"""

import time
import warnings
from collections.abc import Collection, Mapping
from typing import Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ewsg_jax.answers.mode.find_mode import find_mode
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.potential import is_newton_quick
from ewsg_jax.answers.plan.candidates import plannable, ways
from ewsg_jax.answers.plan.gaussian import NoGradientError
from ewsg_jax.answers.plan.precompile import compile_ahead
from ewsg_jax.answers.plan.result import Plan, enough
from ewsg_jax.answers.plan.run_size import Wanted
from ewsg_jax.answers.plan.search import NothingFitsError, Search
from ewsg_jax.answers.plan.whitening import Frame, NoWidthsError
from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.memory import free_on_the_host
from ewsg_jax.base.progress import Clock
from ewsg_jax.base.typing import Data, Key, P
from ewsg_jax.base.warn import warn
from ewsg_jax.model_checks.gradient import wrong_gradient_at
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows import _spread as spread

FEWEST_PASSES, FEWEST_ROWS = 2_000.0, 4e6
"""What each chain of a trial may take unless it is said: passes, or rows where these are more."""
NEWTON_STEPS, STEPS = 60, 500
"""Of the search for a mode, at most: by Newton's method from the start, whose steps are as many
passes as there are parameters, and else. Seven models with a mode took up to 29; on its way to a
scale of 0, where there is none, it takes hundreds, and chains warm up without a mode.
"""
PART_OF_MEMORY = 4
"""Of what is free: chains' states may take one part in four."""


@reads_now("posterior")
def plan(
    key: Key,
    posterior: Posterior[P],
    position: P,
    data: Data,
    *,
    tolerance: float = 0.05,
    num_chains: int = 8,
    mode: Mode[P] | None = None,
    methods: Collection[str] | None = None,
    batch_size: int | None = None,
    memory_limit: int | None = None,
    max_passes: float | None = None,
    by: Literal["rows", "passes", "seconds"] = "rows",
    mesh: Mesh | None = None,
    check_data: bool = True,
    progress: bool = True,
) -> Plan:
    """Choose a kernel, its start and the length of a run, so that means and sds are right at the
    least cost.

    It finds the mode and judges the normal approximation there. Where that is right after
    correction, `plan.gaussian` is an answer without a chain. Then it predicts what each dynamics
    with each estimator would do, for each batch and step: its bias by the scheme and by the noise
    of batches, and its autocorrelation. Steps stay below what the steepest curvature allows that
    chains meet. Where the posterior is not near normal, or has no mode, chains warm up in windows,
    whose draws and gradients give a metric; then short runs are made, and `ewsg_jax.check` judges
    them until one is right.

    Args:
        key: a typed PRNG key.
        posterior: what is to be sampled.
        position: where the search for its mode begins, a tree of floating-point arrays; it is
            planned, and to be run, at least in float32.
        data: all n rows.
        tolerance: how far off, relatively, a standard deviation may be, chance included; a mean
            twice as many of them.
        num_chains: of the run.
        mode: what `find_mode` returned; None: it is searched for.
        methods: names of those that may be taken; None: splitting, BAOAB, Langevin, semi-implicit
            and exact dynamics with full, control-variate, SVRG, SAGA and uniform estimates.
        batch_size: rows of a step, at most n; None: what costs least.
        memory_limit: bytes that the states of all chains may take; None: a quarter of what is free.
        max_passes: over the data, of each chain of a trial, at most. Default: 2,000, or four
            million evaluations of a row where that is more.
        by: what a run costs: `"rows"` evaluated, and 64 more for each step; `"passes"`, rows alone,
            as where a row takes much more than a step; or `"seconds"`: the best candidate of each
            estimator is run for some steps on this machine (or mesh), a program for each, and the
            quickest is taken.
        mesh: several devices, as of `ewsg_jax.sample`, by which the plan is made and is to be run:
            along `"data"` each has a part of the rows and its share of every batch, whose size they
            divide; rows by leverage are then left out.
        check_data: look once for NaN and infinity in the data, and for labels that the model does
            not know; False where the likelihood masks what is missing.
        progress: say on a terminal what is under way, and for how long.

    Returns:
        The plan: `sample(key, plan.kernel, plan.start, data,
        data_passes=plan.data_passes(ess=1_000), num_chains=8, burn_in=plan.burn_in)` carries it
        out. Where nothing shows that the kernel is right `plan.is_trusted` is False and
        `plan.doubts` say why; it is warned of (RuntimeWarning).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; nothing that is allowed
            fits; no mode is found, and at the position the gradient is not that of the density.
        KeyboardInterrupt: one of its runs was interrupted (Ctrl-C).

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jax.random.normal(jax.random.key(0), (400, 2))
        >>> plan = ewsg.plan(
        ...     jax.random.key(1), ewsg.models.gaussian_location(), jnp.zeros(2), {"x": x}["x"]
        ... )
        >>> plan.gaussian.is_right, plan.report is None
        (True, True)
        >>> samples = ewsg.sample(
        ...     jax.random.key(2),
        ...     plan.kernel,
        ...     plan.start,
        ...     x,
        ...     data_passes=plan.data_passes(ess=1_000),
        ...     num_chains=8,
        ...     burn_in=plan.burn_in,
        ... )
        >>> bool(jnp.allclose(samples.sd, 400**-0.5, rtol=0.1))
        True
    """
    options = {"tolerance": tolerance} | ({} if max_passes is None else {"max_passes": max_passes})
    _check_on_host({"key": key, "position": position, "data": data, "mode": mode} | options)
    checks.key(key)
    check_posterior(posterior)
    position = checks.position(position)
    checks.not_empty("position", position)
    checks.finite("position", position)
    n = checks.data(data)
    checks.boolean("check_data", check_data)
    checks.boolean("progress", progress)
    if check_data:
        checks.finite("data", data)
    given, data, parts = data, spread.over(mesh, data), 1
    if isinstance(data, spread.Spread):
        parts, given = data.mesh.shape[spread.DATA], jax.tree.map(spread.on_host, given)
    else:
        given = data = jax.tree.map(jnp.asarray, data)
    posterior.check(position, data if check_data else checks.shapes(data))
    posterior.check_gradient(position, data)
    for name, value in options.items():
        checks.positive(name, value)
    checks.decay("tolerance", tolerance)
    checks.integer("num_chains", num_chains)
    if mode is not None:
        checks.instance("mode", mode, Mode, "made by ewsg_jax.find_mode")
        checks.same_tree(
            "mode must be of these positions", "mode.position", mode.position, position
        )
        checks.finite("mode.position", mode.position)
        mode = mode._replace(position=pytrees.widened(mode.position))
    checks.one_of("by", by, ("rows", "passes", "seconds"))
    if methods is not None:
        _check_methods(methods)
    if batch_size is not None:
        checks.integer("batch_size", batch_size, maximum=n)
        if batch_size % parts:
            raise ValueError(
                f"batch_size must be a multiple of {parts}, the parts into which mesh cuts the "
                f"rows, for each has its share of every batch; got {batch_size}"
            )
    if memory_limit is not None:
        checks.integer("memory_limit", memory_limit)

    # A half-precision number has fewer digits than a tolerance asks for, once the mode is some
    # widths from 0.
    position = pytrees.widened(position)
    began = time.perf_counter()
    for_mode, for_search = rng.keys_of(key, 2)
    limit = (
        memory_limit
        if memory_limit is not None
        else (free_on_the_host() or 2**32) // PART_OF_MEMORY
    )
    is_restricted = methods is not None or batch_size is not None or by != "rows"
    wanted = Wanted(
        float(tolerance),
        enough(tolerance),
        num_chains,
        batch_size,
        limit,
        by=by,
        parts=parts,
        is_restricted=is_restricted,
    )
    found = ways(posterior, methods, by_leverage=parts == 1)
    of_mode: list[str] = []
    spent = 0.0
    with Clock(progress) as clock, compile_ahead(posterior, position, data, found, wanted) as ahead:
        clock.says("plan: the mode is searched for")
        if mode is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", RuntimeWarning)
                mode = find_mode(
                    for_mode,
                    posterior,
                    position,
                    given,
                    max_steps=NEWTON_STEPS if is_newton_quick(posterior, position, data) else STEPS,
                    progress=False,
                    mesh=mesh,
                    check_data=check_data,
                )
            of_mode = [
                str(each.message) for each in caught if issubclass(each.category, RuntimeWarning)
            ]
            spent = mode.data_passes
            # A search by another gradient fails in many ways, none of which says so.
            if not mode.converged and (wrong := wrong_gradient_at(posterior, position, data)):
                raise ValueError(
                    f"posterior must have the gradient of its density; got one of which "
                    f"no mode is found, and around the position where the search began "
                    f"{wrong[0].text}: {wrong[0].cure}"
                )
        try:
            # What float32 rounds to a matrix that is not positive definite says nothing either.
            at_mode = Frame.at_mode(mode)
            _ = at_mode.factor, at_mode.on_host
            has_widths = True
        except ValueError:
            has_widths = False
        seconds = {"mode": time.perf_counter() - began}
        search = Search(
            posterior,
            data,
            position,
            mode,
            found,
            wanted,
            float(max_passes or max(FEWEST_PASSES, FEWEST_ROWS / n)),
            given,
            mesh,
            names_methods=methods is not None,
            seconds=seconds,
            ahead=ahead,
            clock=clock,
        )
        try:
            ended = (
                search.around_mode(for_search)
                if has_widths
                else search.by_trials(for_search, None, None)
            )
        except (NoGradientError, NothingFitsError, NoWidthsError) as error:
            # Of these there was no way round; what the search for the mode met, if anything, is
            # why.
            raise ValueError(" And ".join([*map(_ended, of_mode), str(error)])) from error
    cost = ended.kernel.evaluations(data)
    told = [
        report.note for report in (ended.gaussian and ended.gaussian.report, ended.report) if report
    ]
    made = Plan(
        kernel=ended.kernel,
        start=ended.start,
        burn_in=ended.burn_in,
        autocorrelation_time=ended.time,
        table=tuple(ended.table),
        gaussian=ended.gaussian,
        mode=mode,
        report=ended.report,
        notes=tuple(of_mode + ended.notes + [note for note in dict.fromkeys(told) if note]),
        tolerance=float(tolerance),
        num_chains=num_chains,
        data_passes_spent=spent + ended.data_passes,
        seconds_spent=seconds | {"all": time.perf_counter() - began},
        cost=cost,
        num_rows=n,
        by=by,
        # What the search for the mode met may be why.
        doubts=(*ended.doubts, *of_mode) if ended.doubts else (),
    )
    if not made.is_trusted:
        doubts = "; ".join(made.doubts)
        warn(f"the plan is not trusted: {_ended(doubts)} What to do: {made.advice}")
    return made


def _ended(text: str) -> str:
    """Return a sentence with a stop, unless it asks."""
    return text if text.endswith((".", "?")) else f"{text}."


def _check_on_host(given: Mapping[str, object]) -> None:
    """Check that nothing is traced: what is planned depends on values."""
    for name, value in given.items():
        if any(map(checks.is_traced, jax.tree.leaves(value))):
            raise TypeError(
                f"{name} must be known: call plan outside of jit, vmap and grad; got a traced one"
            )


def _check_methods(methods: Collection[str]) -> None:
    """Check names of methods that can be planned."""
    checks.texts("methods", methods)
    if not methods:
        raise ValueError(
            "methods must name a method, or be None for all that can be planned; got none"
        )
    for name in methods:
        checks.one_of("methods", name, plannable())
