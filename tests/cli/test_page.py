"""What a run says in the units of the file: its numbers, its words, and its one page."""

import json
import re
import types
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.__main__ import main
from ewsg_jax.cli import console, estimates, figures
from ewsg_jax.cli.answer import Judgement, judge
from ewsg_jax.cli.config import MethodConfig
from ewsg_jax.cli.design import Feature
from ewsg_jax.cli.page import page
from ewsg_jax.cli.problem import Meaning

OURS = ("kernel", "BAOAB", "ESS", "R-hat", "posterior", "chain", "gradient", "ewsg", "mcse", "N(0")
"""Words of samplers and of this library, which a colleague need not know."""


def meaning(model="logistic", classes=("no", "yes"), groups=None, exposure=""):
    features = (Feature("age", "age"), Feature("sex[<m>]", "sex", "<m>", "f"))
    spread = (12.34, np.nan)
    return Meaning(model, "died", classes, features, spread, groups, ("sex: levels",), exposure)


def problem(of):
    return types.SimpleNamespace(
        meaning=of,
        original=None,
        description=("rows: 3 rows", "source: rows.csv", *of.words, "a prior"),
        train={"y": np.zeros(3)},
    )


def draws_of(*shape):
    return np.random.default_rng(0).normal(size=(4, 500, *shape)) * 0.1 + 0.2


def test_numbers_are_those_of_the_summary():
    draws = draws_of(3)
    found = estimates.estimates(problem(meaning()), draws)
    names = ["age", "sex[<m>]", "intercept"]
    summary = ewsg.diagnostics.summary(draws, names, quantiles=estimates.QUANTILES)
    assert found.summary.names == summary.names
    np.testing.assert_array_equal(found.summary.quantiles, summary.quantiles)
    assert found.interval(0, 95) == (summary.quantiles[0, 0], summary.quantiles[4, 0])
    assert found.interval(0, 90, -2.0) == (
        -2 * summary.quantiles[3, 0],
        -2 * summary.quantiles[1, 0],
    )
    np.testing.assert_array_equal(found.positive, (draws > 0).mean((0, 1)))
    lines = estimates.tables(found)
    assert lines[0].startswith(
        "What one more of a column, or a level, adds to the log odds of died"
    )
    at = next(i for i, line in enumerate(lines) if line == "Odds ratios:")
    row = lines[at + 3].split()
    np.testing.assert_allclose(
        [float(cell) for cell in row[1:6]],
        np.exp(np.quantile(draws[..., 1], [0.5, 0.025, 0.05, 0.95, 0.975])),
        rtol=1e-3,
    )
    assert lines[at + 3].endswith("<m> against f")


def test_classes_are_against_the_reference():
    draws = draws_of(3, 3)
    found = estimates.estimates(problem(meaning("softmax", ("a", "b", "c"))), draws)
    assert found.summary.names[:3] == ("age, b", "age, c", "sex[<m>], b")
    np.testing.assert_allclose(found.summary.mean[1], (draws[..., 0, 2] - draws[..., 0, 0]).mean())


def test_a_linear_model_has_no_ratios():
    found = estimates.estimates(problem(meaning("linear", ())), draws_of(3))
    assert not [line for line in estimates.tables(found) if "ratio" in line.lower()]


def test_a_probability_is_never_certain():
    assert estimates.in_words(1.0) == "> 0.999"
    assert estimates.in_words(0.0) == "< 0.001"
    assert estimates.in_words(0.5) == "0.500"


def test_ratios_near_1_have_digits():
    assert estimates.of_ratio(1 + 3.5e-7, 1e-7) == "1.00000035"
    assert estimates.of_ratio(1 - 3.5e-7, 1e-4) == "0.99999965"
    assert estimates.of_ratio(1.02041, 1e-4) == "1.02041"
    assert estimates.of_ratio(2.0, 0.5) == estimates.of_ratio(2.0, 0.0) == "2"


class Reader(HTMLParser):
    """The tags that are open, and their text."""

    def __init__(self):
        super().__init__()
        self.open, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "line", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "circle"):
            assert self.open.pop() == tag


