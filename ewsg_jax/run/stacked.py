"""What a run of a stack of kernels returns: the samples of its members, and a picture of them."""

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, cast

import jax
import numpy as np

from ewsg_jax.base import checks, limits, pictures
from ewsg_jax.base.typing import Data, P
from ewsg_jax.base.warn import warn
from ewsg_jax.draws.coordinates import in_arviz
from ewsg_jax.kernels.protocol import Kernel, KernelState, Origin
from ewsg_jax.run import archive
from ewsg_jax.run.loading import reading, samples_of
from ewsg_jax.run.moments import Moments
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import (
    HOLDS_STACK,
    Samples,
    stored,
    without_diverged_moments,
)
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.stacks.kernels import Stack, StackState, of_member
from ewsg_jax.run.starts import shares_memory
from ewsg_jax.run.states import StateNotLoaded, with_origin
from ewsg_jax.vectors.row_subsets import evenly


@dataclass(frozen=True, eq=False, repr=False)
class StackedSamples(Generic[P]):
    """What a run of a stack returns: `runs[i]` are the samples of member i, a `Samples`.

    Members have the same starts unless they were given their own. Kernels on the same data have the
    same batches and noise: they are compared without the noise between runs, and are not
    independent of each other. Those of several data sets have theirs.

    Attributes:
        whole: the run as that of one kernel: draws have the axes (chain, draw, member), numbers of
            each chain (chain, member). Its costs are those of one member, its seconds those of all.
        values: the numbers by which the members differ, by their names, shape (member,) each; the
            labels of data sets as `data_set`.
        memory_axis: the axis of members of the states' memory, None if all members share it.
        num_rows: n of each data set, int64, shape (member,); None if all members have the same
            data.
        diverged_at: the step at which each chain of each member ceased to be finite, −1 for none,
            int64, shape (chain, member).
    """

    whole: Samples[P]
    values: dict[str, np.ndarray]
    memory_axis: int | None
    num_rows: np.ndarray | None
    diverged_at: np.ndarray

    def __len__(self) -> int:
        return self.diverged_at.shape[1]

    def __iter__(self) -> Iterator[Samples[P]]:
        return (self[member] for member in range(len(self)))

    def __getitem__(self, member: int) -> Samples[P]:
        member = checks.place("member", member, len(self))
        whole = self.whole

        moments = whole.moments
        if moments is not None:
            moments = Moments(**of_member(vars(moments), member, 1))
        return dataclasses.replace(
            whole,
            draws=of_member(whole.draws, member, 2),
            moments=moments,
            state=_state_of(whole.state, member, self.memory_axis, self.num_rows is None),
            step_size=whole.step_size[:, member],
            temperature=_member_values(whole.temperature, member),
            index_acceptance=_member_values(whole.index_acceptance, member),
            acceptance=_member_values(whole.acceptance, member),
            overflow=_member_values(whole.overflow, member),
            diverged_at=self.diverged_at[:, member],
            kernel=None if whole.kernel is None else cast(Stack[P], whole.kernel)[member],
            num_data=whole.num_data if self.num_rows is None else int(self.num_rows[member]),
        )

    def __repr__(self) -> str:
        names = ", ".join(self.values)
        return (
            f"StackedSamples(members={len(self)}, by={names or 'arrays'}, "
            f"num_chains={self.num_chains}, num_draws={self.whole.num_draws}, "
            f"num_steps={self.whole.num_steps}, stable={np.count_nonzero(self.is_stable)})"
        )

    @property
    def is_stable(self) -> np.ndarray:
        """Whether all chains of a member stayed finite, shape (member,)."""
        return np.asarray(np.all(self.diverged_at < 0, axis=0))

    @property
    def num_chains(self) -> int:
        """The number of chains of each member."""
        return self.whole.num_chains

    @property
    def state(self) -> KernelState[P]:
        """The last states of all members, from which `sample` of the same stack continues."""
        return self.whole.state

    def concatenate(self, later: "StackedSamples[P]") -> "StackedSamples[P]":
        """Return these and those of the run that continued, as `Samples.concatenate` does.

        Raises:
            TypeError, ValueError: it is not such a run.
        """
        checks.instance("later", later, StackedSamples, "what ewsg_jax.sample of a stack returns")
        whole = without_diverged_moments(self.whole.concatenate(later.whole), later.diverged_at)
        return dataclasses.replace(self, whole=whole, diverged_at=later.diverged_at)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, as `Samples.save` does; `StackedSamples.load` reads it.

        Raises:
            TypeError, ValueError, AttributeError, OSError: as for `Samples.save`.
        """
        about, arrays = stored(self.whole)
        arrays["member_diverged_at"] = self.diverged_at
        if self.num_rows is not None:
            arrays["num_rows"] = self.num_rows
        arrays |= {f"values[{name!r}]": x for name, x in self.values.items()}
        about |= {"memory_axis": self.memory_axis, "values": list(self.values)}
        archive.write(path, HOLDS_STACK, about, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        position: P | None = None,
        *,
        kernel: Kernel[P] | None = None,
        data: Data | StackedData | None = None,
    ) -> "StackedSamples[P]":
        """Read what `save` wrote; the arguments are those of `ewsg_jax.load`.

        Raises:
            TypeError, ValueError, OSError: as for `ewsg_jax.load`.
        """
        with reading(path, HOLDS_STACK, kernel, data) as contents:
            names = contents.entry("values", list)
            return cls(
                samples_of(contents, position, kernel, data),
                {name: contents.array(f"values[{name!r}]") for name in names},
                contents.entry("memory_axis"),
                contents.arrays.get("num_rows"),
                contents.array("member_diverged_at"),
            )

    @property
    def _labels(self) -> tuple[str, np.ndarray]:
        """What distinguishes members: the number by which they differ, or their own number."""
        if len(self.values) == 1:
            return next(iter(self.values.items()))
        return "member", np.arange(len(self))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw means and sds of up to eight coordinates against what members differ by.

        Args:
            path: the file of a picture to write; its ending says the format. Default: none.

        Returns:
            A matplotlib figure.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError, ValueError: the path is not a file path; or no draws were kept.
        """
        if self.whole.draws is None or not self.whole.num_draws:
            raise ValueError("plot must have draws; got a run that kept none")
        name, values = self._labels
        if not np.issubdtype(values.dtype, np.number):
            name, values = "member", np.arange(len(self))
        figure = pictures.blank(9, 3.6, path)
        figure.suptitle(repr(self), fontsize=8, wrap=True)
        order = np.argsort(values)
        stable, lost = order[self.is_stable[order]], order[~self.is_stable[order]]
        moments = [_moments(self[member]) for member in stable]
        panels = figure.subplots(1, 2)
        for panel, part, label in zip(panels, (0, 1), ("mean", "standard deviation"), strict=True):
            if moments:
                lines = np.array([mean_and_sd[part] for mean_and_sd in moments])
                panel.plot(values[stable], lines, ".-", linewidth=0.8)
            for member in lost:
                panel.axvline(values[member], color="#D55E00", linewidth=0.8)
            panel.set(
                xlabel=f"{name} (lines: diverged chains)" if lost.size else name, ylabel=label
            )
            if values.min() > 0 and values.max() > 10.0 * values.min():
                panel.set_xscale("log")
        panels[1].set_yscale("log")
        return pictures.keep(figure, path)

    def to_arviz(self, **options: Any) -> Any:
        """Return draws as ArviZ takes them, members behind chains and draws.

        The axis of members has the name of the number by which they differ, and its values as
        coordinates; if they differ by several numbers it is `member`, with a coordinate for each.
        Chains that diverged are NaN for their member, which means over an axis leave out, and a
        RuntimeWarning counts them.

        Args:
            options: further arguments, passed on to `arviz.from_dict`.

        Raises:
            ImportError: ArviZ is not installed.
        """
        draws, (dimension, labels) = self.whole.named(), self._labels
        dims = {name: [dimension] for name in draws} | (options.pop("dims", None) or {})
        coords = {dimension: labels} | (options.pop("coords", None) or {})
        coordinates = {}
        if len(self.values) != 1:
            coordinates = {name: (dimension, x) for name, x in self.values.items()}
        if (lost := self.diverged_at >= 0).any():
            # A chain diverged for some members: for the others it has a place.
            draws = {name: _masked(x, lost) for name, x in draws.items()}
            warn(
                f"to_arviz() has NaN for chains that diverged: {np.count_nonzero(lost)} of "
                f"{lost.size}, of {np.count_nonzero(lost.any(0))} of {len(self)} members "
                "(runs.diverged_at)"
            )
        return in_arviz(draws, coordinates, dims=dims, coords=coords, **options)


