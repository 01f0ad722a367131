"""Hierarchies with normal effects and normal rows: groups, slopes, crossed and nested effects,
walks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.hierarchies.linear import Linear, Term, squares
from benchmarks.hierarchies.model import Draws, Pair
from benchmarks.hierarchies.scales import Hyper, prior_of

GRID = "scales on a grid with rejection, all else normal given them"


def _one(h: Mapping[str, Any]) -> Any:
    return 1.0


def _inverse_square(name: str) -> Any:
    """Return the precision of a logarithm of an sd."""
    return lambda h: np.exp(-2.0 * np.asarray(h[name], float))


def _rows(**columns: Any) -> dict[str, np.ndarray]:
    return {
        name: np.asarray(x, np.int32 if np.asarray(x).dtype.kind == "i" else np.float32)
        for name, x in columns.items()
    }


def _double(x: Any) -> np.ndarray:
    """Return the rows that the model has, in float64."""
    return np.asarray(np.asarray(x, np.float32), np.float64)


def _one_hot(g: np.ndarray, num_groups: int) -> np.ndarray:
    return np.eye(num_groups)[g]


def _noise(p: Any, row: Any) -> tuple[Any, Any]:
    """Return 1 / sd of a row, and its logarithm: of the row, if it is known."""
    if "log_s" in p:
        return jnp.exp(-p["log_s"]), -p["log_s"]
    return 1.0 / row["se"], -jnp.log(row["se"])


def _likelihood_term(linear: np.ndarray, rows: Mapping[str, Any], is_known: bool) -> Term:
    y = _double(rows["y"])
    if is_known:
        se = _double(rows["se"])
        return squares(_one, linear / se[:, None], y / se)
    return squares(_inverse_square("log_s"), linear, y)


def _normal(p: Any, row: Any, fitted: Any) -> Any:
    inverse, log_inverse = _noise(p, row)
    return -0.5 * ((row["y"] - fitted) * inverse) ** 2 + log_inverse


def _square(x: Any) -> Any:
    return jnp.sum(x**2)


def intercepts(
    name: str,
    title: str,
    sizes: Sequence[int],
    *,
    mu: float = 0.5,
    tau: float = 0.5,
    s: float = 1.0,
    se: np.ndarray | None = None,
    mu_width: float = 10.0,
    width: float = 1.0,
    s_width: float = 1.0,
    from_data: bool = False,
    seed: int = 0,
) -> Pair:
    """Return y ~ N(a[g], s), a ~ N(mu, tau): s unknown, or `se` of each row."""
    rng, num_groups, n = np.random.default_rng(seed), len(sizes), int(np.sum(sizes))
    g = np.repeat(np.arange(num_groups), sizes)
    sd = s if se is None else se
    y = mu + tau * rng.normal(size=num_groups)[g] + sd * rng.normal(size=n)
    rows = _rows(g=g, y=y, **({} if se is None else {"se": se}))
    unit = width
    hypers = {"log_tau": Hyper("half_normal", width, np.log(unit) - 13, np.log(unit) + 1.6, 60)}
    if se is None:
        centre = np.log(s_width)
        hypers["log_s"] = Hyper("half_normal", s_width, centre - 6, centre + 1.6, 40)
    design = np.column_stack([np.zeros(n), _one_hot(g, num_groups)])
    between = np.column_stack([-np.ones(num_groups), np.eye(num_groups)])
    first = np.eye(1, num_groups + 1)
    linear = Linear(
        hypers,
        [
            _likelihood_term(design, rows, se is not None),
            squares(_inverse_square("log_tau"), between),
            squares(lambda h: mu_width**-2.0, first),
        ],
        {"mu": (), "a": (num_groups,)},
    )
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["mu"] / mu_width) ** 2

    def prior(p: Any) -> Any:
        off = (p["a"] - p["mu"]) * jnp.exp(-p["log_tau"])
        return shared(p) - 0.5 * _square(off) - num_groups * p["log_tau"]

    centred = ewsg.Posterior(lambda p, row: _normal(p, row, p["a"][row["g"]]), prior)
    other = ewsg.Posterior(
        lambda p, row: _normal(p, row, p["mu"] + jnp.exp(p["log_tau"]) * p["z"][row["g"]]),
        lambda p: shared(p) - 0.5 * _square(p["z"]),
    )
    middle, spread = (float(y.mean()), float(np.log(y.std()))) if from_data else (0.0, 0.0)
    scales = {key: jnp.asarray(spread) for key in hypers}
    start = {"mu": jnp.asarray(middle), "a": jnp.full(num_groups, middle), **scales}
    start_n = {"mu": jnp.asarray(middle), "z": jnp.zeros(num_groups), **scales}

    def to_other(draws: Draws) -> Draws:
        z = (draws["a"] - draws["mu"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        return {key: x for key, x in draws.items() if key != "a"} | {"z": z}

    return Pair(
        name,
        title,
        rows,
        (centred, start),
        (other, start_n),
        linear.draw,
        to_other,
        ("a",),
        tuple(hypers),
        lambda draws: {"a": linear.precision(draws)["a"]},
        GRID,
    )


def slopes(name: str, title: str, num_groups: int, n: int, tau: float, seed: int) -> Pair:
    """Return y ~ N(alpha + b[g] x, s), b ~ N(beta, tau)."""
    rng = np.random.default_rng(seed)
    g, x = np.sort(rng.integers(num_groups, size=n)), rng.normal(size=n)
    b = 0.7 + tau * rng.normal(size=num_groups)
    rows = _rows(g=g, x=x, y=-0.3 + b[g] * x + 0.8 * rng.normal(size=n))
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 60),
        "log_s": Hyper("half_normal", 1.0, -4, 1.6, 40),
    }
    design = np.column_stack(
        [np.ones(n), np.zeros(n), _one_hot(g, num_groups) * _double(rows["x"])[:, None]]
    )
    between = np.column_stack([np.zeros(num_groups), -np.ones(num_groups), np.eye(num_groups)])
    linear = Linear(
        hypers,
        [
            _likelihood_term(design, rows, False),
            squares(_inverse_square("log_tau"), between),
            squares(lambda h: 1 / 25, np.eye(2, num_groups + 2)),
        ],
        {"alpha": (), "beta": (), "b": (num_groups,)},
    )
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["alpha"] ** 2 + p["beta"] ** 2) / 25

    def prior(p: Any) -> Any:
        off = (p["b"] - p["beta"]) * jnp.exp(-p["log_tau"])
        return shared(p) - 0.5 * _square(off) - num_groups * p["log_tau"]

    def fitted(p: Any, row: Any, b: Any) -> Any:
        return _normal(p, row, p["alpha"] + b * row["x"])

    def to_other(draws: Draws) -> Draws:
        z = (draws["b"] - draws["beta"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        return {key: x for key, x in draws.items() if key != "b"} | {"z": z}

    start = {key: jnp.zeros(()) for key in ("alpha", "beta", *hypers)}
    return Pair(
        name,
        title,
        rows,
        (
            ewsg.Posterior(lambda p, row: fitted(p, row, p["b"][row["g"]]), prior),
            start | {"b": jnp.zeros(num_groups)},
        ),
        (
            ewsg.Posterior(
                lambda p, row: fitted(p, row, p["beta"] + jnp.exp(p["log_tau"]) * p["z"][row["g"]]),
                lambda p: shared(p) - 0.5 * _square(p["z"]),
            ),
            start | {"z": jnp.zeros(num_groups)},
        ),
        linear.draw,
        to_other,
        ("b",),
        tuple(hypers),
        lambda draws: {"b": linear.precision(draws)["b"]},
        GRID,
    )


def _lines_rows(
    num_groups: int, n: int, taus: tuple[float, float], rho: float, s: float, seed: int
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    g, x = np.sort(rng.integers(num_groups, size=n)), rng.normal(size=n)
    z = rng.normal(size=(2, num_groups))
    a, b = 1 + taus[0] * z[0], -0.5 + taus[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])
    return _rows(g=g, x=x, y=a[g] + b[g] * x + s * rng.normal(size=n), se=np.full(n, s))


def lines(
    name: str,
    title: str,
    num_groups: int,
    n: int,
    taus: tuple[float, float],
    seed: int,
    rho: float | None = None,
) -> Pair:
    """Return y ~ N(a[g] + b[g] x, se): intercepts and slopes with scales of their own, and a
    correlation tanh(r) if `rho` is given.
    """
    is_correlated = rho is not None
    rows = _lines_rows(num_groups, n, taus, rho or 0.0, 0.7, seed)
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 40),
        "log_omega": Hyper("half_normal", 1.0, -13, 1.6, 40),
    }
    if is_correlated:
        hypers["r"] = Hyper("normal", 0.7, -3.5, 3.5, 24)
    hot, zeros, eye = (
        _one_hot(rows["g"], num_groups),
        np.zeros((num_groups, num_groups)),
        np.eye(num_groups),
    )
    design = np.column_stack([np.zeros((n, 2)), hot, hot * _double(rows["x"])[:, None]])
    ones, none = -np.ones((num_groups, 1)), np.zeros((num_groups, 1))
    of_a = np.hstack([ones, none, eye, zeros])
    of_b = np.hstack([none, ones, zeros, eye])

    def weight(power_a: int, power_b: int) -> Any:
        """Return an entry of the precision of both effects of a group."""

        def value(h: Mapping[str, Any]) -> Any:
            c = np.tanh(h["r"]) if is_correlated else 0.0 * np.asarray(h["log_tau"])
            scale = np.exp(-power_a * h["log_tau"] - power_b * h["log_omega"]) / (1 - c**2)
            return -c * scale if power_a == power_b else scale

        return value

    across = of_a.T @ of_b
    terms = [
        _likelihood_term(design, rows, True),
        squares(weight(2, 0), of_a),
        squares(weight(0, 2), of_b),
        Term(weight(1, 1), across + across.T, np.zeros(len(across)), 0.0, 0),
        squares(lambda h: 1 / 25, np.eye(2, 2 * num_groups + 2)),
    ]

    def more(h: Mapping[str, Any]) -> Any:
        # Both diagonal entries count 1 / (1 − c²); the determinant has it once.
        return 0.5 * num_groups * np.log1p(-(np.tanh(h["r"]) ** 2)) if is_correlated else 0.0

    leaves = {"alpha": (), "beta": (), "a": (num_groups,), "b": (num_groups,)}
    linear = Linear(hypers, terms, leaves, more)
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["alpha"] ** 2 + p["beta"] ** 2) / 25

    def correlation(p: Any) -> Any:
        return jnp.tanh(p["r"]) if is_correlated else 0.0

    def prior(p: Any) -> Any:
        c = correlation(p)
        u = (p["a"] - p["alpha"]) * jnp.exp(-p["log_tau"])
        v = (p["b"] - p["beta"]) * jnp.exp(-p["log_omega"])
        squared = _square(u) + _square(v - c * u) / (1 - c**2)
        scales = p["log_tau"] + p["log_omega"] + 0.5 * jnp.log(1 - c**2)
        return shared(p) - 0.5 * squared - num_groups * scales

    def fitted(p: Any, row: Any, a: Any, b: Any) -> Any:
        return _normal(p, row, a + b * row["x"])

    def not_centred(p: Any, row: Any) -> Any:
        c, u, v = correlation(p), p["u"][row["g"]], p["v"][row["g"]]
        a = p["alpha"] + jnp.exp(p["log_tau"]) * u
        return fitted(
            p, row, a, p["beta"] + jnp.exp(p["log_omega"]) * (c * u + jnp.sqrt(1 - c**2) * v)
        )

    def to_other(draws: Draws) -> Draws:
        c = np.tanh(draws["r"])[:, None] if is_correlated else 0.0
        u = (draws["a"] - draws["alpha"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        v = (draws["b"] - draws["beta"][:, None]) * np.exp(-draws["log_omega"])[:, None]
        moved = {"u": u, "v": (v - c * u) / np.sqrt(1 - c**2)}
        return {key: x for key, x in draws.items() if key not in ("a", "b")} | moved

    def precision(draws: Draws) -> Draws:
        found = linear.precision(draws)
        return {key: found[key] for key in ("a", "b")}

    start = {key: jnp.zeros(()) for key in ("alpha", "beta", *hypers)}
    effects = jnp.zeros(num_groups)
    return Pair(
        name,
        title,
        rows,
        (
            ewsg.Posterior(
                lambda p, row: fitted(p, row, p["a"][row["g"]], p["b"][row["g"]]), prior
            ),
            start | {"a": effects, "b": effects},
        ),
        (
            ewsg.Posterior(
                not_centred, lambda p: shared(p) - 0.5 * (_square(p["u"]) + _square(p["v"]))
            ),
            start | {"u": effects, "v": effects},
        ),
        linear.draw,
        to_other,
        ("a", "b"),
        ("log_tau", "log_omega"),
        precision,
        GRID,
    )


def two_factors(
    name: str,
    title: str,
    sizes: tuple[int, int],
    n: int,
    taus: tuple[float, float],
    seed: int,
    is_nested: bool = False,
) -> Pair:
    """Return y ~ N(fitted, se) of two factors with scales of their own: mu + a[i] + b[j], or b[j]
    around a[i], its region, around mu, if they are nested.
    """
    rng, (first, second) = np.random.default_rng(seed), sizes
    region = np.sort(rng.integers(first, size=second))
    j = rng.integers(second, size=n)
    i = region[j] if is_nested else rng.integers(first, size=n)
    a, b = taus[0] * rng.normal(size=first), taus[1] * rng.normal(size=second)
    rows = _rows(i=i, j=j, y=0.4 + a[i] + b[j] + 0.9 * rng.normal(size=n), se=np.full(n, 0.9))
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 50),
        "log_omega": Hyper("half_normal", 1.0, -13, 1.6, 50),
    }
    one = np.ones((n, 1))
    hot_i, hot_j = _one_hot(i, first), _one_hot(j, second)
    of_a = np.hstack([np.zeros((first, 1)), np.eye(first), np.zeros((first, second))])
    of_b = np.hstack([np.zeros((second, 1 + first)), np.eye(second)])
    if is_nested:
        design = np.hstack([0 * one, 0 * hot_i, hot_j])
        of_a[:, 0] = -1.0
        of_b[:, 1 : 1 + first] = -_one_hot(region, first)
    else:
        design = np.hstack([one, hot_i, hot_j])
    linear = Linear(
        hypers,
        [
            _likelihood_term(design, rows, True),
            squares(_inverse_square("log_tau"), of_a),
            squares(_inverse_square("log_omega"), of_b),
            squares(lambda h: 1 / 25, np.eye(1, 1 + first + second)),
        ],
        {"mu": (), "a": (first,), "b": (second,)},
    )
    of_scales = prior_of(hypers)
    regions = jnp.asarray(region)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * p["mu"] ** 2 / 25

    def prior(p: Any) -> Any:
        a, b = (p["a"] - p["mu"], p["b"] - p["a"][regions]) if is_nested else (p["a"], p["b"])
        squared = _square(a * jnp.exp(-p["log_tau"])) + _square(b * jnp.exp(-p["log_omega"]))
        return shared(p) - 0.5 * squared - first * p["log_tau"] - second * p["log_omega"]

    def centred(p: Any, row: Any) -> Any:
        b = p["b"][row["j"]]
        return _normal(p, row, b if is_nested else p["mu"] + p["a"][row["i"]] + b)

    def not_centred(p: Any, row: Any) -> Any:
        a = jnp.exp(p["log_tau"]) * p["u"][row["i"]]
        return _normal(p, row, p["mu"] + a + jnp.exp(p["log_omega"]) * p["v"][row["j"]])

    def to_other(draws: Draws) -> Draws:
        a, b = draws["a"], draws["b"]
        if is_nested:
            a, b = a - draws["mu"][:, None], b - a[:, region]
        moved = {
            "u": a * np.exp(-draws["log_tau"])[:, None],
            "v": b * np.exp(-draws["log_omega"])[:, None],
        }
        return {key: x for key, x in draws.items() if key not in ("a", "b")} | moved

    def precision(draws: Draws) -> Draws:
        found = linear.precision(draws)
        return {key: found[key] for key in ("a", "b")}

    start = {key: jnp.zeros(()) for key in ("mu", *hypers)}
    return Pair(
        name,
        title,
        rows,
        (
            ewsg.Posterior(centred, prior),
            start | {"a": jnp.zeros(first), "b": jnp.zeros(second)},
        ),
        (
            ewsg.Posterior(
                not_centred, lambda p: shared(p) - 0.5 * (_square(p["u"]) + _square(p["v"]))
            ),
            start | {"u": jnp.zeros(first), "v": jnp.zeros(second)},
        ),
        linear.draw,
        to_other,
        ("a", "b"),
        tuple(hypers),
        precision,
        GRID,
    )


def walk(name: str, title: str, num_times: int, tau: float, seed: int) -> Pair:
    """Return y_t ~ N(a_t, s), a_t ~ N(a_{t-1}, tau), a_0 ~ N(0, 3)."""
    rng = np.random.default_rng(seed)
    a = 1.0 + tau * np.cumsum(rng.normal(size=num_times))
    rows = _rows(t=np.arange(num_times), y=a + 0.6 * rng.normal(size=num_times))
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 50),
        "log_s": Hyper("half_normal", 1.0, -6, 1.6, 40),
    }
    steps = np.eye(num_times) - np.eye(num_times, k=-1)
    linear = Linear(
        hypers,
        [
            _likelihood_term(np.eye(num_times), rows, False),
            squares(_inverse_square("log_tau"), steps[1:]),
            squares(lambda h: 1 / 9, steps[:1]),
        ],
        {"a": (num_times,)},
    )
    of_scales = prior_of(hypers)

    def prior(p: Any) -> Any:
        moves = jnp.diff(p["a"]) * jnp.exp(-p["log_tau"])
        shared = of_scales(p) - 0.5 * p["a"][0] ** 2 / 9
        return shared - 0.5 * _square(moves) - (num_times - 1) * p["log_tau"]

    def other_likelihood(p: Any, row: Any) -> Any:
        a = p["first"] + jnp.exp(p["log_tau"]) * jnp.concatenate([jnp.zeros(1), jnp.cumsum(p["z"])])
        return _normal(p, row, a[row["t"]])

    def to_other(draws: Draws) -> Draws:
        z = np.diff(draws["a"], axis=1) * np.exp(-draws["log_tau"])[:, None]
        kept = {key: x for key, x in draws.items() if key != "a"}
        return kept | {"first": draws["a"][:, 0], "z": z}

    scales = {key: jnp.zeros(()) for key in hypers}
    return Pair(
        name,
        title,
        rows,
        (
            ewsg.Posterior(lambda p, row: _normal(p, row, p["a"][row["t"]]), prior),
            scales | {"a": jnp.zeros(num_times)},
        ),
        (
            ewsg.Posterior(
                other_likelihood,
                lambda p: of_scales(p) - 0.5 * p["first"] ** 2 / 9 - 0.5 * _square(p["z"]),
            ),
            scales | {"first": jnp.zeros(()), "z": jnp.zeros(num_times - 1)},
        ),
        linear.draw,
        to_other,
        ("a",),
        tuple(hypers),
        lambda draws: {"a": linear.precision(draws)["a"]},
        GRID,
    )


def _sizes(num_groups: int, n: int, seed: int) -> list[int]:
    """Return unlike sizes of at least one row."""
    rng = np.random.default_rng(seed)
    extra = rng.multinomial(n - num_groups, rng.dirichlet(np.full(num_groups, 0.7)))
    return [int(1 + x) for x in extra]


def pairs() -> tuple[Pair, ...]:
    """Return the hierarchies of this file."""
    rng = np.random.default_rng(100)
    return (
        intercepts(
            "many_groups",
            "110 groups of unlike sizes, a small scale",
            _sizes(110, 900, 1),
            tau=0.12,
            s=0.8,
            seed=1,
        ),
        intercepts("few_groups", "5 groups of 12 rows", [12] * 5, tau=0.4, s=1.0, seed=2),
        intercepts(
            "empty_groups",
            "40 groups, every other one without a row",
            [8, 0] * 20,
            tau=0.3,
            s=0.7,
            seed=3,
        ),
        intercepts(
            "one_row",
            "60 groups of one row, noise known",
            [1] * 60,
            tau=0.6,
            se=np.ones(60),
            seed=4,
        ),
        intercepts(
            "schools",
            "10 studies with known errors",
            [1] * 10,
            mu=6.0,
            tau=4.0,
            se=rng.uniform(8, 18, 10),
            mu_width=15.0,
            width=10.0,
            seed=5,
        ),
        intercepts(
            "small_units",
            "50 groups, everything some thousandths",
            _sizes(50, 400, 6),
            mu=0.003,
            tau=0.0008,
            s=0.002,
            mu_width=0.01,
            width=0.002,
            s_width=0.005,
            from_data=True,
            seed=6,
        ),
        intercepts(
            "large_units",
            "50 groups, everything some ten thousands",
            _sizes(50, 400, 7),
            mu=40_000.0,
            tau=3_000.0,
            s=9_000.0,
            mu_width=50_000.0,
            width=10_000.0,
            s_width=10_000.0,
            from_data=True,
            seed=7,
        ),
        slopes("slopes", "70 groups with slopes of their own", 70, 700, 0.15, 8),
        lines("lines", "35 groups with intercepts and slopes", 35, 400, (0.5, 0.15), 9),
        lines(
            "correlated",
            "25 groups, intercepts and slopes correlated",
            25,
            500,
            (0.6, 0.4),
            10,
            0.6,
        ),
        two_factors("crossed", "30 persons crossed with 20 items", (30, 20), 500, (0.4, 0.25), 11),
        two_factors("nested", "40 districts in 8 regions", (8, 40), 400, (0.5, 0.3), 12, True),
        walk("walk", "a random walk of 90 steps", 90, 0.15, 13),
    )
