"""Skips a file of tests, in words, where PyMC 6 is not installed."""

import importlib.util
import sys
import warnings

import pytest

WORDS = "needs PyMC 6, which Python 3.12 and later have: pip install 'ewsg_jax[pymc]'"


def skip_without_pymc():
    """Called at the head of a file, before its imports of PyMC."""
    if sys.version_info < (3, 12) or importlib.util.find_spec("pymc") is None:
        pytest.skip(WORDS, allow_module_level=True)
    with warnings.catch_warnings():
        # Of its own imports.
        warnings.simplefilter("ignore")
        import pymc
    if pymc.__version__.split(".")[0] != "6":
        pytest.skip(WORDS, allow_module_level=True)