def split_members(request: Request, samples: Samples) -> StackedSamples:
    """Return the samples of a stack, and warn of members with diverged chains."""
    stack: Any = request.kernel
    data_sets, devices = request.data_sets, request.devices
    memory_axis = stack.memory_axis
    if memory_axis is not None:
        # Behind the axes of chains, unless these share it, and of parts of the rows.
        memory_axis += not shares_memory(stack, samples.state, devices)
        memory_axis += devices is not None and devices.cuts_data
    labels = {} if data_sets is None else {"data_set": data_sets.labels}
    num_rows = None if data_sets is None else data_sets.num_rows
    stack_state: Any = samples.state.dynamics
    diverged_at = np.asarray(stack_state.diverged_at, np.int64)
    samples = without_diverged_moments(samples, diverged_at)
    runs = StackedSamples(samples, labels | stack.values, memory_axis, num_rows, diverged_at)
    lost = np.flatnonzero(~runs.is_stable)
    if lost.size:
        those = [
            ", ".join(f"{name} = {_short(x[member])}" for name, x in runs.values.items())
            or f"member {member}"
            for member in lost[: limits.NAMES_SHOWN]
        ]
        more = "; …" if lost.size > limits.NAMES_SHOWN else ""
        warn(
            f"{lost.size} of {len(runs)} members have diverged chains, frozen at their last "
            f"finite states (runs.is_stable, runs.diverged_at): {'; '.join(those)}{more}"
        )
    return runs


