"""Which rows of the data a batch has, and sums over them.

row_law: the law of a name: "random", "blocks", "epochs", "block_epochs" or "block_sweeps".
by_probability: rows by weights of yours, within strata or not, for `rows=`.
leverage: rows by their norms in the metric of the posterior, for `rows=`.
gather: rows ahead of their use.
Batch: row numbers and their rows.
RowLaw: the base class, for a law of your own.
all_rows: how many rows there are, of a stream too.
"""

from ewsg_jax.rows._leverage import leverage as leverage
from ewsg_jax.rows.gathering import Batch as Batch
from ewsg_jax.rows.gathering import all_rows as all_rows
from ewsg_jax.rows.gathering import gather as gather
from ewsg_jax.rows.law import RowLaw as RowLaw
from ewsg_jax.rows.named import row_law as row_law
from ewsg_jax.rows.probability import by_probability as by_probability
