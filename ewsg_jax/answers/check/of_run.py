"""The posterior of a check that is given none: that of the run that made the samples."""

import functools
from collections.abc import Callable
from typing import Any

from ewsg_jax.answers.check.draws import SAMPLES_MUST_BE
from ewsg_jax.base import checks
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.run.samples import Samples
from ewsg_jax.run.stacked import StackedSamples


def knows_posterior(check: Callable[..., Any]) -> Any:
    """Make `check(key, samples, posterior, data)` take `(key, samples, data)` too."""

    @functools.wraps(check)
    def called(*arguments: Any, **named: Any) -> Any:
        places = ("key", "samples", "data")
        by_name = dict(zip(places, arguments, strict=False))
        is_short = len(arguments) <= len(places) and not by_name.keys() & named.keys()
        by_name |= named
        is_short = is_short and by_name.keys() >= {*places}
        if not is_short or isinstance(by_name["data"], Posterior):
            return check(*arguments, **named)
        if "posterior" not in by_name:
            by_name["posterior"] = of_samples(by_name["samples"])
        return check(**by_name)

    return called  # overloads say what it takes


def of_samples(samples: Any) -> Posterior:
    """Return the posterior that was sampled.

    Raises:
        TypeError: the samples do not know it.
    """
    if isinstance(samples, StackedSamples):
        raise TypeError(f"{SAMPLES_MUST_BE}; got {checks.describe(samples)}")
    posterior = samples.posterior if isinstance(samples, Samples) else None
    if posterior is not None:
        return posterior
    advice = "draws that no run of ewsg_jax made"
    if isinstance(samples, Samples):
        advice = "samples whose kernel has no posterior of its own"
        if samples.kernel is None:
            advice = "samples out of a file, or load(path, kernel=…, data=…) with their kernel"
    raise TypeError(
        "posterior must be given, check(key, samples, posterior, data), for "
        f"{advice}; got {checks.describe(samples)}"
    )
