"""Wrong calls of stacks of kernels and of data sets, and of what is sampled with them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
from typing import Any

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, refuses
from tests.wrong_calls.table import DATA, MODEL, POINT, WRONG, T, V, over, sampled

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


def of_mass(d: int) -> Any:
    return ewsg.uld(MODEL, 0.1, friction=1.0, inverse_mass=jnp.eye(d))


refuses(
    "stack",
    ewsg.stack,
    kernels=Kind(
        BY_NUMBERS,
        (
            (T, [], "got [] (list)"),
            (T, 3, "got 3 (int)"),
            (T, (kernel for kernel in GRID), "(generator)"),
            (T, [GRID[0], 0.1], "got 0.1 (float) as number 1"),
            (T, ewsg.stack(GRID), "got a stack"),
            (T, [ewsg.stack(GRID)], "(Stack) as number 0"),
            (V, [GRID[0], ewsg.sgld(MODEL, 0.1, batch_size=3)], "as number 1, kernel("),
            (V, [of_mass(2), of_mass(3)], "got dynamics.mass"),
        ),
    ),
)
WRONG["stack"] |= {
    "V kernels | got kernel( | an axis of members": lambda: ewsg.stack(GRID[0]),
}

LISTS = [jnp.ones((4, 2)), jnp.ones((6, 2))]
ALIKE = "a list of pytrees of arrays, alike but for their numbers of rows"


def of_two(kernel: Any, **options: Any) -> Any:
    return sampled(kernel=kernel, data=ewsg.stack_data(LISTS), **options)


FIRST = LISTS[0]
refuses(
    "stack_data",
    ewsg.stack_data,
    data_sets=Kind(
        ALIKE,
        (
            (T, [], "got [] (list)"),
            (T, LISTS[1], "got an array of shape (6, 2)"),
            (V, [{}, {}], "without leaves"),
            (T, [FIRST, 3], "number 1 is not"),
            (V, [FIRST, FIRST[:0]], "number 1 is not"),
            (V, [FIRST, FIRST[:, :1]], "as number 1"),
            (V, [FIRST, {"x": FIRST}], "as number 1"),
            (V, [FIRST, FIRST.astype(int)], "as number 1"),
        ),
    ),
)
WRONG["stack_data"] |= {
    "V labels | ['a'] | one for each of 2": lambda: ewsg.stack_data(LISTS, labels=["a"]),
    "V labels | ['a', 'a'] | differ": lambda: ewsg.stack_data(LISTS, labels=["a", "a"]),
    "V labels | [[1], [1, 2]] | all numbers or all strings": lambda: ewsg.stack_data(
        LISTS, labels=[[1], [1, 2]]
    ),
    "V labels | [None, 'a'] | all numbers or all strings": lambda: ewsg.stack_data(
        LISTS, labels=[None, "a"]
    ),
    "T number | 'a' (str) | a whole number from 0 to 1": lambda: ewsg.stack_data(LISTS)["a"],
    "T member | slice(None, 1, None) (slice) | a whole number from 0 to 1": (
        lambda: ewsg.stack(GRID)[:1],
        lambda: of_grid()[:1],
    ),
}

WRONG["sample: data sets"] |= {
    "T kernel | 3 (int) | a named method": lambda: of_two(3),
    "V kernel | stack of 3 | one for each of 2 data sets": lambda: of_two(
        ewsg.stack([*GRID, ewsg.sgld(MODEL, 0.3, batch_size=2)])
    ),
    "V kernel | rows='blocks' | rows='random'": lambda: of_two(
        ewsg.sgld(MODEL, 0.1, batch_size=2, rows="blocks")
    ),
    "V kernel | covariance_tracking | the estimators uniform": lambda: of_two(
        ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=2)
    ),
    "V kernel | flymc( | the estimators uniform": lambda: sampled(
        kernel=ewsg.flymc(ewsg.models.logistic_regression(), 0.1, capacity=4),
        data=ewsg.stack_data([{"x": rows, "y": jnp.ones(len(rows))} for rows in LISTS]),
    ),
    "V batch_size | got 5 | at most n = 4": lambda: of_two(
        ewsg.sgld(MODEL, 0.1, batch_size=5, replace=False)
    ),
    "V batch_size | got 2 | at most n = 1": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, replace=False),
        data=ewsg.stack_data([LISTS[0][:1], LISTS[1]]),
    ),
    "V mesh | axis 2 long | no axis 'data'": (
        lambda: of_two(GRID[0], mesh=over("data")),
        lambda: of_two(ewsg.stack(GRID), mesh=over("data")),
    ),
    "V data | 1 NaN | finite": lambda: sampled(
        kernel=GRID[0], data=ewsg.stack_data([LISTS[0], LISTS[1].at[2, 1].set(jnp.nan)])
    ),
    "T data | (StackedData) | a pytree of arrays": lambda: GRID[0].init(
        jax.random.key(0), POINT, ewsg.stack_data(LISTS)
    ),
}

WRONG["sample: a stack"] |= {
    "V kernel | step_size of shape (2,) | stack": lambda: sampled(kernel=under_vmap()),
    "V kernel | step_size of shape (2,) | ewsg_jax.stack(kernel)": step_under_vmap,
    f"V state | got that of one kernel | {OF_A_RUN}": lambda: sampled(
        kernel=ewsg.stack(GRID), position=None, state=of_grid()[0].state
    ),
    f"V state | got that of a stack | {OF_A_RUN}": lambda: sampled(
        kernel=GRID[0], position=None, state=of_grid().state
    ),
    "V position | got shapes [(3,)] | a leading axis of the 2 members": lambda: ewsg.stack(
        GRID
    ).init(jax.random.key(0), jnp.zeros(3), DATA),
    "T samples | got StackedSamples( | runs[i] of a stack": (
        lambda: ewsg.check(jax.random.key(0), of_grid(), MODEL, DATA),
        lambda: ewsg.diagnostics.summary(of_grid()),
    ),
    "T later | got Samples( | ewsg_jax.sample of a stack": lambda: of_grid().concatenate(
        of_grid()[0]
    ),
    "T path | 3 (int) | the path of a file": lambda: of_grid().plot(3),
    "V draws | kept none | plot must have draws": lambda: sampled(
        kernel=ewsg.stack(GRID), keep=None, moments=ewsg.moments()
    ).plot(),
}


def of_members(position: Any, stacked: Any, **changes: Any) -> Any:
    """Sample two members, each from its own start, with something wrong."""
    return sampled(kernel=ewsg.stack(GRID), position=position, stacked=stacked, **changes)


def of_two_sets(position: Any, stacked: Any) -> Any:
    """Likewise two data sets."""
    return sampled(data=ewsg.stack_data([DATA, DATA]), position=position, stacked=stacked)


WRONG["sample: starts of members"] |= {
    "V stacked | 'members' | True or False": lambda: sampled(stacked="members"),
    "V stacked | 'member' | True, False or 'members'": lambda: of_members(POINT, "member"),
    "V position | shape (3, 2) | a leading axis of the 2 members": (
        lambda: of_members(jnp.zeros((3, 2)), "members"),
        lambda: of_two_sets(jnp.zeros((3, 2)), "members"),
    ),
    "V position | shape (3,) | jnp.stack(x), *positions)": lambda: of_two_sets(
        [jnp.zeros(3)] * 300, "members"
    ),
    "V stacked | 'chains and members' | give stacked='members' and a function": lambda: of_members(
        jnp.zeros((4, 2, 2)), "chains and members"
    ),
    "V position | shapes [(3,)] | a leading axis of the 2 members": lambda: of_members(
        lambda key: jnp.zeros(3), "members"
    ),
    "V stacked | got 'members' | False with state": lambda: of_members(
        None, "members", state=of_grid().state
    ),
    "V position | got neither | either position or state": lambda: of_members(None, "members"),
}
