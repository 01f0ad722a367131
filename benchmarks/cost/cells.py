"""What is measured against libraries and steps written by hand, and which goal and floor it has."""

from collections.abc import Callable

from benchmarks.cost.anchored_by_hand import REFRESH_EVERY
from benchmarks.cost.bench import Bench, chain_words
from benchmarks.cost.memory_cells import NAIVE, NAIVE_PAIRS, Run
from benchmarks.cost.ours import Ours, Variant
from benchmarks.cost.settings import Case
from benchmarks.timing import Target, interleave, summarise

ONE_CHAIN = Target(3.5, 2.8)
HUNDRED = Target(1.9, 1.4)
THOUSAND = Target(1.1, 0.95)
MANY = Target(1.8, 1.4)
BLOCKS = Target(2.6, 2.0)
SHARED = {100: Target(10, 8), 1_000: Target(10, 7)}
NETWORK = {"gaussian": Target(1.05, 0.95), "rademacher": Target(1.8, 1.4)}
BESIDES = Target(2.0, 4.0, higher_is_better=False)
SHORT = Target(2.5, 2.2)
SHORT_THOUSAND = Target(5.0, 4.0)
BLOCK_ROWS = "block_epochs"
METHODS = ("sgld", "sghmc")
SVRG_STEPS = 3
"""Of SGMCMCJax with a counter for each chain: a step of 100 takes seconds."""


def one_chain(bench: Bench) -> None:
    """SGLD and underdamped, every draw kept, everything on, against the libraries on
    the same JAX.
    """
    for method in METHODS:
        case = Case("logistic", method, 1, 50_000, True)
        bench.against(
            "one_chain", case, bench.peers, ONE_CHAIN, Variant(check_data=True), same_jax=True
        )


def hundred(bench: Bench) -> None:
    """The same with 100 chains, each with its own minibatches, the last draw kept."""
    for method in METHODS:
        bench.against("hundred", Case("logistic", method, 100, 600, False), bench.peers, HUNDRED)


def thousand(bench: Bench) -> None:
    """The same with 1,000 chains, against steps written by hand."""
    others = {name: bench.by_hand[name] for name in BY_HAND["thousand"]}
    for method in METHODS:
        bench.against("thousand", Case("logistic", method, 1_000, 148, False), others, THOUSAND)


def many(bench: Bench) -> None:
    """The same against the libraries."""
    for method in METHODS:
        bench.against("many", Case("logistic", method, 1_000, 148, False), bench.peers, MANY)


def blocks(bench: Bench) -> None:
    """The same with ours in reshuffled blocks of rows."""
    for method in METHODS:
        case = Case("logistic", method, 1_000, 148, False)
        bench.against("blocks", case, bench.peers, BLOCKS, Variant(rows=BLOCK_ROWS))


def shared(bench: Bench) -> None:
    """Chains of ours that share their batches, against libraries whose chains do not; and what
    sharing gives.
    """
    by_hand = {name: bench.by_hand[name] for name in BY_HAND["shared"]}
    for method in METHODS:
        for num_chains, target in SHARED.items():
            case = Case("logistic", method, num_chains, 150_000 // num_chains, False)
            bench.against("shared", case, bench.peers, target, Variant(shared=True))
            bench.against("shared", case, by_hand, None, Variant(shared=True))
            case = bench.short(case)
            one, own = (Ours(case, bench.data(case), Variant(shared=x)) for x in (True, False))
            pairs = interleave(one.run, own.run, bench.pairs)
            what = (
                f"what sharing gives: {method}, {chain_words(num_chains)}, one batch against "
                "own, both ours"
            )
            bench.add_pairs("shared", what, case, pairs, ("shared", "own"), None, "times faster")


def svrg(bench: Bench) -> None:
    """SVRG with 100 chains against SGMCMCJax's: a counter of each chain's own, and the number of
    the step given.
    """
    case = Case("logistic", "svrg_ld", 100, 3 * REFRESH_EVERY, False)
    if bench.shorten > 1:
        case = case._replace(num_steps=REFRESH_EVERY)  # a whole number of anchors
    ours, worker = Run(case, bench.data(case)), bench.peers["sgmcmcjax"]
    for method, steps, most, target, told in (
        (
            "svrg_ld",
            SVRG_STEPS,
            NAIVE_PAIRS,
            NAIVE,
            "a counter in each chain's state: a batched cond",
        ),
        (
            "svrg_ld_numbered",
            case.num_steps,
            bench.pairs,
            None,
            "one counter, from outside, for all chains",
        ),
    ):
        theirs = case._replace(method=method, num_steps=steps)
        worker.ask(do="build", peer="sgmcmcjax", case=list(theirs))
        pairs = interleave(ours.run, worker.run, min(bench.pairs, most))
        what = (
            f"SVRG, K = {REFRESH_EVERY}, 100 chains: sgmcmcjax, {told} ({steps} steps a run, "
            f"{len(pairs)} pairs)"
        )
        bench.add_pairs("svrg", what, case, pairs, ("ours", "sgmcmcjax"), target, "times faster")


def network(bench: Bench) -> None:
    """A network of 79,510 weights, underdamped, with each law of noise; the peers' is Gaussian
    always.
    """
    for num_chains, steps in ((1, 240), (10, 48)):
        for noise, target in NETWORK.items():
            case = Case("network", "sghmc", num_chains, steps, False)
            bench.against("network", case, bench.peers, target, Variant(noise=noise))


def calls(bench: Bench) -> None:
    """Whole calls of few steps with everything on, and what a repeated call costs
    besides its loop.
    """
    everything = Variant(check_data=True)
    case = bench.short(Case("logistic", "sgld", 1, 5_000, True))
    ours = Ours(case, bench.data(case), everything)
    beyond = summarise([ours.run_besides() for _ in range(3 * bench.pairs)])
    bench.add(
        "calls",
        "a repeated call beyond its loop",
        beyond,
        BESIDES,
        "milliseconds",
        case=case._asdict(),
    )
    bench.against("calls", case, bench.peers, SHORT, everything)
    many = Case("logistic", "sgld", 1000, 20, False)
    bench.against("calls", many, bench.peers, SHORT_THOUSAND, everything._replace(shared=True))


CELLS: dict[str, Callable[[Bench], None]] = {
    "one_chain": one_chain,
    "hundred": hundred,
    "thousand": thousand,
    "many": many,
    "blocks": blocks,
    "shared": shared,
    "svrg": svrg,
    "network": network,
    "calls": calls,
}
NEEDS_PEERS = set(CELLS) - {"thousand"}
BY_HAND = {"thousand": ("by_hand", "by_hand_wide"), "shared": ("by_hand_shared",)}
"""The hand-written steps of each cell that has some."""
