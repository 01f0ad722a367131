"""New observations from a PyMC model at draws of its variables.

This module imports PyMC, and is imported when a bridge is called.
"""

import contextlib
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Key
from ewsg_jax.bridges._model import Sites
from ewsg_jax.bridges._pymc_graph import without_minibatches

_pymc = import_module("pymc")
_clone_model = import_module("pymc.model.fgraph").clone_model
_Mode = import_module("pytensor.compile.mode").Mode
_xarray = import_module("xarray")


@dataclass(frozen=True, eq=False)
class Predicted:
    """New observations at draws of the variables, by `pymc.sample_posterior_predictive`.

    Attributes:
        model: the PyMC model, which stays as it is.
        observed: the names of what is observed.
    """

    model: Any
    observed: tuple[str, ...]

    def __call__(self, key: Key, values: Sites, *, coords: Any = None, **data: Any) -> Sites:
        """Draw them.

        Args:
            key: a typed PRNG key.
            values: values of variables, leading axes (chain, draw).
            coords: new labels of dimensions that change their length.
            data: new values of the model's `pm.Data`, by name.

        Raises:
            ValueError: the model has no such data, draws minibatches, or fails on the new data.
        """
        if without_minibatches(self.model.observed_RVs)[1]:
            raise ValueError(
                "predict must have a model of whole arrays; got one with pm.Minibatch, which draws "
                "other rows each time: write it with pm.Data, from_pymc takes batches by itself"
            )
        known = [x.name for x in self.model.data_vars]
        for name in data:
            if name not in known:
                raise ValueError(
                    "predict must have new values of the model's pm.Data, of "
                    f"{', '.join(map(repr, known)) or 'which it has none'}; got {name!r}"
                )
        model = _clone_model(self.model) if data else self.model
        names = [variable.name for variable in model.free_RVs]
        draws = {
            name: (["chain", "draw", *(f"{name}_{k}" for k in range(values[name].ndim - 2))], x)
            for name in names
            for x in [np.asarray(values[name])]
        }
        seed = int(jax.random.bits(key))
        try:
            with model if data else contextlib.nullcontext():
                if data:
                    _pymc.set_data({k: np.asarray(x) for k, x in data.items()}, coords=coords)
            return _pymc.sample_posterior_predictive(
                _xarray.Dataset(draws),
                model=model,
                var_names=[*self.observed, *(x.name for x in model.deterministics)],
                freeze_vars=names,
                random_seed=seed,
                progressbar=False,
                return_inferencedata=False,
                # No C is compiled.
                compile_kwargs={"mode": _Mode(linker="py", optimizer="fast_compile")},
            )
        except Exception as error:
            raise ValueError(
                "predict must have new data of the lengths that the model takes; PyMC failed: "
                f"{checks.reason(error)}: give all pm.Data that have rows (those observed too, "
                "whose numbers do not count), coords={…} of dimensions with labels, and write "
                "the observed variable with dims or shape=x.shape[0]"
            ) from error