def of_run(of, draws, status=console.Exit.OK, trusted=True):
    """The page of a run."""
    run = types.SimpleNamespace(
        tolerance=0.05,
        deciding_steps=9 * trusted,
        method=MethodConfig("plan", "plan", {"kernel": "BAOAB"}),
    )
    samples = types.SimpleNamespace(finite_draws=draws, num_steps=7, num_chains=4)
    result = types.SimpleNamespace(
        plan=run, samples=samples, judgement=Judgement(status, "RIGHT within tolerance")
    )
    text = page(types.SimpleNamespace(problem=problem(of)), result)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.links == []
    for figure in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(figure)
    return text


def above_the_fold(text):
    shown = text.split("</style>")[1].split("<h2>What was")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", shown)).split())


def test_a_page_is_read_by_a_colleague():
    groups = ("site", ("s1", "s2"))
    text = of_run(meaning(groups=groups), draws_of(6))
    words = above_the_fold(text)
    assert not [word for word in OURS if word in words]
    assert "sex <m>, not f multiplies the odds of died = yes by" in words
    assert "is not clear (their 95 % intervals hold 1): age." in words
    assert "age, 12 more" in words
    assert "odds ratio of died = yes (against no)" in words
    assert "site[s1]" in words
    assert "The computation was checked" in words
    assert "right within 5 %" in words
    low, high = np.exp(np.quantile(draws_of(6)[..., 1], [0.025, 0.975]))
    assert f"{low:.4g} to {high:.4g}" in words
    assert "http://www.w3.org/2000/svg" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("model", ["linear", "poisson", "softmax"])
def test_pages_of_other_models(model):
    classes = ("a", "b") if model == "softmax" else ()
    words = above_the_fold(of_run(meaning(model, classes), draws_of(3, *[2] * len(classes[1:]))))
    assert {"linear": "changes the mean of died", "poisson": "multiplies the mean of died"}.get(
        model, "Whether these raise"
    ) in words


def test_a_page_of_rates():
    words = above_the_fold(of_run(meaning("poisson", (), exposure="days"), draws_of(3)))
    assert words.startswith("What goes with died per unit of days")
    assert "multiplies the rate of died per unit of days by" in words
    assert "rate ratio of died per unit of days" in words
    lines = estimates.tables(
        estimates.estimates(problem(meaning("poisson", (), None, "days")), draws_of(3))
    )
    assert "adds to the log rate of died per unit of days; in" in lines[0]


@pytest.mark.parametrize(
    ("status", "trusted", "said"),
    [
        (console.Exit.WRONG, True, "FAILED its check"),
        (console.Exit.DOUBTFUL, True, "could not rule out errors"),
        (console.Exit.OK, False, "could not rule out errors"),
    ],
)
def test_a_run_that_cannot_be_believed_says_so_first(status, trusted, said):
    words = above_the_fold(of_run(meaning(), draws_of(3), status, trusted))
    assert said in words[: words.index("In short")]


@pytest.mark.parametrize("of_all", ["right", "wrong"])
def test_all_draws_are_asked_before_a_run_is_called_wrong(monkeypatch, of_all):
    seen = []

    def check(key, draws, posterior, data, max_draws=None, **options):
        seen.append(max_draws)
        outcome = "wrong" if max_draws is None else of_all
        return types.SimpleNamespace(outcome=outcome, verdict=f"{outcome} within tolerance")

    monkeypatch.setattr(ewsg, "check", check)
    regression = types.SimpleNamespace(names=("a",), posterior=None, train=None)
    judgement = judge(None, draws_of(1), regression, 0.05, every_draw=True)
    assert seen == [None, 2_000]
    assert judgement.status == console.STATUS_OF[of_all]
    judge(None, draws_of(1), regression, 0.05)
    assert seen == [None, 2_000, None]


# Ends of logarithms of ratios that an axis shows, from no width to beyond all of float64.
SPANS = [(-1e-7, 3e-7), (-0.01, 0.02), (-1, 1), (-9, 12), (-3e3, 900), (-1e6, -1e4)]


@pytest.mark.parametrize(
    ("ends", "is_ratio"),
    [(ends, True) for ends in SPANS] + [(e, False) for e in [*SPANS, (-1e5, 9)]],
)
def test_ticks_are_few_and_inside(ends, is_ratio):
    places = figures.ticks(*ends, is_ratio)
    assert 1 < len(places) < 14
    assert all(ends[0] <= at <= ends[1] + 1e-12 for at, _ in places)
    assert len({text for _, text in places}) == len(places) or ends[1] < 1e-5


