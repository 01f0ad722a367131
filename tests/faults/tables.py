"""The faults of all rooms, and those of every run."""

from tests.faults import checking, command_line, dynamics, gradients, posterior

FAULTS = [
    *dynamics.FAULTS,
    *gradients.FAULTS,
    *posterior.FAULTS,
    *checking.FAULTS,
    *command_line.FAULTS,
]
USUAL = {
    "an infinite weight is passed over",
    "acceptance: wrong sign",
    "prior rescaled",
    "refreshes are free in a budget",
    "the frozen noise is forgotten",
    "totals over chunks in the position's dtype",
    "a mass: the friction of a covariance that is not turned",
    "gradient sign",
    "noise_corrected: h forgotten in the added friction",
    "forecast: the mean shifts the wrong way",
    "a mass: L for its transpose",
    "weight without x",
    "a derivative along the signs for the diagonal",
    "row numbers: a carry is lost",
    "a state that holds the caller's own array",
    "stein: the trace of the kernel's mixed derivative with a wrong number",
    "flymc: bright data are selected to darken like dark ones",
    "lag 1 instead of M",
    "halving: both half steps on one batch",
    "importance-weighted rows within strata: places from the first stratum",
}
"""One of every operator, the quickest, and of most subjects; the sweep runs the others."""
