"""Some of many, evenly spaced."""

import numpy as np


def evenly(length: int, most: int) -> np.ndarray:
    """Return at most so many of the numbers 0, …, length − 1, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, length - 1, most).astype(int))
