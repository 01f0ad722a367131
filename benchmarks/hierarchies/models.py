"""All hierarchies of the benchmark, in both forms."""

import functools

from benchmarks.hierarchies import normal_cases, other_cases
from benchmarks.hierarchies.model import HierarchyModel, Pair, both


@functools.cache
def pairs() -> dict[str, Pair]:
    """Return all hierarchies by name."""
    return {pair.name: pair for pair in (*normal_cases.pairs(), *other_cases.pairs())}


@functools.cache
def models() -> dict[str, HierarchyModel]:
    """Return all of them in both forms: `name_c` as centred, `name_n` as not centred."""
    return {model.name: model for pair in pairs().values() for model in both(pair)}
