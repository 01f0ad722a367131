"""What says whether chains agree."""

from typing import Any

CONVERGED = 1.1
"""R-hat above which chains are not of one law."""


def array_statistics() -> Any:
    """Return the functions of arviz-stats that take NumPy arrays."""
    # It takes as long to import as this library.
    from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]

    return array_stats
