"""Data that are larger than memory, read in windows of rows."""

from ewsg_jax.streams._stream import Stream as Stream
from ewsg_jax.streams._stream import stream as stream
