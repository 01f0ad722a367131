"""From a network and rows to predictions with intervals, in one call."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.leaves import Filter, named_leaves
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.networks._chains import NOT_MEASURED, Chains
from ewsg_jax.networks._ensemble import ensemble as as_ensemble
from ewsg_jax.networks._leaves import has_state
from ewsg_jax.networks._likelihood_size import odd_size
from ewsg_jax.networks._likelihoods import Likelihood, likelihood_of
from ewsg_jax.networks._model import NetworkModel
from ewsg_jax.networks._modules import carries_statistics
from ewsg_jax.networks._posterior import checked_rows, posterior, takes_key
from ewsg_jax.networks._priors import Prior
from ewsg_jax.networks._result import FitReport, FittedNetwork
from ewsg_jax.networks._train import Trained, stacked, starts, trained_starts
from ewsg_jax.networks._units import standardised


def fit(
    key: Key,
    apply: Callable[..., Any],
    params: PyTree | Callable[[Key], PyTree],
    data: Data,
    *,
    likelihood: str | Likelihood | Callable[[Array, Data], Array],
    prior: Prior = 1.0,
    temperature: float = 1.0,
    sampled: Filter | None = None,
    fixed: Filter | None = None,
    seconds: float = 60.0,
    num_members: int = 10,
    trained: Sequence[PyTree] | None = None,
    standardise: bool | None = None,
) -> FittedNetwork:
    """Fit a Bayesian neural network: train an ensemble, run a chain from each network, and judge
    the draws.

    Networks are trained side by side by Adam, each kept at the epoch that fits a held-out tenth of
    the rows best. Chains start from there on all rows, with the prior's variances as inverse mass.
    If there is time for a thousand steps of full gradients, they move by
    `dynamics.microcanonical`, the step found by the variance of its energy error at the ensemble
    and again at draws, and a shorter one when chains agree; else, and for a network with a key, by
    `sghmc` on minibatches, the step found by the curvature. The run ends when R-hat of predictions
    is below 1.01, or when the time is up. An interrupt (Ctrl-C), and an error while chains run, end
    it early, with what it has.

    The step is changed in the first half of the time alone, whose draws are left out.
    `print(fit.report)` says what was chosen, what the draws are worth and what cannot be known.

    Args:
        key: a typed PRNG key.
        apply: as for `ewsg_jax.networks.posterior`.
        params: as there; the other networks start with the numbers of each leaf in another order.
            Or a function of a key that returns parameters, which is called for each network.
        data: the rows {"x": inputs, "y": observations}.
        likelihood: as there.
        prior: as there. Default: N(0, 1) for each number.
        temperature: T of the distribution exp(−V/T) that is sampled, V the negative log posterior.
            Default: 1, the posterior. A T below 1, such as 0.1, gives other intervals, which are
            no posterior's: judge them by held-out rows.
        sampled: as there, by default all that are not fixed. The other leaves are trained first,
            in one network that all chains share.
        fixed: as there, by default none.
        seconds: about how long the call takes, compiling included, in seconds; chains have at
            least a quarter of it. Default: 60.
        num_members: how many networks are trained, at least 2; each starts a chain. Default: 10.
        trained: parameters of at least 2 trained networks, which are not trained again; `params` is
            then one of them, for its structure. What is not sampled is the same in all of them.
            Default: none.
        standardise: whether the network reads inputs minus their mean over rows, over their
            standard deviation, and says of a normal observation the same. A table has one for each
            column, images and sequences one for all numbers; whole numbers stay. Predictions,
            scores and `model` are in units of `data` all the same. Default: yes, unless networks
            were trained before: with `trained`, `fixed` or batch statistics.

    Returns:
        The fit.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the message names it.
        KeyboardInterrupt: it was interrupted before a first epoch of training. Afterwards `samples`
            are the networks as far as they are trained, until there are draws of chains.

    References:
        E. Sommer, J. Robnik, G. Nozadze, U. Seljak and D. Rügamer, Microcanonical Langevin
            ensembles: advancing the sampling of Bayesian neural networks, ICLR 2025.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jnp.linspace(-2.0, 2.0, 50)[:, None]
        >>> data = {"x": x, "y": jnp.sin(2 * x[:, 0])}
        >>> def init(key):
        ...     a, b = jax.random.split(key)
        ...     return {"in": jax.random.normal(a, (1, 8)), "out": jax.random.normal(b, (8,))}
        >>> def apply(params, x):
        ...     return jnp.tanh(x @ params["in"]) @ params["out"]
        >>> fit = ewsg.networks.fit(
        ...     jax.random.key(0), apply, init, data, likelihood="normal", seconds=6.0
        ... )
        >>> low, high = fit.interval(x, 0.9)
        >>> bool(((low < data["y"]) & (data["y"] < high)).mean() > 0.8)
        True
    """
    began = time.perf_counter()
    checks.key(key)
    checks.positive("seconds", seconds)
    checks.positive("temperature", temperature)
    of_starts, of_training, of_run = jax.random.split(key, 3)
    if trained is None:
        members = starts(of_starts, params, _checked_count(num_members))
    else:
        members = _checked_trained(trained)
    count = len(members)

    # The network that is sampled reads and returns standardised numbers, unless told otherwise.
    rows = checked_rows(data)
    if standardise is None:
        carries = has_state(members[0]) or carries_statistics(apply)
        standardise = trained is None and fixed is None and not carries
    if checks.boolean("standardise", standardise):
        checks.function("apply", apply, "(params, x) -> output")
        checks.finite("data", rows)
        takes = takes_key("apply", apply)
        apply, likelihood = standardised(apply, takes, likelihood_of(likelihood), rows)
    model = posterior(
        apply,
        members[0],
        rows,
        likelihood=likelihood,
        prior=prior,
        sampled=sampled,
        fixed=fixed,
    ).side_by_side()
    rows = jax.tree.map(jnp.asarray, rows)

    def chains_of(model: NetworkModel) -> Chains:
        return Chains(
            of_run,
            model,
            rows,
            count,
            deadline=began + seconds,
            least_seconds=seconds / 4,
            temperature=temperature,
        )

    # Networks are trained while a thread compiles their chains; those of which a part is trained
    # once and shared have other chains afterwards.
    chains = chains_of(model)
    if trained is not None:
        _check_carried(members, model.roles)
        ensemble = stacked([model.with_params(one).position for one in members])
        record = Trained(ensemble, 0, np.full(count, np.nan))
    elif "trained" in model.roles.values():
        model, ensemble, record = trained_starts(of_training, model, members, rows, seconds / 6)
        chains = chains_of(model)
    else:
        chains.compile_ahead()
        model, ensemble, record = trained_starts(of_training, model, members, rows, seconds / 6)
    if not model.takes_key and model.likelihood.check is None:
        # Untrained weights may hide that a likelihood of one's own is a mean over rows.
        for finding in odd_size(model._assembly, jax.tree.map(lambda x: x[0], ensemble), rows):
            warn(f"{finding.text}: {finding.cure}", UserWarning)

    # What was reached is kept: without a round, the trained networks are what there is.
    trained_at = tuned_at = time.perf_counter()
    worth = NOT_MEASURED
    if record.is_interrupted:
        chains.stopped = "an interrupt"
    else:
        with chains.ended_early():
            chains.start(ensemble)
            tuned_at = time.perf_counter()
            chains.run()
        with chains.ended_early():
            worth = chains.worth()
        if chains.error:
            warn(chains.error)
    times = {
        "train": trained_at - began,
        "tune": tuned_at - trained_at,
        "sample": time.perf_counter() - tuned_at,
    }
    samples, num_diverged = as_ensemble(ensemble, stacked=True), 0
    if chains.rounds:
        samples = chains.samples()
        num_diverged = int(np.count_nonzero(~samples.is_finite))
    skipped, worst = chains.burn_in()
    report = FitReport(
        dynamics=chains.description,
        batch_size=chains.batch_size,
        num_members=count,
        epochs=record.epochs,
        trained_log_score=float(np.mean(record.log_score)),
        num_steps=sum(one.num_steps for one in chains.rounds),
        burn_in=sum(one.num_steps for one in chains.rounds[:skipped]),
        num_draws=(count - num_diverged) * samples.num_draws,
        rhat=worst,
        temperature=worth.temperature[0],
        temperature_error=worth.temperature[1],
        halved_change=worth.halved_change[0],
        halved_error=worth.halved_change[1],
        seconds=times,
        stopped=chains.stopped,
        standardised=standardise,
        sampled_temperature=temperature,
        num_diverged=num_diverged,
    )
    row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows["x"])
    return FittedNetwork(model, samples, row, ensemble, report)


def _checked_count(num_members: Any) -> int:
    if num_members == 1:
        raise ValueError(
            "num_members must be at least 2, because whether chains agree is known from several; "
            "got 1"
        )
    return checks.integer("num_members", num_members, minimum=2)


def _check_carried(members: list[PyTree], roles: dict[str, str]) -> None:
    """Raise ValueError if trained networks differ in leaves that are not sampled."""
    first = dict(named_leaves(members[0]))
    for number, member in enumerate(members[1:], 1):
        for name, leaf in named_leaves(member):
            if roles.get(name) != "sampled" and not np.array_equal(leaf, first[name]):
                raise ValueError(
                    "trained must have networks that are alike in what is not sampled, because "
                    f"chains share it; trained[{number}] and trained[0] differ in {name!r}"
                )


def _checked_trained(trained: Any) -> list[PyTree]:
    takes = "trained must be a list of the parameters of at least 2 networks"
    if not isinstance(trained, list | tuple):
        raise TypeError(f"{takes}; got {checks.describe(trained)}")
    if len(trained) < 2:
        raise ValueError(f"{takes}, because whether chains agree is known from several; got 1")
    for number, one in enumerate(trained):
        checks.finite(f"trained[{number}]", jax.tree.map(jnp.asarray, one))
    return list(trained)
