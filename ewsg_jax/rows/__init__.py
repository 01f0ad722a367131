"""Which rows of the data a batch has, and sums over them."""

from ewsg_jax.rows.gathering import Batch as Batch
from ewsg_jax.rows.gathering import gather as gather
from ewsg_jax.rows.law import RowLaw as RowLaw
from ewsg_jax.rows.named import row_law as row_law
