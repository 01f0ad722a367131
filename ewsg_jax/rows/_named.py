"""The laws of rows by their names."""

from typing import Any, Literal

from ewsg_jax.base import checks
from ewsg_jax.rows._blocks import BlockEpochs, Blocks
from ewsg_jax.rows._epochs import Epochs
from ewsg_jax.rows._independent import Independent, Subset
from ewsg_jax.rows._probability import ByProbability, RowProbabilities
from ewsg_jax.rows._probability_parts import ProbabilityInParts
from ewsg_jax.rows._scheme import RowLaw

Rows = (
    Literal["random", "blocks", "epochs", "block_epochs", "block_sweeps"]
    | RowLaw
    | RowProbabilities
)
"""A law of rows by its name, by probabilities, or one of your own."""
ROW_LAWS = ("random", "blocks", "epochs", "block_epochs", "block_sweeps")


def row_law(batch_size: int, replace: bool, rows: Rows) -> RowLaw:
    """Return the law of a name.

    Args:
        batch_size: b.
        replace: for `"random"`: with replacement, or a uniform subset.
        rows: `"random"`; `"blocks"`: b consecutive rows (the first follows on the last) from a
            uniform start, quick to fetch, for data in random order; `"epochs"`: the next b rows of
            a permutation, a new one for each ⌊n/b⌋ steps; `"block_epochs"`: each of ⌊n/b⌋ blocks of
            consecutive rows once in an epoch, in a new order each time, for data in random order;
            `"block_sweeps"`: such epochs in pairs, the second of each the first one backwards; what
            `by_probability` or `leverage` returns; or a law of your own, a `RowLaw` of the same
            `batch_size`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.rows.row_law(50, True, "blocks").batch_size
        50
    """
    # The size first: an error of the law would hide one of the batch.
    batch_size = checks.integer("batch_size", batch_size)
    checks.boolean("replace", replace)
    if not isinstance(rows, RowLaw | RowProbabilities):
        checks.one_of("rows", rows, ROW_LAWS)
    if rows != "random" and not replace:
        named = rows if isinstance(rows, RowLaw | RowProbabilities) else repr(rows)
        raise ValueError(
            f"replace must be True for rows={named}, whose batches hold each row once; got False"
        )
    if isinstance(rows, RowLaw):
        if rows.batch_size != batch_size:
            raise ValueError(
                f"batch_size must be that of rows, {rows.batch_size}; got {batch_size}"
            )
        return rows
    if isinstance(rows, RowProbabilities):
        # Probabilities become a law here, where the size of a batch is known.
        return rows.of_size(batch_size)
    if rows == "random":
        return (Independent if replace else Subset)(batch_size=batch_size)
    if rows in ("block_epochs", "block_sweeps"):
        return BlockEpochs(batch_size=batch_size, mirrored=rows == "block_sweeps")
    return (Blocks if rows == "blocks" else Epochs)(batch_size=batch_size)


def chosen_by(law: RowLaw) -> dict[str, Any]:
    """Return what names a law in an estimator's call, without `batch_size`: undoes `row_law`."""
    if isinstance(law, ByProbability | ProbabilityInParts):
        return {"rows": law.given}
    if isinstance(law, BlockEpochs):
        return {"rows": law.rows}
    of_class = {
        Independent: {},
        Subset: {"replace": False},
        Blocks: {"rows": "blocks"},
        Epochs: {"rows": "epochs"},
    }
    return of_class.get(type(law), {"rows": law})


def name_of(law: RowLaw) -> str:
    """Return what chooses a law, as in `rows='epochs'`."""
    return f"rows={chosen_by(law).get('rows', 'random')!r}"
