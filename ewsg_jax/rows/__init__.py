"""Which rows of the data a batch has, and sums over them.

row_law: the law of a name: "random", "blocks", "epochs", "block_epochs" or "block_sweeps".
by_probability: rows by your own weights, within strata or not, for `rows=`.
leverage: rows by their norms in the metric of the posterior, for `rows=`.
RowLaw: the base class, for a law of your own.
Batch, Block: which rows a batch has, by their numbers or as consecutive ones.
Order: where a chain is in its order of the rows, for laws that go by one.
fetch: the rows of all batches that were drawn, ahead of their use.
fetched, gather: the rows of one batch; of row numbers.
lists_batches: whether all batches of an estimator can be listed.
num_rows, all_rows: how many rows are here; how many there are, of a stream too.
"""

from ewsg_jax.rows._leverage import leverage as leverage
from ewsg_jax.rows._named import row_law as row_law
from ewsg_jax.rows._probability import by_probability as by_probability
from ewsg_jax.rows._scheme import Order as Order
from ewsg_jax.rows._scheme import RowLaw as RowLaw
from ewsg_jax.rows._scheme import lists_batches as lists_batches
from ewsg_jax.rows._view import Batch as Batch
from ewsg_jax.rows._view import Block as Block
from ewsg_jax.rows._view import all_rows as all_rows
from ewsg_jax.rows._view import fetch as fetch
from ewsg_jax.rows._view import fetched as fetched
from ewsg_jax.rows._view import gather as gather
from ewsg_jax.rows._view import num_rows as num_rows
