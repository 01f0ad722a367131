"""Wrong calls of `sample`, `load` and `moments`."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
import shutil
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import COUNT, NUMBER, every
from tests.wrong_calls.table import (
    AT_MOST_2_31,
    DATA,
    KERNEL,
    KEY,
    MODEL,
    NAN,
    POINT,
    POSITIVE,
    TOO_MANY,
    T,
    V,
    of,
    over,
    row,
    sampled,
)

LAST = ewsg.rows.by_probability(np.arange(len(DATA)) // (len(DATA) // 2))
FOUR = ewsg.rows.by_probability(np.ones(4))
right = functools.partial(
    ewsg.sample, key=KEY, kernel=KERNEL, position=POINT, data=DATA, num_steps=10, progress=False
)
every("sample", right, chain_batch_size=COUNT, checkpoint_every=NUMBER)
of(
    "sample",
    row(T, "kernel | gaussian_location( | a Kernel (", lambda: sampled(kernel=MODEL)),
    row(T, "mesh | 2 (int) | a jax.sharding.Mesh whose axes", lambda: sampled(mesh=2)),
    row(V, "mesh | ('batch',) | 'chains', 'data'", lambda: sampled(mesh=over("batch"))),
    row(
        V,
        "batch_size | got 1 | multiple of 2",
        lambda: sampled(kernel=ewsg.sgld(MODEL, 0.1, batch_size=1), mesh=over("data")),
    ),
    row(
        V,
        "mesh | rows='epochs' | no axis 'data'",
        lambda: sampled(
            kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows="epochs"), mesh=over("data")
        ),
    ),
    row(
        V,
        "rows | got part 0 | in each of the 2 parts",
        lambda: sampled(kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows=LAST), mesh=over("data")),
    ),
    row(
        V,
        "rows | got 4 probabilities | a probability for each",
        lambda: sampled(kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows=FOUR), mesh=over("data")),
    ),
    row(
        V,
        "chain_batch_size | got 2 | None with mesh",
        lambda: sampled(num_chains=4, chain_batch_size=2, mesh=over("chains")),
    ),
    row(T, "kernel | function sgld | call it to make one", lambda: sampled(kernel=ewsg.sgld)),
    row(V, "data | holds 1 NaN | must be finite", lambda: sampled(data=DATA.at[0, 0].set(NAN))),
    row(T, "data | dtype object | hold numbers", lambda: sampled(data=np.array([[1, None]]))),
    row(V, f"data | got 3,000,000,000 rows | {AT_MOST_2_31}", lambda: sampled(data=TOO_MANY)),
    row(V, "num_steps | got 10 | at least burn_in + thin = 11", lambda: sampled(burn_in=10)),
    row(V, "num_steps | data_passes=None | give either", lambda: sampled(num_steps=None)),
    row(V, "data_passes | data_passes=1.0 | give either", lambda: sampled(data_passes=1.0)),
)

IN_TIME = "must be enough for burn_in + thin = "


def timed(seconds: Any, **changes: Any) -> Any:
    return sampled(seconds=seconds, **changes)


of(
    "sample: seconds",
    row(
        V,
        f"seconds | got 1e-09, in which | {IN_TIME}",
        lambda: timed(1e-9, num_steps=10**8, burn_in=10**8 - 9),
    ),
    row(
        V,
        "num_steps | data_passes=None beside seconds=1.0 | give either",
        lambda: timed(1.0, num_steps=None),
    ),
    row(V, "num_steps | seconds=1.0 | give either", lambda: sampled(data_passes=1.0, seconds=1.0)),
)


ON_HOST = (
    "for many chains give num_chains=…; in a program of your own put kernel.init and "
    "kernel.step into jax.lax.scan"
)
POINTS = jnp.zeros((3, 2))


def at_step_size(h: Any) -> Any:
    return sampled(kernel=ewsg.sgld(MODEL, h, batch_size=2)).draws


of(
    "sample: traced",
    row(
        T,
        f"position | a traced position | {ON_HOST}",
        lambda: jax.vmap(lambda p: sampled(position=p).draws)(POINTS),
    ),
    row(T, f"kernel | a traced kernel | {ON_HOST}", lambda: jax.vmap(at_step_size)(jnp.ones(3))),
    row(
        T,
        f"data | a traced data | {ON_HOST}",
        lambda: jax.jit(lambda data: sampled(data=data).draws)(DATA),
    ),
    row(T, f"sample | under jit | {ON_HOST}", lambda: jax.jit(lambda: sampled().draws)()),
    row(
        T,
        f"position | a traced position | {ON_HOST}",
        lambda: jax.grad(lambda p: sampled(position=p))(POINT),
    ),
)


class Start(nn.Module):
    """A module whose class is taken for a function of a key."""


FOLLOWS, KEEPS = "a run that continued from the state of these samples", "and keeps what they keep"


def joined(num_steps: int = 10, **changes: Any) -> Any:
    """Join to the samples of ten steps what went on from them, with something wrong."""
    changes = {"position": None, "state": last_state(), "data": DATA} | changes
    return sampled().concatenate(sampled(num_steps=num_steps, **changes))


def doubled(position: Any) -> Any:
    return 2 * position


of(
    "sample: joined",
    row(T, "later | (2,) | a Samples (what ewsg_jax.sample", lambda: sampled().concatenate(POINT)),
    row(V, f"later | one from step 0 on | {FOLLOWS}", lambda: joined(position=POINT, state=None)),
    row(
        V,
        f"from step 10 on | one from step 20 on | {FOLLOWS}",
        lambda: joined(state=sampled(position=None, state=last_state()).state),
    ),
    row(
        V,
        f"of 1 chains | one of 2 chains | {FOLLOWS}",
        lambda: joined(position=POINT, state=None, num_chains=2),
    ),
    row(
        V,
        f"on 6 rows | one on 5 rows | {FOLLOWS}",
        lambda: joined(position=POINT, state=None, data=DATA[:5]),
    ),
    row(
        V, f"draws | one without draws | {KEEPS}", lambda: joined(keep=None, moments=ewsg.moments())
    ),
    row(V, f"draws | shape () | {KEEPS}", lambda: joined(keep=jnp.sum)),
    row(V, f"positions | keeps a function of them | {KEEPS}", lambda: joined(keep=doubled)),
    row(V, f"moments | moments['mean'] | {KEEPS}", lambda: joined(moments=ewsg.moments())),
)


A_FUNCTION, A_STATE = "a function of a key", "samples.state of a run of this kernel"


@functools.cache
def last_state() -> Any:
    return sampled().state


def started(position: Any) -> Any:
    return sampled(position=position, num_chains=2)


def fails(key: Any) -> Any:
    raise RuntimeError("no start")


of(
    "sample: where it starts",
    row(T, f"position | the class Start | {A_FUNCTION}", lambda: started(Start)),
    row(V, f"position | no start | {A_FUNCTION}", lambda: started(fails)),
    row(V, f"position | takes 0 positional | {A_FUNCTION}", lambda: started(lambda: POINT)),
    row(T, "position(key) | int32 | floating-point", lambda: started(jax.random.bits)),
    row(V, f"position | TypeError | {A_FUNCTION}", lambda: started(lambda key: "here")),
    row(V, "stacked | got True | must be False", lambda: sampled(position=len, stacked=True)),
    row(V, "position | neither | either position or state", lambda: sampled(position=None)),
    row(V, "state | both | either position or state", lambda: sampled(state=last_state())),
    row(
        V,
        "data | got 3 | all 6 rows that init saw",
        lambda: sampled(position=None, state=last_state(), data=DATA[:3]),
    ),
    row(T, f"state | shape (2,) | {A_STATE}", lambda: sampled(position=None, state=POINT)),
    row(
        V,
        "state | [10 11] | chains at one step",
        lambda: sampled(position=None, state=two_steps()),
    ),
    row(V, f"num_steps | got {2**31} | to 2147483647", lambda: sampled(num_steps=2**31)),
)


def two_steps() -> Any:
    """A state of two chains, one of them a step ahead."""
    state = sampled(num_chains=2).state
    return state.at_step(state.step + jnp.arange(2, dtype=jnp.int32))


of(
    "sample: what it keeps",
    row(T, "keep | 'position' | a function (position)", lambda: sampled(keep="position")),
    row(V, "keep | KeyError | one chain's position", lambda: sampled(keep=lambda p: {}[0])),
    row(V, "keep | None | returns a tree of arrays", lambda: sampled(keep=lambda p: None)),
    row(
        T,
        "moments | 'dense' | a MomentPlan (ewsg_jax.moments(…))",
        lambda: sampled(moments="dense"),
    ),
    row(
        T,
        "moments | dtype bool | floating-point",
        lambda: sampled(moments=ewsg.moments(lambda p: p > 0)),
    ),
)


def no_samples(folder: Path) -> Any:
    """Load a file that holds something else."""
    np.savez(folder / "run.npz", x=np.ones(3))
    return ewsg.load(folder / "run.npz")


of(
    "load",
    row(T, "path | 3 (int) | the path of a file", lambda: ewsg.load(3)),
    row(V, "path | run.npz | a file that samples.save wrote", no_samples),
)
of(
    "moments",
    row(T, "of | 'mean' (str) | a function (position)", lambda: ewsg.moments("mean")),
    row(
        V,
        "covariance | 'full' (str) | 'diagonal', 'dense'",
        lambda: ewsg.moments(covariance="full"),
    ),
    row(V, "weights | None | 'equal', 'step_size'", lambda: ewsg.moments(weights=None)),
)


GRID = [ewsg.sgld(MODEL, h, batch_size=2) for h in (0.1, 0.2)]
BY_NUMBERS = "some that differ by their numbers alone, or one made under vmap"
OF_A_RUN = "samples.state of a run of this kernel"


@functools.cache
def of_grid() -> Any:
    return sampled(kernel=ewsg.stack(GRID))


def under_vmap() -> Any:
    return jax.vmap(lambda h: ewsg.sgld(MODEL, h, batch_size=2))(jnp.array([0.1, 0.2]))


def step_under_vmap() -> Any:
    state = GRID[0].init(jax.random.key(0), POINT, DATA)
    return under_vmap().step(jax.random.key(0), state, DATA)


def of_masses() -> Any:
    return ewsg.stack([ewsg.uld(MODEL, 0.1, friction=1.0, inverse_mass=jnp.eye(d)) for d in (2, 3)])


of(
    "stack",
    row(T, f"kernels | got [] (list) | {BY_NUMBERS}", lambda: ewsg.stack([])),
    row(T, f"kernels | got 3 (int) | {BY_NUMBERS}", lambda: ewsg.stack(3)),
    row(T, f"kernels | (generator) | {BY_NUMBERS}", lambda: ewsg.stack(kernel for kernel in GRID)),
    row(
        T,
        f"kernels | got 0.1 (float) as number 1 | {BY_NUMBERS}",
        lambda: ewsg.stack([GRID[0], 0.1]),
    ),
    row(V, "kernels | got kernel( | an axis of members", lambda: ewsg.stack(GRID[0])),
    row(T, f"kernels | got a stack | {BY_NUMBERS}", lambda: ewsg.stack(ewsg.stack(GRID))),
    row(T, f"kernels | (Stack) as number 0 | {BY_NUMBERS}", lambda: ewsg.stack([ewsg.stack(GRID)])),
    row(
        V,
        f"kernels | as number 1, kernel( | {BY_NUMBERS}",
        lambda: ewsg.stack([GRID[0], ewsg.sgld(MODEL, 0.1, batch_size=3)]),
    ),
    row(V, f"kernels | got dynamics.mass | {BY_NUMBERS}", of_masses),
)

LISTS = [jnp.ones((4, 2)), jnp.ones((6, 2))]
ALIKE = "a list of trees of arrays, alike but for their numbers of rows"
MASK = "1 for rows that count and 0 for others"
PAIRS = {"x": jnp.ones((2, 5, 3))}


def of_two(kernel: Any, **options: Any) -> Any:
    return sampled(kernel=kernel, data=ewsg.stack_data(LISTS), **options)


of(
    "stack_data",
    row(T, f"data_sets | got [] (list) | {ALIKE}", lambda: ewsg.stack_data([])),
    row(
        T, f"data_sets | got an array of shape (6, 2) | {ALIKE}", lambda: ewsg.stack_data(LISTS[1])
    ),
    row(V, f"data_sets | without leaves | {ALIKE}", lambda: ewsg.stack_data([{}, {}])),
    row(T, f"data_sets | number 1 is not | {ALIKE}", lambda: ewsg.stack_data([LISTS[0], 3])),
    row(
        V,
        f"data_sets | number 1 is not | {ALIKE}",
        lambda: ewsg.stack_data([LISTS[0], LISTS[0][:0]]),
    ),
    row(
        V,
        f"data_sets | as number 1 | {ALIKE}",
        lambda: ewsg.stack_data([LISTS[0], LISTS[1][:, :1]]),
    ),
    row(
        V,
        f"data_sets | as number 1 | {ALIKE}",
        lambda: ewsg.stack_data([LISTS[0], {"x": LISTS[1]}]),
    ),
    row(
        V,
        f"data_sets | as number 1 | {ALIKE}",
        lambda: ewsg.stack_data([LISTS[0], LISTS[1].astype(int)]),
    ),
    row(V, "labels | ['a'] | one for each of 2", lambda: ewsg.stack_data(LISTS, labels=["a"])),
    row(V, "labels | ['a', 'a'] | differ", lambda: ewsg.stack_data(LISTS, labels=["a", "a"])),
    row(
        V,
        f"weights | (2, 5) | {MASK}",
        lambda: ewsg.stack_data(PAIRS, weights=np.full((2, 5), 0.5)),
    ),
    row(V, f"weights | (5,) | {MASK}", lambda: ewsg.stack_data(PAIRS, weights=np.ones(5))),
    row(
        V,
        f"weights | (2, 5) | {MASK}",
        lambda: ewsg.stack_data(PAIRS, weights=np.eye(2, 5) * [[1], [0]]),
    ),
    row(
        V,
        "data_sets | got shapes [(2, 5, 3)] | of shapes (2, 4)",
        lambda: ewsg.stack_data(PAIRS, weights=np.ones((2, 4))),
    ),
    row(
        V,
        "data_sets | without leaves | axes (data set, row, …)",
        lambda: ewsg.stack_data({}, weights=np.ones((2, 4))),
    ),
)

of(
    "sample: batches of chains",
    row(V, "chain_batch_size | got 0 | at least 1", lambda: sampled(chain_batch_size=0)),
    row(T, "chain_batch_size | got 0.5 | whole number", lambda: sampled(chain_batch_size=0.5)),
    row(
        V,
        "seconds | got 3 | None with chain_batch_size",
        lambda: sampled(chain_batch_size=1, seconds=3),
    ),
    row(
        V,
        "position | got shapes [(3, 2)] | of length num_chains = 2",
        lambda: sampled(chain_batch_size=2, position=jnp.zeros((3, 2)), stacked=True, num_chains=2),
    ),
    row(
        V,
        "position | stack the list first | a leading chain axis",
        lambda: sampled(position=[(jnp.zeros(2), jnp.ones(3))] * 2, stacked=True),
    ),
    row(
        V,
        "position | got shapes [()] | a leading chain axis",
        lambda: sampled(chain_batch_size=2, position=jnp.zeros(()), stacked=True),
    ),
    row(
        V,
        "state | (1, 2) float32 | of num_chains = 2 chains",
        lambda: sampled(chain_batch_size=2, position=None, state=sampled().state, num_chains=2),
    ),
    row(
        T,
        f"state | 3 (int) | {OF_A_RUN}",
        lambda: sampled(chain_batch_size=2, position=None, state=3),
    ),
    row(
        V,
        "position | got both | either position or state",
        lambda: sampled(chain_batch_size=2, state=sampled().state),
    ),
    row(
        V,
        "position | got neither | either position or state",
        lambda: sampled(chain_batch_size=2, position=None, stacked=True),
    ),
)

of(
    "sample: data sets",
    row(T, "kernel | 3 (int) | a named method", lambda: of_two(3)),
    row(
        V,
        "kernel | stack of 3 | one for each of 2 data sets",
        lambda: of_two(ewsg.stack([*GRID, ewsg.sgld(MODEL, 0.3, batch_size=2)])),
    ),
    row(
        V,
        "kernel | rows='blocks' | rows='random'",
        lambda: of_two(ewsg.sgld(MODEL, 0.1, batch_size=2, rows="blocks")),
    ),
    row(
        V,
        "kernel | covariance_tracking | the estimators uniform",
        lambda: of_two(ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=2)),
    ),
    row(
        V,
        "batch_size | got 5 | at most n = 4",
        lambda: of_two(ewsg.sgld(MODEL, 0.1, batch_size=5, replace=False)),
    ),
    row(
        V,
        "data | 1 NaN | finite",
        lambda: sampled(
            kernel=GRID[0], data=ewsg.stack_data([LISTS[0], LISTS[1].at[2, 1].set(jnp.nan)])
        ),
    ),
    row(
        T,
        "data | (StackedData) | a tree of arrays",
        lambda: GRID[0].init(jax.random.key(0), POINT, ewsg.stack_data(LISTS)),
    ),
)

of(
    "sample: a stack",
    row(V, "kernel | step_size of shape (2,) | stack", lambda: sampled(kernel=under_vmap())),
    row(V, "kernel | step_size of shape (2,) | ewsg_jax.stack(kernel)", step_under_vmap),
    row(
        V,
        f"state | got that of one kernel | {OF_A_RUN}",
        lambda: sampled(kernel=ewsg.stack(GRID), position=None, state=of_grid()[0].state),
    ),
    row(
        V,
        f"state | got that of a stack | {OF_A_RUN}",
        lambda: sampled(kernel=GRID[0], position=None, state=of_grid().state),
    ),
    row(
        V,
        "position | got shapes [(3,)] | a leading axis of the 2 members",
        lambda: ewsg.stack(GRID).init(jax.random.key(0), jnp.zeros(3), DATA),
    ),
    row(
        T,
        "samples | got StackedSamples( | runs[i] of a stack",
        lambda: ewsg.check(jax.random.key(0), of_grid(), MODEL, DATA),
    ),
    row(
        T,
        "samples | got StackedSamples( | runs[i] of a stack",
        lambda: ewsg.diagnostics.summary(of_grid()),
    ),
    row(
        T,
        "later | got Samples( | ewsg_jax.sample of a stack",
        lambda: of_grid().concatenate(of_grid()[0]),
    ),
    row(T, "path | 3 (int) | the path of a file", lambda: of_grid().plot(3)),
    row(
        V,
        "draws | kept none | plot must have draws",
        lambda: sampled(kernel=ewsg.stack(GRID), keep=None, moments=ewsg.moments()).plot(),
    ),
)


def of_members(position: Any, stacked: Any, **changes: Any) -> Any:
    """Sample two members, each from its own start, with something wrong."""
    return sampled(kernel=ewsg.stack(GRID), position=position, stacked=stacked, **changes)


def of_two_sets(position: Any, stacked: Any) -> Any:
    """Likewise two data sets."""
    return sampled(data=ewsg.stack_data([DATA, DATA]), position=position, stacked=stacked)


of(
    "sample: starts of members",
    row(V, "stacked | 'members' | True or False", lambda: sampled(stacked="members")),
    row(V, "stacked | 'member' | True, False or 'members'", lambda: of_members(POINT, "member")),
    row(
        V,
        "position | shape (3, 2) | a leading axis of the 2 members",
        lambda: of_members(jnp.zeros((3, 2)), "members"),
    ),
    row(
        V,
        "position | shape (3, 2) | a leading axis of the 2 members",
        lambda: of_two_sets(jnp.zeros((3, 2)), "members"),
    ),
    row(
        V,
        "position | shape (3,) | jnp.stack(x), *positions)",
        lambda: of_two_sets([jnp.zeros(3)] * 300, "members"),
    ),
    row(
        V,
        "stacked | 'chains and members' | give stacked='members' and a function of a key that",
        lambda: of_members(jnp.zeros((4, 2, 2)), "chains and members"),
    ),
    row(
        V,
        "position | shapes [(3,)] | a leading axis of the 2 members",
        lambda: of_members(lambda key: jnp.zeros(3), "members"),
    ),
    row(
        V,
        "stacked | got 'members' | False where state is given",
        lambda: of_members(None, "members", state=of_grid().state),
    ),
    row(
        V,
        "position | got neither | either position or state",
        lambda: of_members(None, "members"),
    ),
)


A_CHECKPOINT = "a checkpoint of ewsg_jax.sample"


def on_disk(path: Path, **changes: Any) -> Path:
    """Return where a run of ten steps is written down."""
    sampled(checkpoint=path / "run", **changes)
    return path / "run"


def in_batches(path: Path, name: str = "run") -> Path:
    """Return where a run of four chains, two at a time, is written down."""
    sampled(checkpoint=path / name, num_chains=4, chain_batch_size=2)
    return path / name


def of_two_runs(path: Path) -> Path:
    """Return where the first batch of a run is that of another one."""
    there, other = in_batches(path), in_batches(path, "other")
    shutil.rmtree(there / "chains-000000")
    (other / "chains-000000").rename(there / "chains-000000")
    return there


def without_draws(path: Path) -> Path:
    """Return where a batch has lost its draws."""
    there = in_batches(path)
    (there / "chains-000002" / "draws-000000.npz").unlink()
    return there


def resumed(path: Path, kernel: Any = GRID[0], data: Any = DATA, **changes: Any) -> Any:
    """Go on with a run of `GRID[0]`, with something wrong."""
    return ewsg.resume(
        on_disk(path, kernel=GRID[0]), data, kernel=kernel, progress=False, **changes
    )


of(
    "sample: keep_when",
    row(
        T,
        "keep_when | got 10 (int) | a function (step) -> boolean",
        lambda: sampled(keep_when=10),
    ),
    row(
        T,
        "keep_when | it returned | returns a boolean",
        lambda: sampled(keep_when=lambda step: step),
    ),
    row(V, "keep_when | it failed | of a step's number", lambda: sampled(keep_when=len)),
    row(
        V,
        "keep_when | none of the 10 | must keep a step",
        lambda: sampled(keep_when=lambda i: i > 99),
    ),
)

of(
    "sample: a checkpoint",
    row(T, "checkpoint | 3 (int) | the path of a file", lambda: sampled(checkpoint=3)),
    row(
        V,
        "checkpoint | run' | must be where no run is yet",
        lambda path: sampled(checkpoint=on_disk(path)),
    ),
    row(
        V,
        "checkpoint | run' | must be where no run is yet",
        lambda path: sampled(checkpoint=in_batches(path), num_chains=4, chain_batch_size=4),
    ),
)

of(
    "resume",
    row(T, "path | 3 (int) | the path of a file", lambda: ewsg.resume(3, DATA, kernel=GRID[0])),
    row(T, "kernel | gaussian_location( | a Kernel (", lambda path: resumed(path, MODEL)),
    row(
        V,
        f"path | it has no run.npz | {A_CHECKPOINT}",
        lambda path: ewsg.resume(path, DATA, kernel=GRID[0]),
    ),
    row(
        V,
        "kernel | got kernel( | must be that of the run in",
        lambda path: resumed(path, GRID[1]),
    ),
    row(
        V,
        "kernel | got stack of 2 | must be that of",
        lambda path: resumed(path, ewsg.stack(GRID)),
    ),
    row(
        V,
        "data | got other numbers | must be that of the run in",
        lambda path: resumed(path, data=DATA + 1),
    ),
    row(V, "data | got ((5, 2) | must be that of", lambda path: resumed(path, data=DATA[:-1])),
    row(V, "keep | got sum | must be that of", lambda path: resumed(path, keep=jnp.sum)),
    row(
        V,
        "moments | got positions | must be that of",
        lambda path: resumed(path, moments=ewsg.moments()),
    ),
    row(V, f"seconds | got 0 | {POSITIVE}", lambda path: resumed(path, seconds=0)),
    row(
        V,
        "seconds | got 3 | None with chain_batch_size",
        lambda path: ewsg.resume(in_batches(path), DATA, kernel=KERNEL, seconds=3),
    ),
    row(
        V,
        "data | got other numbers | must be that of the run in",
        lambda path: ewsg.resume(in_batches(path), DATA + 1, kernel=KERNEL),
    ),
    row(
        V,
        f"path | chains-000000 is of another run | {A_CHECKPOINT}",
        lambda path: ewsg.resume(of_two_runs(path), DATA, kernel=KERNEL),
    ),
    row(
        V,
        f"path | it has no draws-000000.npz | {A_CHECKPOINT}",
        lambda path: ewsg.resume(without_draws(path), DATA, kernel=KERNEL),
    ),
)
