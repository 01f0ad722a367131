"""The sampling schemes by their names."""

from typing import Any, Literal

from ewsg_jax.base import checks
from ewsg_jax.rows._blocks import BlockEpochs, Blocks
from ewsg_jax.rows._epochs import Epochs
from ewsg_jax.rows._independent import Independent, Subset
from ewsg_jax.rows._probability import ByProbability, RowProbabilities
from ewsg_jax.rows._probability_parts import ProbabilityInParts
from ewsg_jax.rows._scheme import SamplingScheme

Rows = (
    Literal["random", "blocks", "epochs", "block_epochs", "block_sweeps"]
    | SamplingScheme
    | RowProbabilities
)
"""A sampling scheme: by its name, by probabilities, or one of your own."""
SCHEME_NAMES = ("random", "blocks", "epochs", "block_epochs", "block_sweeps")


def sampling_scheme(batch_size: int, replace: bool, rows: Rows) -> SamplingScheme:
    """Return the minibatch sampling scheme of a name.

    Args:
        batch_size: b, rows in a batch.
        replace: whether `"random"` draws with replacement, or (False) a uniform subset.
        rows: `"random"`; `"blocks"`: b consecutive rows (the first follows on the last) from a
            uniform start, quick to fetch, for data in random order; `"epochs"`: the next b rows of
            a permutation, a new one for each ⌊n/b⌋ steps; `"block_epochs"`: each of ⌊n/b⌋ blocks of
            consecutive rows once in an epoch, in a new order each time, for data in random order;
            `"block_sweeps"`: such epochs in pairs, the second of each the first one backwards; what
            `importance_weighted` or `leverage` returns; or a scheme of your own, a `SamplingScheme`
            of the same `batch_size`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.rows.sampling_scheme(50, True, "blocks").batch_size
        50
    """
    # The size first: an error of the scheme would hide one of the batch.
    batch_size = checks.integer("batch_size", batch_size)
    checks.boolean("replace", replace)
    if not isinstance(rows, SamplingScheme | RowProbabilities):
        checks.one_of("rows", rows, SCHEME_NAMES)
    if rows != "random" and not replace:
        named = rows if isinstance(rows, SamplingScheme | RowProbabilities) else repr(rows)
        raise ValueError(
            f"replace must be True for rows={named}, whose batches hold each row once; got False"
        )
    if isinstance(rows, SamplingScheme):
        if rows.batch_size != batch_size:
            raise ValueError(
                f"batch_size must be that of rows, {rows.batch_size}; got {batch_size}"
            )
        return rows
    if isinstance(rows, RowProbabilities):
        # Probabilities become a scheme here, because here the size of a batch is known.
        return rows.of_size(batch_size)
    if rows == "random":
        return (Independent if replace else Subset)(batch_size=batch_size)
    if rows in ("block_epochs", "block_sweeps"):
        return BlockEpochs(batch_size=batch_size, mirrored=rows == "block_sweeps")
    return (Blocks if rows == "blocks" else Epochs)(batch_size=batch_size)


def chosen_by(scheme: SamplingScheme) -> dict[str, Any]:
    """Return the arguments of an estimator's call that name a scheme, apart from `batch_size`: the
    inverse of `sampling_scheme`.
    """
    if isinstance(scheme, ByProbability | ProbabilityInParts):
        return {"rows": scheme.given}
    if isinstance(scheme, BlockEpochs):
        return {"rows": scheme.rows}
    of_class = {
        Independent: {},
        Subset: {"replace": False},
        Blocks: {"rows": "blocks"},
        Epochs: {"rows": "epochs"},
    }
    return of_class.get(type(scheme), {"rows": scheme})


def name_of(scheme: SamplingScheme) -> str:
    """Return the argument that chooses a scheme, as in `rows='epochs'`."""
    return f"rows={chosen_by(scheme).get('rows', 'random')!r}"