def test_counts_of_groups_become_a_page(tmp_path, capsys, monkeypatch):
    """A hierarchy whose plan is trusted ends in a run that its check decides."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    generator = np.random.default_rng(0)
    of_site = generator.normal(0, 0.6, 6)
    lines = ["flow\tsite\tcount"]
    for _ in range(150):
        flow, site = generator.normal(), generator.integers(6)
        count = generator.poisson(np.exp(1 + 0.4 * flow + of_site[site]))
        lines.append(f"{flow:.3f}\t{site}\t{count}")
    (tmp_path / "counts.tsv").write_text("\n".join(lines))
    words = ["plan", str(tmp_path / "counts.tsv"), "--model", "poisson", "--group", "site"]
    assert main([*words, "--output", str(tmp_path / "out"), "--quiet"]) == console.Exit.OK
    assert "plan: RIGHT" in capsys.readouterr().out
    with np.load(tmp_path / "out" / "draws.npz") as arrays:
        names, draws = arrays["unscaled names"].tolist(), arrays["plan.unscaled"]
    assert names[:3] == ["flow", "intercept", "sd of site"]
    mean, sd = draws.mean((0, 1)), draws.std((0, 1))
    assert np.all(np.abs(mean[[0, 2]] - [0.4, of_site.std()]) < 4 * sd[[0, 2]])
    assert np.all(np.abs(mean[1] + mean[3:] - 1 - of_site) < 0.6)
    words = above_the_fold((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "rate ratio of count, a site against the average site" in words


PATIENTS = 250


def patients(folder):
    generator = np.random.default_rng(0)
    lines = ["patient;age;weight;ward;visit;died"]
    for i in range(PATIENTS):
        age, ward = generator.normal(60, 12), "ABC"[generator.integers(3)]
        died = generator.random() < 1 / (1 + np.exp(-(0.08 * (age - 60) - (ward == "B"))))
        weight = "" if i % 25 == 0 else f"{generator.normal(75, 9):.1f}"
        day = 1 + generator.integers(28)
        lines.append(
            f"{i + 1};{age:.1f};{weight};{ward};2024-02-{day:02d};{['no', 'yes'][int(died)]}"
        )
    path = folder / "patients.csv"
    path.write_text("\n".join(lines).replace(".", ","))
    return path


def test_a_file_becomes_a_page(tmp_path, capsys, monkeypatch):
    """Without a line of Python; fewer effective draws than a check needs are made more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, output = patients(tmp_path), tmp_path / "out"
    words = ["plan", str(path), "--model", "logistic", "--output", str(output)]
    assert main(words) == console.Exit.USAGE_ERROR
    assert "10 of 'weight'" in capsys.readouterr().err
    assert main([*words, "--missing", "indicator", "--ess", "50"]) == console.Exit.OK
    said = capsys.readouterr().out
    assert "left out: patient is an id" in said
    assert "Trusted: " in said
    assert "plan: RIGHT" in said
    text = (output / "report.html").read_text(encoding="utf-8")
    with np.load(output / "draws.npz") as arrays:
        names, draws = arrays["unscaled names"].tolist(), arrays["plan.unscaled"]
    assert names == ["age", "weight", "weight[missing]", "ward[B]", "ward[C]", "visit", "intercept"]
    low, high = np.exp(np.quantile(draws[..., 3], [0.025, 0.975]))
    sd = draws[..., 3].std()
    assert f"{estimates.of_ratio(low, sd)} to {estimates.of_ratio(high, sd)}" in text
    for file in output.iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file
    json.loads((output / "metrics.json").read_text())
    # The folder knows its rows by name and checksum, here and beside the file.
    assert main(["check", str(output), "--quiet"]) == console.Exit.OK
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert main(["check", str(output), "--quiet"]) == console.Exit.OK
    moved = path.rename(tmp_path / "moved.csv")
    assert main(["check", str(output), "--quiet"]) == console.Exit.USAGE_ERROR
    assert "say where it is by --data" in capsys.readouterr().err
    assert main(["check", str(output), "--quiet", "--data", str(moved)]) == console.Exit.OK
