"""What is measured of ours beside ours, or alone in a process, and which goal and floor it has."""

import itertools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks.cost.bench import Bench, chain_words, in_a_process
from benchmarks.cost.ours import GAUSSIAN, Ours, Variant, program_size, user_loops
from benchmarks.cost.settings import Case
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Pair, Summary, Target, interleave, summarise

WEIGHTED = Target(1.05, 1.15, higher_is_better=False)
WEIGHTED_ONE_CHAIN = Target(1.05, 1.25, higher_is_better=False)
FIRST_DRAW = Target(3.0, 4.0, higher_is_better=False)
USER_LOOP = Target(1.1, 1.3, higher_is_better=False)
PROGRAM_SIZE = Target(1.0, 1.0, higher_is_better=False)
RECORDING = Target(1.03, 1.10, higher_is_better=False)
PROGRAM_ROWS = (464_809, 929_618)
PROCESSES = 5
LONG_PAIRS = 3
RESIDENT = {1: 5_000, 1_000: 100}
"""Steps of a run for each number of chains."""


def weighted(bench: Bench) -> None:
    """EWSG against the uniform estimator on as many rows per step, both ours."""
    for num_chains, steps in ((1, 50_000), (100, 800), (1000, 80)):
        for length in (1, 4, 9):
            case = bench.short(Case("logistic", "sghmc", num_chains, steps // (length + 1), False))
            b = WORKLOADS[case.workload]().batch_size
            weighted = Ours(case, bench.data(case), Variant(batch_size=b, chain_length=length))
            uniform = Ours(case, bench.data(case), Variant(batch_size=b * (length + 1)))
            # What precedes the first step is the same on both sides and would pull the ratio
            # towards 1.
            pairs = interleave(weighted.run_loop, uniform.run_loop, bench.pairs)
            what = (
                f"EWSG M = {length}, {chain_words(num_chains)}, against uniform with b = "
                f"{b * (length + 1)}"
            )
            target = WEIGHTED_ONE_CHAIN if num_chains == 1 else WEIGHTED
            bench.add_pairs("weighted", what, case, pairs, ("EWSG", "uniform"), target)


def user_loop(bench: Bench) -> None:
    """A jitted `kernel.step` in a user's loop in Python, against a jitted step written by hand."""
    for method, with_info in itertools.product(("sgld", "sghmc"), (False, True)):
        case = bench.short(Case("logistic", method, 1, 5_000, False))
        pairs = interleave(*user_loops(case, bench.data(case), with_info), bench.pairs)
        what = (
            f"a jitted step in a loop, {method}, "
            f"{'with its info' if with_info else 'the state alone'}"
        )
        bench.add_pairs("user_loop", what, case, pairs, ("ours", "by hand"), USER_LOOP)


def recording(bench: Bench) -> None:
    """Running moments in the place of draws, and checkpoints, against the same run without."""
    for num_chains, steps in ((1, 50_000), (100, 1_500)):
        case = Case("logistic", "sghmc", num_chains, steps, True)
        what = f"moments in the place of draws, {chain_words(num_chains)}"
        _recorded(bench, what, case, Variant(moments=True), GAUSSIAN, bench.pairs)
    for seconds, steps in ((1.0, 12_000), (30.0, 100_000)):
        if bench.shorten > 1 and seconds > 1:
            continue  # nothing would be written in a short run
        kept = Variant(thin=50)
        case = Case("logistic", "sghmc", 100, steps, True)
        what = (
            f"a checkpoint every {seconds:.0f} s, 100 chains, {bench.short(case).num_steps:,} steps"
        )
        # Two checkpoints at the least: a run that is over before the first would cost nothing.
        saved = kept._replace(checkpoint_every=seconds)
        _recorded(
            bench,
            what,
            case,
            saved,
            kept,
            min(bench.pairs, LONG_PAIRS if seconds > 1 else bench.pairs),
        )


def _recorded(
    bench: Bench, what: str, case: Case, ours: Variant, plain: Variant, count: int
) -> None:
    case = bench.short(case)
    pairs = interleave(
        Ours(case, bench.data(case), ours).run, Ours(case, bench.data(case), plain).run, count
    )
    bench.add_pairs("recording", what, case, pairs, ("with", "without"), RECORDING)


def first_draw(bench: Bench) -> None:
    """A fresh process, from the call of `sample` with one step to its draw; and of each peer, from
    its call.
    """
    processes = PROCESSES if bench.shorten == 1 else 1
    for method in ("sgld", "ewsg"):
        seconds = [in_a_process("ours", method)["seconds"] for _ in range(processes)]
        bench.add(
            "first_draw", f"call to first draw, {method}", summarise(seconds), FIRST_DRAW, "seconds"
        )
    case = list(Case("logistic", "sgld", 1, 1, True))
    for name, worker in bench.peers.items():
        seconds = [worker.afresh(do="first_draw", case=case)["seconds"] for _ in range(processes)]
        bench.add(
            "first_draw", f"call to first draw, sgld: {name}", summarise(seconds), None, "seconds"
        )


def resident(bench: Bench) -> None:
    """The largest resident set from having the data to the end of a run of SGLD, ours and each
    peer's.
    """
    processes = PROCESSES if bench.shorten == 1 else 1
    for num_chains, steps in RESIDENT.items():
        case = list(Case("logistic", "sgld", num_chains, steps, False))
        found = {
            "ours": [
                in_a_process("ours", "resident", str(num_chains), str(steps))
                for _ in range(processes)
            ]
        }
        for name, worker in bench.peers.items():
            found[name] = [worker.afresh(do="resident", case=case) for _ in range(processes)]
        for name, answers in found.items():
            what = f"largest resident set, sgld, {chain_words(num_chains)}: {name}"
            bench.add("resident", what, summarise([x["megabytes"] for x in answers]), None, "MB")


def bound(bench: Bench) -> None:
    """How much of a step of 1,000 chains with one batch for all its noise is, and the same with ±1
    noise.
    """
    case = bench.short(Case("logistic", "sgld", 1_000, 600, False))
    shape = (case.num_chains, WORKLOADS[case.workload]().position.size)
    gaussian, signs = (
        Ours(case, bench.data(case), Variant(shared=True, noise=noise))
        for noise in ("gaussian", "rademacher")
    )
    alone = {
        "normals": noise_alone(jax.random.normal, shape, case),
        "signs": noise_alone(_signs, shape, case),
    }
    gathered: dict[str, tuple[str, list[Pair]]] = {
        f"{shape[1]} normals a chain in bulk, of a step with them": (
            "normals",
            interleave(alone["normals"], gaussian.run_loop, bench.pairs),
        ),
        f"{shape[1]} random signs a chain in bulk, of a step with ±1 noise": (
            "signs",
            interleave(alone["signs"], signs.run_loop, bench.pairs),
        ),
        "a step with ±1 noise, of one with normals": (
            "step with signs",
            interleave(signs.run_loop, gaussian.run_loop, bench.pairs),
        ),
    }
    for what, (name, pairs) in gathered.items():
        told = f"{what}, 1,000 chains, one batch for all"
        bench.add_pairs("bound", told, case, pairs, (name, "step"), None, "share of a step")


def noise_alone(
    draw: Callable[..., jax.Array], shape: tuple[int, ...], case: Case
) -> Callable[[], float]:
    """Return what times one compiled loop that draws noise of this shape and adds it up: as
    `Ours.run_loop`.
    """
    keys = iter(jax.random.split(jax.random.key(0), 10_000))

    @jax.jit
    def loop(key: jax.Array) -> jax.Array:
        def body(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            return total + draw(key, shape), None

        return jax.lax.scan(body, jnp.zeros(shape), jax.random.split(key, case.num_steps))[0]

    def run() -> float:
        key = jax.block_until_ready(next(keys))
        started = time.perf_counter()
        jax.block_until_ready(loop(key))
        return (time.perf_counter() - started) / (case.num_steps * case.num_chains) * 1e6

    run()
    return run


def _signs(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return ±1 from single bits, 32 to a word."""
    words = jax.random.bits(key, (*shape[:-1], -(-shape[-1] // 32)))
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return 2.0 * bits.reshape(*shape[:-1], -1)[..., : shape[-1]].astype(jnp.float32) - 1.0


def size(bench: Bench) -> None:
    """The size of the program does not depend on n."""
    sizes = {n: program_size(n) for n in PROGRAM_ROWS}
    ratios = [x["characters"] / sizes[PROGRAM_ROWS[0]]["characters"] for x in sizes.values()]
    bench.add(
        "program_size",
        f"program for n = {max(PROGRAM_ROWS):,} / for {PROGRAM_ROWS[0]:,}",
        Summary(max(ratios), min(ratios), max(ratios), len(ratios)),
        PROGRAM_SIZE,
        "size ratio",
        sizes={str(n): size for n, size in sizes.items()},
    )


CELLS: dict[str, Callable[[Bench], None]] = {
    "weighted": weighted,
    "recording": recording,
    "bound": bound,
    "user_loop": user_loop,
    "first_draw": first_draw,
    "resident": resident,
    "program_size": size,
}
NEEDS_PEERS = {"first_draw", "resident"}
