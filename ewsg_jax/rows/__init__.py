"""Which rows of the data a batch has, and sums over them.

sampling_scheme: a scheme by its name: "random", "blocks", "epochs", "block_epochs", "block_sweeps".
importance_weighted: rows by your own weights, within strata or not, for `rows=`.
leverage: rows by their norms in the metric of the posterior, for `rows=`.
SamplingScheme: the base class, for a scheme of your own.
Batch, Block: which rows a batch has, by their numbers or as consecutive ones.
Order: a chain's place in its order of the rows, for schemes that follow one.
fetch: the rows of all batches that were drawn, ahead of their use.
fetched, gather: the rows of one batch; the rows of row numbers.
lists_batches: whether all batches of an estimator can be listed.
num_rows, all_rows: how many rows are in memory; how many the data set or stream has.
row_law, by_probability, RowLaw: the older names of sampling_scheme, importance_weighted and
    SamplingScheme.
"""

from ewsg_jax.rows._leverage import leverage as leverage
from ewsg_jax.rows._named import sampling_scheme as sampling_scheme
from ewsg_jax.rows._probability import importance_weighted as importance_weighted
from ewsg_jax.rows._scheme import Order as Order
from ewsg_jax.rows._scheme import SamplingScheme as SamplingScheme
from ewsg_jax.rows._scheme import lists_batches as lists_batches
from ewsg_jax.rows._view import Batch as Batch
from ewsg_jax.rows._view import Block as Block
from ewsg_jax.rows._view import all_rows as all_rows
from ewsg_jax.rows._view import fetch as fetch
from ewsg_jax.rows._view import fetched as fetched
from ewsg_jax.rows._view import gather as gather
from ewsg_jax.rows._view import num_rows as num_rows

row_law, by_probability, RowLaw = sampling_scheme, importance_weighted, SamplingScheme
