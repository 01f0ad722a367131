"""From a network, its parameters and rows to a target of sampling."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, numeric, tracing
from ewsg_jax.base.leaves import Filter, chosen, shown
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.gradients import random_likelihood
from ewsg_jax.model_checks.ignored_arrays import unread, without_effect
from ewsg_jax.networks._leaves import check_params, is_state
from ewsg_jax.networks._likelihood_size import odd_size
from ewsg_jax.networks._likelihoods import Likelihood, for_output, likelihood_of
from ewsg_jax.networks._model import Assembly, KeyUse, NetworkModel
from ewsg_jax.networks._priors import Prior, log_prior_of, priors_of
from ewsg_jax.networks._rows_last import has_convolutions
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import Rows, view

_TAKES_DATA = 'data must be a dictionary of rows {"x": inputs, "y": observations}'
_IN_TRAINING = (
    "a network in training mode (dropout, batch normalisation) must be given in evaluation mode: "
    "deterministic=True and use_running_average=True in Flax, module.eval() in nnx, "
    "equinox.nn.inference_mode(module); for dropout that is meant, apply(params, x, key)"
)

_OF_MODULES = {
    "flax.linen": "of flax.linen give module.apply and its variables, or lambda params, x: "
    'module.apply({"params": params}, x)',
    "flax.nnx": "of a module of flax.nnx take apply, params = networks.from_nnx(module)",
    "equinox": "of an Equinox module take apply, params = networks.from_equinox(module)",
}
"""What to give of a module of another package."""


def posterior(
    apply: Callable[..., Any],
    params: PyTree,
    data: Data,
    *,
    likelihood: str | Likelihood | Callable[..., Array],
    prior: Prior = 1.0,
    sampled: Filter | None = None,
    fixed: Filter | None = None,
    check_data: bool = True,
) -> NetworkModel:
    """Make a target of sampling of a network: its posterior over all or some parameters.

    Args:
        apply: `apply(params, x)`, the network's output for one row x of the inputs, such as
            `lambda params, x: network.apply({"params": params}, x)` of flax.linen, or a function
            of `networks.from_nnx` and `networks.from_equinox`. Or `apply(params, x, key)`, a
            random network (dropout, augmentation).
        params: its parameters, a pytree of floating-point arrays. Of Flax's variables {"params":
            …, "batch_stats": …} all collections but "params" are fixed. Leaves of half precision
            are sampled in float32, and read by the network as they are.
        data: the rows {"x": inputs, "y": observations}, or some of them; x may be a pytree. A
            likelihood of your own may read more leaves. They are checked, and not kept.
        likelihood: `"normal"` (2k numbers for k in an observation: means, then raw standard
            deviations s of softplus(s) + 1e-6; or k means and a standard deviation that is
            learned), `"categorical"` (logits; whole labels from 0 on), `"bernoulli"` (logits; 0
            and 1), `"poisson"` (log rates; counts); `networks.normal(…)`; a `networks.Likelihood`;
            or a function `(output, row) -> log density`, or `(output, row, key)`, a random one.
        prior: the prior of the sampled leaves: the standard deviation of normal numbers around 0;
            a distribution (`log_prob`, as NumPyro's); `"fan_in"`, the standard deviation of
            `networks.fan_in`; `"learned"`, the same times a factor for each leaf that is not known
            and integrated over, so that the rows say how wide it is; a dict of these, whose keys
            are names of leaves, of subtrees or patterns (`"Dense_0/kernel"`, `"Dense_0"`,
            `"*/bias"`), the first that matches counting; or a function `(name, shape)` that returns
            one of these. Default: N(0, 1).
        sampled: which leaves are sampled: names or patterns as above, or a function `(name, leaf)
            -> bool`. The others are carried as they are. Default: all that are not fixed.
        fixed: which leaves are carried as they are and not trained either. Default: none.
        check_data: whether values in `data` are checked, and that each sampled leaf has an effect
            on these rows. Default: yes.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; or the network is in
            training mode, returns what does not fit the likelihood, or has leaves that no row
            reaches.

    Warns:
        UserWarning: a likelihood of your own looks like a loss, or like a mean over rows.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def apply(params, x):
        ...     return jnp.tanh(x @ params["hidden"]) @ params["last"]
        >>> params = {"hidden": jnp.ones((1, 3)), "last": jnp.ones((3, 2))}
        >>> data = {"x": jnp.arange(4.0)[:, None], "y": jnp.arange(4.0)}
        >>> model = ewsg.networks.posterior(apply, params, data, likelihood="normal")
        >>> model
        NetworkModel(normal; 9 numbers sampled)
        >>> kernel = ewsg.sghmc(
        ...     model.posterior, 1e-3, friction=1.0, batch_size=2, inverse_mass=model.prior_variance
        ... )
        >>> samples = ewsg.sample(jax.random.key(0), kernel, model.position, data, 100)
        >>> samples.predict(lambda p, x: model.predict(p, x).mean, data["x"]).shape
        (4,)
    """
    checks.function("apply", apply, "(params, x) -> output")
    likelihood = likelihood_of(likelihood)
    checks.boolean("check_data", check_data)
    named = check_params(params)
    rows = checked_rows(data)
    if check_data:
        checks.finite("data", rows)
    roles = _roles(params, named, sampled, fixed)
    keys = KeyUse(takes_key("apply", apply), _density_takes_key(likelihood))

    # The shape of an output, which a normal likelihood without a scale depends on.
    output = _checked_output(apply, keys.apply, params, rows)
    convolves = not keys.apply and has_convolutions(apply, params, rows["x"])
    likelihood = for_output(likelihood, output, rows)
    if likelihood.check is not None:
        likelihood.check(
            _with_raw_sd(likelihood, output), rows if check_data else checks.shapes(rows)
        )
    else:
        _check_density(likelihood, keys.density, output, rows)

    def make(at: PyTree, roles: dict[str, str], several: bool = False) -> NetworkModel:
        is_sampled = [role == "sampled" for role in roles.values()]
        assembly = Assembly(apply, keys, likelihood, at, is_sampled)

        def remade(
            *, train: bool = False, params: PyTree | None = None, several: bool = several
        ) -> NetworkModel:
            as_sampled = {"trained": "sampled"} if train else {}
            others = {name: as_sampled.get(role, role) for name, role in roles.items()}
            return make(at if params is None else params, others, several)

        assembly.remade, assembly.several, assembly.convolves = remade, several, convolves
        assembly.observed_shape = rows["y"].shape[1:] if hasattr(rows["y"], "shape") else None
        return _model(assembly, at, roles, prior, output)

    model = make(params, roles)
    # What only values show, and only a density that is known: that of a random network is not.
    if check_data and checks.are_known(rows):
        if not model.takes_key:
            _check_effects(model, rows)
        if likelihood.check is None and not model.takes_key:
            for finding in odd_size(model._assembly, model.position, rows):
                warn(f"{finding.text}: {finding.cure}", UserWarning)
    return model


def _model(
    assembly: Assembly, params: PyTree, roles: dict[str, str], prior: Prior, output: Any
) -> NetworkModel:
    """Return the model of parts that are checked.

    Args:
        assembly: the parts; it gets its priors here.
        params: the parameters at which the model starts.
        roles: what each leaf is, by name.
        prior: the prior of the sampled leaves, as `posterior` takes it.
        output: the shape and dtype of the network's output for one row.
    """
    position = assembly.start(params)
    priors = priors_of(prior, assembly.named(position))
    likelihood = assembly.likelihood
    if assembly.has_raw_sd:
        priors += priors_of(likelihood.raw_sd_prior, [("raw_sd", position.raw_sd)])
    assembly.log_prior = log_prior_of(priors)
    # The mode of a prior whose scale is integrated over may be at weights that are all 0.
    assembly.training_prior = log_prior_of(
        [dataclasses.replace(one, log_density=one.of_training or one.log_density) for one in priors]
    )
    assembly.check_values = _ObservationCheck(likelihood, _with_raw_sd(likelihood, output))
    if assembly.keyed:
        target = random_likelihood(
            assembly.keyed_density, assembly.log_prior, batch_size=1
        ).posterior
    else:
        target = Posterior(
            assembly.density,
            assembly.log_prior,
            check_values=assembly.check_values,
            normalised=likelihood.normalised,
            batched_log_likelihood=assembly.densities if assembly.is_batched else None,
        )
    variances = jax.tree.structure(position).unflatten([one.variance for one in priors])
    return NetworkModel(target, position, variances, likelihood, roles, assembly)


class _ObservationCheck:
    """The `check_values` of a posterior: what the likelihood says of the observations."""

    def __init__(self, likelihood: Likelihood, output: Any) -> None:
        self.likelihood, self.output = likelihood, output

    def __call__(self, position: PyTree, data: Data) -> None:
        """Raise what is wrong with the observations for the network's output."""
        if self.likelihood.check is not None:
            self.likelihood.check(self.output, data)


def _with_raw_sd(likelihood: Likelihood, output: Any) -> Any:
    """Return the shape of an output behind which a learned raw standard deviation is appended."""
    if likelihood.raw_sd is None:
        return output
    return jax.ShapeDtypeStruct((2 * output.size,), output.dtype)


def _check_effects(model: NetworkModel, rows: Data) -> None:
    """Raise ValueError if no row reaches a sampled leaf."""
    posterior = dataclasses.replace(model.posterior, check_values=None)
    # A leaf that the prior alone reads is allowed in a posterior, and a mistake in a network.
    without_prior = dataclasses.replace(posterior, log_prior=lambda position: 0.0)
    for findings_of, target in ((unread, without_prior), (without_effect, posterior)):
        for finding in findings_of(target, model.position, rows):
            # In words of networks, whose users wrote neither function.
            text = finding.text.split(": the density is the same")[0]
            text = text.replace("neither log_likelihood nor log_prior reads", "no row reads")
            raise ValueError(
                f"params must all have an effect on the rows of data: {text}; leave such "
                "leaves out of sampled=, or give fixed="
            )


def checked_rows(data: Data) -> Any:
    """Check the argument `data`, and return its rows."""
    rows = numeric.native(data.tree if isinstance(data, Rows) else data)
    if not isinstance(rows, dict) or not {"x", "y"} <= set(rows):
        raise TypeError(f"{_TAKES_DATA}; got {checks.describe(data)}")
    checks.data(rows)
    return view(rows).tree


def _roles(
    params: PyTree, named: list[tuple[str, Any]], sampled: Filter | None, fixed: Filter | None
) -> dict[str, str]:
    """Return what is done with each leaf, by its name: "sampled", "trained" or "fixed".

    Raises:
        TypeError: a leaf that is not fixed holds no floating-point numbers.
        ValueError: no leaf is sampled.
    """
    is_fixed = chosen("fixed", fixed, named)
    is_sampled = [True] * len(named) if sampled is None else chosen("sampled", sampled, named)
    roles = {}
    for (name, leaf), fix, sample in zip(named, is_fixed, is_sampled, strict=True):
        if fix or is_state(name, params):
            roles[name] = "fixed"
        elif not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                "params must have floating-point leaves, apart from those that are fixed; "
                f"{name!r} is {checks.describe(leaf)}: give fixed={name!r}"
            )
        else:
            roles[name] = "sampled" if sample else "trained"
    if "sampled" not in roles.values():
        raise ValueError(
            f"sampled must leave one leaf to sample of {shown([name for name, _ in named])}; all "
            "are fixed"
        )
    return roles


