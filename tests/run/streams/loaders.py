"""Loaders of pure Python with the interface of those of PyTorch and others."""

import jax
import numpy as np


class Loader:
    """Shuffled epochs of batches, the last one short unless `drop_last`.

    Attributes:
        dataset: the rows, of which PyTorch's loaders know the number.
    """

    def __init__(self, dataset, batch_size, *, drop_last=False, shuffle=True, seed=0):
        self.dataset, self.batch_size = list(range(count(dataset))), batch_size
        self.rows, self.drop_last, self.shuffle = dataset, drop_last, shuffle
        self._rng = np.random.default_rng(seed)

    @classmethod
    def of_unknown_length(cls, *arguments):
        """A loader that does not say how many rows there are."""
        loader = cls(*arguments)
        loader.dataset = None
        return loader

    def __iter__(self):
        n = count(self.rows)
        order = self._rng.permutation(n) if self.shuffle else np.arange(n)
        for start in range(0, n, self.batch_size):
            places = order[start : start + self.batch_size]
            if self.drop_last and len(places) < self.batch_size:
                return
            yield jax.tree.map(lambda x, places=places: x[places], self.rows)


class Tensor:
    """What another library's tensor shows of itself."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)


def count(rows):
    return len(jax.tree.leaves(rows)[0])


def forever(loader):
    """The batches of a loader, epoch after epoch: an iterator."""
    while True:
        yield from loader
