"""Many kernels, or many data sets, as one.

stack: kernels that differ by numbers.
stack_data: data sets that differ by their rows.
Stack, StackedData: what they return.
"""

from ewsg_jax.stacking._stack import stack as stack
from ewsg_jax.stacking.data import StackedData as StackedData
from ewsg_jax.stacking.data import stack_data as stack_data
from ewsg_jax.stacking.kernels import Stack as Stack
