"""What says whether chains agree."""

from typing import Any

CONVERGED = 1.1
"""R-hat above which chains are not of one law."""


def array_statistics() -> Any:
    """Return the functions of arviz-stats that take NumPy arrays.

    Raises:
        ImportError: arviz-stats is not installed.
    """
    try:
        from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise ImportError("summary needs arviz-stats: pip install 'ewsg_jax[diagnostics]'") from error
    return array_stats
