"""Wrong calls of the check of draws."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import NUMBER, every
from tests.wrong_calls.table import DATA, KEY, MODEL, NAN, WRONG

MANY = jnp.tile(DATA, (9, 1))
DRAWS = np.random.default_rng(0).normal(size=(2, 20, 2)).astype(np.float32)
A_MODE = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), DATA)
TREE, LEADING = "a pytree of arrays with leading axes (chain, draw)", "leading axes (chain, draw)"
WITH_GRADIENT = "must lie where the potential has a gradient"
A_RATE = "must be a number from 0 up to but not including 1"
NO_ROOT = ewsg.Posterior(lambda w, x: -jnp.sum((w - x) ** 2), lambda w: jnp.sum(jnp.sqrt(w)))


def checked(samples=DRAWS, **changes):
    """Check draws with something wrong."""
    arguments = {"key": KEY, "posterior": MODEL, "data": DATA} | changes
    return ewsg.check(
        arguments.pop("key"),
        samples,
        arguments.pop("posterior"),
        arguments.pop("data"),
        **arguments,
    )


def norms():
    """A run that keeps no positions."""
    kernel = ewsg.ld(MODEL, 0.01)
    return ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 20, keep=jnp.linalg.norm)


def run(kernel, data=DATA):
    """A run of few draws."""
    return ewsg.sample(KEY, kernel, jnp.zeros(2), data, 20, num_chains=2)


LANGEVIN, UNDERDAMPED = ewsg.ld(MODEL, 0.01), ewsg.uld(MODEL, 0.01, friction=1.0)
WITH_MOMENTUM = "of a dynamics with a momentum"

right = functools.partial(ewsg.check, key=KEY, samples=DRAWS, posterior=MODEL, data=DATA)
every("check", right, batch_size=None, rows=None, temperature=NUMBER)
WRONG["check"] |= {
    "T posterior | (2, 20, 2) | must be given, check(key, samples, posterior, data)": (
        lambda: ewsg.check(KEY, DRAWS, DATA)
    ),
    "T posterior | Samples( | out of a file, or load(path, kernel=…, data=…)": (
        lambda: ewsg.check(KEY, pickle.loads(pickle.dumps(run(LANGEVIN))), DATA)
    ),
    "T posterior | shape (6, 2) | must be a Posterior": (
        lambda: ewsg.check(KEY, run(LANGEVIN), DATA, MODEL)
    ),
    "T samples | StackedSamples( | runs[i] of a stack": (
        lambda: ewsg.check(KEY, run(ewsg.stack([LANGEVIN])), DATA)
    ),
    f"T kernel | 'uld' (str) | {WITH_MOMENTUM}": lambda: checked(run(UNDERDAMPED), kernel="uld"),
    f"V kernel | langevin( | {WITH_MOMENTUM}": lambda: checked(run(LANGEVIN), kernel=LANGEVIN),
    "T samples | (2, 20, 2) | if kernel is given": lambda: checked(kernel=UNDERDAMPED),
    "V state | memory | of this kernel": lambda: checked(
        run(UNDERDAMPED), kernel=ewsg.svrg_hmc(MODEL, 0.01, friction=1.0, batch_size=2)
    ),
    f"T samples | None | {TREE}": lambda: checked(None),
    "V samples | int32 | floating-point": lambda: checked(DRAWS.astype(np.int32)),
    "V samples | (2, 19, 2) | the same of all": lambda: checked({"a": DRAWS, "b": DRAWS[:, 1:]}),
    "V samples | (2, 20, 0) | at least one number": lambda: checked(DRAWS[..., :0]),
    "V samples | 0 of 20 | must have a chain": lambda: checked(DRAWS[:0]),
    "V samples | position[1] | must move in every": lambda: checked(DRAWS * [1, 0]),
    "V samples | chain 1 equal to chain 0 | its own key": lambda: checked(DRAWS[[0, 0]]),
    "V data | holds 1 NaN | must be finite": lambda: checked(data=DATA.at[0, 0].set(NAN)),
    "V shape | (2,) | (3,)": lambda: checked(np.concatenate([DRAWS, DRAWS[..., :1]], 2)),
    "V mode | rank=0 | curvature": lambda: checked(mode=A_MODE._replace(curvature=None)),
    f"V tolerance | got 2 | {A_RATE}": lambda: checked(tolerance=2),
    f"V error_rate | got 1.5 | {A_RATE}": lambda: checked(error_rate=1.5),
    "T max_draws | 100.5 | whole number": lambda: checked(max_draws=100.5),
    "V names | 1 | must be 2": lambda: checked(names=["a"]),
    "T of | 3 (int) | (position) -> a scalar": lambda: checked(of=3),
    "V of | TypeError | one position": lambda: checked(of=lambda: 1.0),
    "V of | returned 10,000 | 1 to 64": lambda: checked(of=lambda w: jnp.zeros(10_000) + w[0]),
    "V of | that are not | finite numbers at the draws": lambda: checked(of=lambda w: w / 0),
    "V of | 1 of 2 | that differ between draws": lambda: checked(of=lambda w: w * jnp.eye(2)[0]),
}


def of_draws(entry, call):
    """What each function of draws and of gradients at them refuses."""
    WRONG[entry] |= {
        f"T samples | 'draws' (str) | {TREE}": lambda: call("draws"),
        f"V samples | (20,) | {LEADING}": lambda: call(DRAWS[0, :, 0]),
        "V samples | 2 of 3 | at least 8 draws": lambda: call(DRAWS[:, :3]),
        "V samples | none | stayed finite": lambda: call(DRAWS * NAN),
        "V samples | keep something else | leave keep= out, and": lambda: call(norms()),
        "T samples | traced | outside of jit": lambda: jax.jit(call)(jnp.asarray(DRAWS)),
        f"V samples | draws where it has none | {WITH_GRADIENT}": lambda: call(posterior=NO_ROOT),
        "V max_draws | got 10 | at least 64": lambda: call(max_draws=10),
        "V batch_size | got 1 | at least 2": lambda: call(batch_size=1),
        "T batch_size | 'all' | whole number": lambda: call(batch_size="all"),
        "V rows | 'some' | 'random'": lambda: call(rows="some", batch_size=2, data=MANY),
    }


def of_mode(entry, call):
    """What each function refuses that takes a mode beside draws."""
    WRONG[entry] |= {
        "T mode | array | ewsg_jax.find_mode": lambda: call(mode=jnp.zeros(2)),
        "V mode | (2,) | of these positions": lambda: call(DRAWS[..., :1], mode=A_MODE),
    }


of_draws("check", checked)
of_mode("check", checked)
REPORT = ewsg.check(KEY, DRAWS, MODEL, DATA)
OF_FUNCTION = ewsg.check(KEY, DRAWS, MODEL, DATA, of=jnp.sum)
WRONG["Report.expectation"] |= {
    "V expectation | that of a function | a check of positions": lambda: OF_FUNCTION.expectation(
        jnp.sum
    ),
    "T function | 3 (int) | (position)": lambda: REPORT.expectation(3),
    "V function | TypeError | a position": lambda: REPORT.expectation(lambda: 1.0),
    "V function | None | a pytree of arrays": lambda: REPORT.expectation(lambda w: None),
    "V expectation | corrected moments have errors | draws that can be corrected": lambda: (
        REPORT.expectation(jnp.sum)
    ),
}
WRONG["Report.correct"] |= {
    "V correct | that of a function | a check of positions": lambda: OF_FUNCTION.correct(DRAWS),
    f"T samples | 'draws' (str) | {TREE}": lambda: REPORT.correct("draws"),
    "V samples | others | that was checked": lambda: REPORT.correct(DRAWS[..., :1]),
    "V correct | corrected moments have errors | draws that can be corrected": lambda: (
        REPORT.correct(DRAWS)
    ),
}