def _check_density(likelihood: Likelihood, keyed: bool, output: Any, rows: Data) -> None:
    """Check that one's own log density returns a number for the output of a row."""
    key = (jax.eval_shape(lambda: jax.random.key(0)),) if keyed else ()
    arguments = _with_raw_sd(likelihood, output), checks.datum(rows), *key
    of_what = "an output of the network and its row"
    tracing.scalar(
        "likelihood", of_what, likelihood.log_density, *arguments, names=("output", "row")
    )


def _density_takes_key(likelihood: Likelihood) -> bool:
    """Return whether a log density takes a key, as one's own function may."""
    return likelihood.check is None and takes_key("likelihood", likelihood.log_density)


def takes_key(name: str, function: Callable[..., Any]) -> bool:
    """Return whether a function takes a key as its third argument, which has no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) not in (0, 1, 2, 3):
        first = "(params, x" if name == "apply" else "(output, row"
        raise TypeError(
            f"{name} must be a function {first}), or {first}, key); got one that takes "
            f"{inspect.signature(function)}"
        )
    return len(needed) == 3


def _checked_output(apply: Callable[..., Any], keyed: bool, params: PyTree, rows: Data) -> Any:
    """Return the shape and dtype of the network's output for one row.

    Raises:
        ValueError: the network fails on a row, returns something else than an array, or not the
            same for the same arguments.
    """
    row = checks.datum(rows)
    key = (jax.eval_shape(lambda: jax.random.key(0)),) if keyed else ()
    arguments = checks.shapes(params), row["x"], *key

    # A new function, because `check_same` remembers functions, and not for which shapes.
    def apply_once(*arguments: Any) -> Any:
        return apply(*arguments)

    try:
        output = jax.eval_shape(apply_once, *arguments)
    except Exception as error:
        raise ValueError(
            "apply must return the network's output for one row of data['x'], without an axis of "
            f"rows; it failed: {checks.reason(error)} ({checks.listed('x', row['x'])})"
            f"{_hint(apply, error)}"
        ) from error
    is_array = isinstance(output, jax.ShapeDtypeStruct)
    if not is_array or not jnp.issubdtype(output.dtype, jnp.floating):
        way = "" if is_array else ": return the output alone, without states or updates"
        raise ValueError(
            "apply must return one floating-point array, the network's output for one row; it "
            f"returned {checks.describe(output)}{way}"
        )
    tracing.check_same("apply", apply_once, *arguments, key=_IN_TRAINING)
    return output


def _hint(apply: Any, error: Exception) -> str:
    """Return what to do about a module, or one in training mode; "" for another error."""
    for package, way in _OF_MODULES.items():
        if any(kind.__module__.startswith(package) for kind in type(apply).__mro__):
            return f": {way}"
    if "ScopeCollectionNotFound" in type(error).__name__:
        return f": {_OF_MODULES['flax.linen']}"
    signs = "ropout", "rng", "RNG", "mutable", "Cannot mutate", "batch_stats", "axis name"
    return f": {_IN_TRAINING}" if any(sign in str(error) for sign in signs) else ""