def _masked(draws: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return draws (chain, draw, member, …), NaN if a chain of a member diverged."""
    draws = draws.astype(np.result_type(draws.dtype, np.float32))
    lost = lost.reshape(len(lost), 1, -1, *(1,) * (draws.ndim - 3))
    return np.where(lost, draws.dtype.type(np.nan), draws)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)


def _member_values(values: np.ndarray, member: int) -> np.ndarray:
    """Return a member's numbers, from those of all members or common to all."""
    return values[:, member] if values.ndim > 1 else values


def _state_of(state: Any, member: int, memory_axis: int | None, same_rows: bool) -> Any:
    """Return the states of a member's chains, as those of its kernel."""
    if isinstance(state, StateNotLoaded):
        return state if same_rows else StateNotLoaded(state.step, None)
    if not same_rows:
        # Known of all data sets side by side, not of one of them.
        state = with_origin(state, Origin())
    stack: StackState = state.dynamics
    position, rest = of_member((stack.position, stack.rest), member, 1)
    memory = state.memory if memory_axis is None else of_member(state.memory, member, memory_axis)
    # An order of the rows has an axis of members if each has a data set of its own.
    order = jax.tree.map(lambda x: x[:, member] if x.ndim == 3 else x, state.order)
    return KernelState(rest._replace(position=position, step=stack.step), memory, state.rows, order)


def _moments(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of some coordinates, shape (coordinate,) each."""
    mean, sd = (
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])
        for tree in (samples.mean, samples.sd)
    )
    shown = evenly(len(mean), limits.LINES_SHOWN)
    return mean[shown], sd[shown]
