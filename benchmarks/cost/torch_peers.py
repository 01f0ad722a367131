"""The same chains by posteriors, a library of PyTorch; read by an interpreter without JAX.

A loop in Python over its own `update`, as its users write it: it has no compiled loop. Many chains
are a `torch.func.vmap` of it. The smaller of two log posteriors is taken, written with matrices
over the batch; one of `vmap` over rows takes 1.4 times as long with one chain. The network's
weights are one tensor: of a tree of tensors the library's states do not leave `vmap`.
"""

import importlib.metadata
import platform
import time
import warnings

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from benchmarks.cost.settings import (
    FRICTION,
    LOGISTIC_BATCH,
    LOGISTIC_COLUMNS,
    LOGISTIC_ROWS,
    NETWORK_BATCH,
    NETWORK_ROWS,
    NETWORK_SIZES,
    PRIOR_VARIANCE,
    STEP_SIZE,
    Case,
    PyTree,
    logistic_data,
    network_data,
    network_position,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of tensordict, about its own future
    from posteriors.sgmcmc import sghmc, sgld  # pyright: ignore[reportMissingImports]


def log_logistic(position: torch.Tensor, batch: PyTree) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log posterior by a batch, and nothing besides, as the library wants it."""
    x, y = batch
    logits = x @ position
    likelihood = (y * logits - torch.nn.functional.softplus(logits)).mean() * LOGISTIC_ROWS
    return likelihood - 0.5 / PRIOR_VARIANCE * (position**2).sum(), torch.tensor([])


def log_network(position: torch.Tensor, batch: PyTree) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same of the network."""
    x, y = batch
    inputs, hidden, classes = NETWORK_SIZES
    parts = position.split((inputs * hidden, hidden, hidden * classes, classes))
    activation = torch.relu(x @ parts[0].view(inputs, hidden) + parts[1])
    logits = activation @ parts[2].view(hidden, classes) + parts[3]
    rows = torch.nn.functional.log_softmax(logits, -1).gather(-1, y[:, None])
    return rows.mean() * NETWORK_ROWS - 0.5 * (position**2).sum(), torch.tensor([])


def device_data(workload: str) -> dict[str, torch.Tensor]:
    """Return a workload's data as tensors."""
    if workload == "logistic":
        made = logistic_data(LOGISTIC_ROWS, LOGISTIC_COLUMNS)
    else:
        made = network_data(NETWORK_ROWS, NETWORK_SIZES[0], NETWORK_SIZES[2])
    return {
        name: torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x)
        for name, x in made.items()
    }


class Program:
    """A case; each call of `run` times one more run with other random numbers.

    Args:
        case: what is timed.
        data: the workload's, by `device_data`; made here by default.
    """

    def __init__(self, case: Case, data: dict[str, torch.Tensor] | None = None) -> None:
        log_posterior = log_logistic if case.workload == "logistic" else log_network
        h = STEP_SIZE[case.method]
        if case.method == "sgld":
            method = sgld.build(log_posterior, lr=h)
        else:
            method = sghmc.build(log_posterior, lr=h, alpha=FRICTION, momenta=0.0)
        self._case, self._data = case, data or device_data(case.workload)
        self._batch = LOGISTIC_BATCH if case.workload == "logistic" else NETWORK_BATCH
        start = np.zeros(LOGISTIC_COLUMNS, np.float32)
        if case.workload == "network":
            layers = network_position(*NETWORK_SIZES)
            start = np.concatenate(
                [
                    layers[layer][name].ravel()
                    for layer in ("hidden", "output")
                    for name in ("weights", "bias")
                ]
            )
        self._init, self._update = method.init, method.update
        self._position = torch.from_numpy(start)
        if case.num_chains > 1:
            self._position = self._position.expand(case.num_chains, -1).clone()
            self._init = torch.func.vmap(self._init)
            self._update = torch.func.vmap(self._update, randomness="different")
        self._runs, self.compile_seconds = 0, 0.0

    def run(self) -> float:
        """Run once and return microseconds per step and chain, kept positions as NumPy arrays
        included.

        Raises:
            FloatingPointError: a kept position is not finite.
        """
        self._runs += 1
        torch.manual_seed(self._runs)
        chains, steps, data = self._case.num_chains, self._case.num_steps, self._data
        rows_shape = (self._batch,) if chains == 1 else (chains, self._batch)
        started = time.perf_counter()
        state, kept = self._init(self._position), []
        for _ in range(steps):
            rows = torch.randint(len(data["x"]), rows_shape)
            state, _ = self._update(state, (data["x"][rows], data["y"][rows]))
            if self._case.keep_all:
                kept.append(state.params)
        found = np.stack([x.numpy() for x in kept or [state.params]])
        seconds = time.perf_counter() - started
        if not np.isfinite(found).all():
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        return seconds / steps / chains * 1e6


def program(peer: str, case: Case, data: dict[str, torch.Tensor] | None = None) -> Program:
    """Return the program of a peer, `"posteriors"` here."""
    assert peer == "posteriors"
    return Program(case, data)


def versions(peer: str) -> dict[str, str]:
    """Return the versions at work."""
    names = (peer, "torch", "numpy")
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in names
    }
