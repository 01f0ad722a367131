"""At what size an experiment was run, beside the paper's: read off the stored configuration."""

import tomllib
from collections.abc import Mapping
from typing import Any

AS_IN_THE_PAPER = "the paper's"
CHOSEN = "chosen here: the paper gives none"
WITHOUT_SIZES = (
    *("gaussian-mse", "convergence-speed", "linear-gaussian", "matrix-factorisation"),
    *("lognormal", "vr-rates", "vr-regimes", "ewsg-theorems"),
)
"""Experiments whose papers give no sizes, or no experiment at all."""
PAPER_SIZES: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "mnist-mlp": {
        "data_passes": (200, "{} of {} passes"),
        "ensemble": (100, "{} of {} draws that predict together"),
        "num_repeats": (10, "{} of {} repeats"),
    },
    "mnist-cnn": {
        "data_passes": (200, "{} of {} passes"),
        "num_rows": (60_000, "{} of {} rows"),
        "num_test": (10_000, "{} of {} test rows"),
        "channels": ([32, 64], "{} of {} channels"),
        "ensemble": (100, "{} of {} draws that predict together"),
        "num_repeats": (10, "{} of {} repeats"),
    },
    "mnist-m": {
        "data_passes": (200, "{} of {} passes"),
        "ensemble": (10, "{} of {} draws that predict together"),
    },
    "covertype": {"num_repeats": (1_000, "{} of {} repeats")},
    "blr-vr": {"num_chains": (1_000, "{} of {} chains")},
    "misspecified": {
        "num_chains": ("more", "{} chains (the paper has {})"),
        "data_seeds": ("more", "{} data sets (the paper has {})"),
    },
    "vr-hmc-bnn": {"num_rows": (5_000_000, "{} of up to {} rows")},
}
"""The paper's values of what the configurations cut, and the words for both."""


def size_of(name: str, config: str, scale: str) -> str:
    r"""Return the size at which an experiment was run, in words.

    Args:
        name: of the experiment.
        config: the text of the configuration that was run.
        scale: `"quick"` or `"full"`.

    Example:
        >>> size_of("blr-vr", "[full]\nnum_chains = 200", "full")
        '200 of 1,000 chains'
        >>> size_of("blr-vr", "[full]\nnum_chains = 1_000", "full")
        "the paper's"
    """
    if scale == "quick":
        return "quick"
    if name in WITHOUT_SIZES:
        return CHOSEN
    values = tomllib.loads(config)["full"]
    sizes = PAPER_SIZES.get(name, {})
    cut = [
        words.format(_in_words(key, values[key]), _in_words(key, in_paper))
        for key, (in_paper, words) in sizes.items()
        if values[key] != in_paper
    ]
    return ", ".join(cut) or AS_IN_THE_PAPER


def _in_words(key: str, value: Any) -> str:
    """Return a value of a configuration: of seeds how many there are, of layers each."""
    if isinstance(value, list):
        return str(len(value)) if key == "data_seeds" else " and ".join(map(str, value))
    return value if isinstance(value, str) else f"{value:,}"
