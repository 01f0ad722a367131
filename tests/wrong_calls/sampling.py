"""Wrong calls of `sample`, `load` and `moments`."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.stacks import OF_A_RUN
from tests.wrong_calls.standard import COUNT, NUMBER, choice, every, refuses
from tests.wrong_calls.table import (
    DATA,
    KERNEL,
    KEY,
    LANGEVIN,
    MODEL,
    NAN,
    POINT,
    ROWS,
    WRONG,
    over,
    sampled,
)

LAST = ewsg.rows.by_probability(np.arange(len(DATA)) // (len(DATA) // 2))
FOUR = ewsg.rows.by_probability(np.ones(4))


ON_ONE = "(batch_size=2) needs all rows on one device | no axis 'data'"


def in_parts(make: Any, rows: str) -> Any:
    estimator = make(MODEL, batch_size=2, rows=rows)
    return sampled(kernel=ewsg.kernel(LANGEVIN, estimator), mesh=over("data"))


def in_passes(data_passes: Any) -> Any:
    return sampled(num_steps=None, data_passes=data_passes)


class Settled(NamedTuple):
    """A plan."""

    kernel: Any = KERNEL
    start: Any = POINT

    def sample_options(self) -> dict[str, Any]:
        return {"data_passes": 5.0, "num_chains": 1}


PLAN, AFTER_PLAN = Settled(), "data must follow the plan, sample(key, plan, data)"
WRONG["sample"] |= {
    "T data | gaussian_location( | sample(key, kernel, position, data), or": (
        lambda: ewsg.sample(KEY, MODEL, DATA)
    ),
    "T data | 'sghmc' (str) | sample(key, kernel, position, data), or": (
        lambda: ewsg.sample(KEY, "sghmc", DATA)
    ),
    f"T data | key, Settled( | {AFTER_PLAN}": lambda: ewsg.sample(KEY, PLAN),
    f"T data | shape (2,) | {AFTER_PLAN}": (
        lambda: ewsg.sample(KEY, PLAN, POINT, DATA),
        lambda: ewsg.sample(KEY, PLAN, POINT, ROWS),
        lambda: ewsg.sample(KEY, PLAN, POINT, DATA, 10),
        lambda: ewsg.sample(KEY, PLAN, POINT, data=DATA),
    ),
    f"T data | None | {AFTER_PLAN}": lambda: ewsg.sample(KEY, PLAN, None, DATA),
    f"T data | num_steps=… | {AFTER_PLAN}": lambda: ewsg.sample(KEY, PLAN, DATA, 10, num_steps=5),
    "V num_steps or data_passes | num_steps=10 | give either": (
        lambda: ewsg.sample(KEY, PLAN, DATA, 10, data_passes=5.0)
    ),
}

right = functools.partial(
    ewsg.sample, key=KEY, kernel=KERNEL, position=POINT, data=DATA, num_steps=10
)
every("sample", right, chain_batch_size=COUNT, checkpoint_every=NUMBER)
WRONG["sample"] |= {
    "T kernel | gaussian_location( | a Kernel (": lambda: sampled(kernel=MODEL),
    "V mesh | ('batch',) | 'chains', 'data'": lambda: sampled(mesh=over("batch")),
    "V batch_size | got 1 | multiple of 2": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=1), mesh=over("data")
    ),
    f"V mesh | epochs{ON_ONE}": (
        lambda: in_parts(ewsg.gradients.uniform, "epochs"),
        lambda: in_parts(ewsg.gradients.covariance_tracking, "epochs"),
    ),
    f"V mesh | blocks{ON_ONE}": lambda: in_parts(ewsg.gradients.uniform, "blocks"),
    "V mesh | n = 1 | an axis 'data' of": lambda: sampled(data=DATA[:1], mesh=over("data")),
    "V rows | got part 0 | in each of the 2 parts": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows=LAST), mesh=over("data")
    ),
    "V rows | got 4 probabilities | a probability for each": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows=FOUR), mesh=over("data")
    ),
    "V chain_batch_size | got 2 | None with mesh": lambda: sampled(
        num_chains=4, chain_batch_size=2, mesh=over("chains")
    ),
    "T kernel | function sgld | call it to make one": lambda: sampled(kernel=ewsg.sgld),
    "V data | holds 1 NaN | must be finite": lambda: sampled(data=DATA.at[0, 0].set(NAN)),
    "V num_steps | got 10 | at least burn_in + thin = 11": lambda: sampled(burn_in=10),
    "V num_steps | data_passes=None | give either": lambda: sampled(num_steps=None),
    "V data_passes | data_passes=1.0 | give either": lambda: sampled(data_passes=1.0),
    "V data_passes | got 0.1 | must allow at least one step": lambda: in_passes(0.1),
}
refuses("sample", in_passes, data_passes=NUMBER.without("got 0", "got -1.0", "shape (2,)"))

IN_TIME = "must be enough for burn_in + thin = "


def timed(seconds: Any, **changes: Any) -> Any:
    return sampled(seconds=seconds, **changes)


WRONG["sample: seconds"] |= {
    f"V seconds | got 1e-09, in which | {IN_TIME}": lambda: timed(
        1e-9, num_steps=10**8, burn_in=10**8 - 9
    ),
    "V num_steps | data_passes=None with seconds=1.0 | give either": lambda: timed(
        1.0, num_steps=None
    ),
    "V num_steps | seconds=1.0 | give either": lambda: sampled(data_passes=1.0, seconds=1.0),
}


ON_HOST = (
    "for many chains give num_chains=…; in a program of your own put kernel.init and "
    "kernel.step into jax.lax.scan"
)
POINTS = jnp.zeros((3, 2))


def at_step_size(h: Any) -> Any:
    return sampled(kernel=ewsg.sgld(MODEL, h, batch_size=2)).draws


WRONG["sample: traced"] |= {
    f"T position | a traced position | {ON_HOST}": (
        lambda: jax.vmap(lambda p: sampled(position=p).draws)(POINTS),
        lambda: jax.grad(lambda p: sampled(position=p))(POINT),
    ),
    f"T kernel | a traced kernel | {ON_HOST}": lambda: jax.vmap(at_step_size)(jnp.ones(3)),
    f"T data | a traced data | {ON_HOST}": lambda: jax.jit(lambda data: sampled(data=data).draws)(
        DATA
    ),
    f"T sample | under jit | {ON_HOST}": lambda: jax.jit(lambda: sampled().draws)(),
}


class Start(nn.Module):
    """A module whose class is taken for a function of a key."""


FOLLOWS, KEEPS = "a run that continued from the state of these samples", "and keeps what they keep"


def joined(num_steps: int = 10, **changes: Any) -> Any:
    """Join to the samples of ten steps what went on from them, with something wrong."""
    changes = {"position": None, "state": last_state(), "data": DATA} | changes
    return sampled().concatenate(sampled(num_steps=num_steps, **changes))


def doubled(position: Any) -> Any:
    return 2 * position


WRONG["sample: joined"] |= {
    "T later | (2,) | a Samples (what ewsg_jax.sample": lambda: sampled().concatenate(POINT),
    f"V later | one from step 0 on | {FOLLOWS}": lambda: joined(position=POINT, state=None),
    f"V from step 10 on | one from step 20 on | {FOLLOWS}": lambda: joined(
        state=sampled(position=None, state=last_state()).state
    ),
    f"V of 1 chains | one of 2 chains | {FOLLOWS}": lambda: joined(
        position=POINT, state=None, num_chains=2
    ),
    f"V on 6 rows | one on 5 rows | {FOLLOWS}": lambda: joined(
        position=POINT, state=None, data=DATA[:5]
    ),
    f"V draws | one without draws | {KEEPS}": lambda: joined(keep=None, moments=ewsg.moments()),
    f"V draws | shape () | {KEEPS}": lambda: joined(keep=jnp.sum),
    f"V positions | keeps a function of them | {KEEPS}": lambda: joined(keep=doubled),
    f"V moments | moments['mean'] | {KEEPS}": lambda: joined(moments=ewsg.moments()),
}


A_FUNCTION = "a function of a key"
MOVING = ewsg.sghmc(MODEL, 0.1, friction=1.0, batch_size=2)


@functools.cache
def last_state() -> Any:
    return sampled().state


def resumed(**changes: Any) -> Any:
    return sampled(**({"position": None, "state": last_state()} | changes))


def started(position: Any) -> Any:
    return sampled(position=position, num_chains=2)


def fails(key: Any) -> Any:
    raise RuntimeError("no start")


WRONG["sample: where it starts"] |= {
    f"T position | the class Start | {A_FUNCTION}": lambda: started(Start),
    f"V position | no start | {A_FUNCTION}": lambda: started(fails),
    f"V position | takes 0 positional | {A_FUNCTION}": lambda: started(lambda: POINT),
    "T position(key) | int32 | floating-point": lambda: started(jax.random.bits),
    f"V position | TypeError | {A_FUNCTION}": lambda: started(lambda key: "here"),
    "V stacked | got True | must be False": lambda: sampled(position=len, stacked=True),
    "V stacked | got True | False with state": lambda: resumed(stacked=True),
    f"V state | (1, 2) float32 | {OF_A_RUN}": lambda: resumed(num_chains=2),
    f"V state | without state.dynamics.momentum | {OF_A_RUN}": lambda: resumed(kernel=MOVING),
    "V position | (0,) | at least one number": lambda: sampled(position=POINT[:0]),
    "V position(key) | (0,) | at least one number": lambda: started(lambda key: POINT[:0]),
    "V position | the same for each of 2 chains | a function of its key": lambda: started(
        lambda key: POINT
    ),
    "V position | neither | either position or state": lambda: sampled(position=None),
    "V state | both | either position or state": lambda: sampled(state=last_state()),
    "V data | got 3 | all 6 rows that init saw": lambda: resumed(data=DATA[:3]),
    f"T state | shape (2,) | {OF_A_RUN}": lambda: resumed(state=POINT),
    "V state | [10 11] | chains at one step": lambda: resumed(state=two_steps()),
    f"V num_steps | got {2**31} | to 2147483647": lambda: sampled(num_steps=2**31),
}


def two_steps() -> Any:
    """A state of two chains, one of them a step ahead."""
    state = sampled(num_chains=2).state
    return state.at_step(state.step + jnp.arange(2, dtype=jnp.int32))


WRONG["sample: what it keeps"] |= {
    "T keep | 'position' | a function (position)": lambda: sampled(keep="position"),
    "V keep | KeyError | one chain's position": lambda: sampled(keep=lambda p: {}[0]),
    "V keep | None | returns a pytree of arrays": lambda: sampled(keep=lambda p: None),
    "T moments | 'dense' | a MomentPlan (ewsg_jax.moments(…))": lambda: sampled(moments="dense"),
    "T moments | dtype bool | floating-point": lambda: sampled(
        moments=ewsg.moments(lambda p: p > 0)
    ),
}


def no_samples(folder: Path) -> Any:
    """Load a file that holds something else."""
    np.savez(folder / "run.npz", x=np.ones(3))
    return ewsg.load(folder / "run.npz")


WRONG["load"] |= {
    "T path | 3 (int) | the path of a file": lambda: ewsg.load(3),
    "V path | run.npz | a file that samples.save wrote": no_samples,
}
WRONG["moments"] |= {
    "T of | 'mean' (str) | a function (position)": lambda: ewsg.moments("mean"),
}
refuses(
    "moments",
    ewsg.moments,
    covariance=choice("none", "diagonal", "dense"),
    weights=choice("equal", "step_size", "next_step_size"),
    steps=choice("kept", "all"),
)


WRONG["sample: batches of chains"] |= {
    "V first_chain | got -1 | a whole number, from 0 to": lambda: sampled(first_chain=-1),
    "V first_chain | got 2147483647 | from 0 to 2147483645": lambda: sampled(
        first_chain=2**31 - 1, num_chains=2
    ),
    "T first_chain | got 1.0 (float) | a whole number, from 0 to": lambda: sampled(first_chain=1.0),
    "T first_chain | got True | a whole number, from 0 to": lambda: sampled(first_chain=True),
    "V chain_batch_size | got 2 | None with first_chain": lambda: sampled(
        num_chains=4, chain_batch_size=2, first_chain=0
    ),
    "V seconds | got 3 | None with chain_batch_size": lambda: sampled(
        chain_batch_size=1, seconds=3
    ),
    "V position | got shapes [(3, 2)] | of length num_chains = 2": lambda: sampled(
        chain_batch_size=2, position=jnp.zeros((3, 2)), stacked=True, num_chains=2
    ),
    "V position | stack the list first | a leading chain axis": lambda: sampled(
        position=[(jnp.zeros(2), jnp.ones(3))] * 2, stacked=True
    ),
    "V position | got shapes [(2,), (3,), (2,), (3,), (2,), …] | stack the list": lambda: sampled(
        position=[(jnp.zeros(2), jnp.ones(3))] * 50, stacked=True
    ),
    "V log_likelihood | If position lists starts: stack the list first | a scalar": lambda: sampled(
        position=[jnp.zeros(2)] * 2, stacked=True
    ),
    "V position | got shapes [()] | a leading chain axis": lambda: sampled(
        chain_batch_size=2, position=jnp.zeros(()), stacked=True
    ),
    "V state | (1, 2) float32 | of num_chains = 2 chains": lambda: sampled(
        chain_batch_size=2, position=None, state=sampled().state, num_chains=2
    ),
    f"T state | 3 (int) | {OF_A_RUN}": lambda: sampled(chain_batch_size=2, position=None, state=3),
    "V position | got both | either position or state": lambda: sampled(
        chain_batch_size=2, state=sampled().state
    ),
    "V position | got neither | either position or state": lambda: sampled(
        chain_batch_size=2, position=None, stacked=True
    ),
}

WRONG["sample: keep_when"] |= {
    "T keep_when | got 10 (int) | a function (step) -> boolean": lambda: sampled(keep_when=10),
    "T keep_when | it returned | returns a boolean": lambda: sampled(keep_when=lambda step: step),
    "V keep_when | it failed | of a step's number": lambda: sampled(keep_when=len),
    "V keep_when | none of the 10 | must keep a step": lambda: sampled(keep_when=lambda i: i > 99),
}
