"""The documents say what the library does."""

import contextlib
import importlib.util
import inspect
import json
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from benchmarks.pages import (
    check_errors,
    checks,
    choosing,
    estimators,
    forecasts,
    halvings,
    many_chains,
    mechanism,
    methods,
    new_method,
    plans,
    reproductions,
    row_epochs,
    settings,
    stein,
)
from tests.blocks import python_blocks, run_blocks
from tests.bridges.needs_pymc import skip_without_pymc

ROOT = Path(__file__).parents[1]


DOCUMENTS = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if "```python" in path.read_text(encoding="utf-8")
]


LONG_RUNS = ("hierarchies", "learning_coefficient", "loaders", "recipes")
"""Documents whose programs run for longer than they compile."""


def test_tables_are_those_of_the_library():
    for path, text in methods.documents().items():
        assert path.read_text() == text, (
            f"run python -m benchmarks.pages.methods: {path.name} is out of date"
        )


def test_files_that_pages_name_are_there():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        files = re.findall(
            r"\b(?:ewsg_jax|benchmarks|tests|configs)/[\w./-]+\.(?:py|toml|json|md)\b",
            path.read_text(encoding="utf-8"),
        )
        assert [file for file in files if not (ROOT / file).exists()] == [], path.name


def test_readme_examples_run():
    names = run_blocks(ROOT / "README.md")
    draws, grid = (np.asarray(names[name], float) for name in ("draws", "grid"))
    assert draws.shape == (1000, 500, 2)
    assert grid.shape == (3, 50, 500, 2)
    # The posterior is N(Σx/(n + 1), I/(n + 1)).
    rows = np.asarray(names["data"], float)
    mean, sd = rows.sum(0) / 1001, 1001**-0.5
    error = (draws[:, 100:].mean((0, 1)) - mean) / sd
    assert np.all(np.abs(error) < 0.1)
    # Batches of 50 make draws too wide, the more the longer the step; SAGA's do not:
    # Var θ = hT'/(1 − (1 − h/sd²)²) with T' = 2 + h n²/b Var x.
    for step_size, chains in zip((3e-5, 1e-4, 3e-4), grid, strict=True):
        noise = 2 + step_size * 1000**2 / 50 * rows.var(0)
        variance = step_size * noise / (1 - (1 - step_size * 1001) ** 2)
        np.testing.assert_allclose(chains[:, 200:].var((0, 1)), variance, rtol=0.15)
    assert np.all(np.abs(np.asarray(names["saga"])[100:].std(0) / sd - 1) < 0.3)
    # And what the three calls say of it.
    plan, report = names["plan"], names["report"]
    assert report.outcome == "right"
    for found in (plan.gaussian, report.corrected):
        assert np.all(np.abs(found.mean - mean) < 0.1 * sd)
        assert np.all(np.abs(found.sd / sd - 1) < 0.05)


def entered(call):
    """The functions of the library that a call enters, each as its file and name."""
    found = set()

    def see(frame, event, _):
        code = frame.f_code
        if (
            event == "call"
            and "/ewsg_jax/" in code.co_filename
            # In one version of Python only, or called by JAX for its own cache, or by the garbage
            # collector for an array of another test.
            and code.co_name not in ("<genexpr>", "<listcomp>", "__eq__", "__hash__")
            and not code.co_qualname.startswith("remembered.<locals>")
        ):
            found.add((code.co_filename.split("/ewsg_jax/")[-1], code.co_qualname))

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def named(page):
    """The files of the library that a page names, and its text."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return set(re.findall(r"`([a-z_/]+\.py)`", text)), text


def test_one_step_names_the_files_that_a_step_enters():
    """All of the library's, and how many they and the functions are."""
    posterior = ewsg.Posterior(lambda mean, x: -0.5 * jnp.sum((x - mean) ** 2), lambda mean: 0.0)
    data, kernel = jnp.ones((50, 2)), ewsg.sgld(posterior, 1e-3, batch_size=5)
    state = kernel.init(jax.random.key(0), jnp.zeros(2), data)
    functions = entered(
        lambda: kernel.transition(kernel.draw(jax.random.key(1), state, data), state, data)
    )
    files, (known, text) = {file for file, _ in functions}, named("one_step.md")
    assert files <= known
    counts = re.search(r"enters (\d+) functions in (\d+) files", text)
    assert counts is not None
    assert (len(functions), len(files)) == tuple(map(int, counts.groups()))
    assert len(functions) <= 40
    assert len(files) <= 10


@pytest.mark.parametrize(
    ("method", "most_functions", "most_files"), [("sghmc", 45, 13), ("ewsg", 64, 15)]
)
def test_a_step_with_its_checks_enters_few_functions(method, most_functions, most_files):
    """The first step of a chain, and those after it: none checks again what `init` has checked."""
    posterior = ewsg.Posterior(lambda mean, x: -0.5 * jnp.sum((x - mean) ** 2), lambda mean: 0.0)
    data = jnp.ones((50, 2))
    kernel = getattr(ewsg, method)(posterior, 1e-2, batch_size=5, friction=10.0)
    state = kernel.init(jax.random.key(0), jnp.zeros(2), data)
    for _ in range(2):
        functions = entered(lambda: kernel.step(jax.random.key(1), state, data))
        assert len(functions) <= most_functions
        assert len({file for file, _ in functions}) <= most_files


def test_one_run_names_the_files_that_a_run_enters():
    """All of the room's, and no others."""
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=5)

    def run():
        where = jnp.zeros(2), jnp.ones((50, 2))
        ewsg.sample(jax.random.key(0), kernel, *where, 100, num_chains=2, progress=False)

    run()
    known, _ = named("one_run.md")
    files = {file for file, _ in entered(run) if file.startswith("run/")}
    assert files == {file for file in known if file.startswith("run/")}


def test_one_plan_names_the_files_that_a_plan_enters():
    """Those of a plan near normal before its second model; all of the room's, with that."""
    posterior = ewsg.Posterior(lambda mean, x: -0.5 * jnp.sum((x - mean) ** 2), lambda mean: 0.0)

    def run():
        where = jnp.zeros(2), jnp.asarray(np.random.default_rng(0).normal(size=(50, 2)))
        return ewsg.plan(jax.random.key(0), posterior, *where, progress=False)

    run()
    known, text = named("one_plan.md")
    files = {file for file, _ in entered(lambda: print(run()))}
    before = set(re.findall(r"`([a-z_/]+\.py)`", text.split("## If the posterior is not")[0]))
    room = {file for file in files if file.startswith("answers/plan/")}
    assert room | {"answers/plan/settings.py"} == before
    folder = ROOT / "ewsg_jax" / "answers" / "plan"
    assert known == {f"answers/plan/{path.name}" for path in folder.glob("[a-z]*.py")}


def test_one_check_names_the_files_that_a_check_enters():
    """Of draws that are wrong, and of draws that are too few; settings have no function."""
    posterior, data = ewsg.models.gaussian_location(prior_scale=1.0), jnp.zeros((399, 2))
    draws = 0.05 * np.random.default_rng(0).normal(size=(4, 300, 2)).astype(np.float32)

    def run():
        wrong = ewsg.check(jax.random.key(0), 2 * draws, posterior, data)
        few = ewsg.check(jax.random.key(0), draws[:, ::15], posterior, data)
        return wrong, few

    wrong, few = run()
    assert (wrong.outcome, few.outcome) == ("wrong", "unsure")
    known, _ = named("one_check.md")
    files = {file for file, _ in entered(lambda: print(*run()))}
    room = {file for file in files if file.startswith("answers/check/")}
    assert room | {"answers/check/settings.py"} == {
        file for file in known if file.startswith("answers/check/")
    }


def test_parts_of_your_own_are_short_and_need_public_names_only():
    blocks = [block for _, block in python_blocks(ROOT / "docs" / "extending.md")]
    found = [
        re.findall(r"^@ewsg\.m.*?(?=^\S+ = |\Z)", block, re.DOTALL | re.MULTILINE)
        for block in blocks
    ]
    assert sum(map(bool, found)) == 9
    for block, parts in zip(blocks, found, strict=True):
        assert len(block.splitlines()) < 60
        assert all(len(part.splitlines()) < 40 for part in parts)
        assert "ewsg_jax." not in block
        assert not re.findall(r"ewsg\.[\w.]*\b_\w", block)


@pytest.mark.full
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_document_examples_run(path, request):
    """Each block asserts what the text around it says."""
    if path.stem in LONG_RUNS:
        request.getfixturevalue("optimised")
    if path.stem == "pymc":
        skip_without_pymc()
    run_blocks(path)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.stem
)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_page_of_tests_names_every_one():
    here = Path(__file__).parent
    text = (here / "README.md").read_text(encoding="utf-8")
    of_row = r"^\| `([a-z_.]+|answers/[a-z_]+|run/streams)/?` \|"
    named = set(re.findall(of_row, text, re.MULTILINE))
    files = {path.relative_to(here) for path in here.glob("**/test_*.py")}
    assert named == {
        path.name if len(path.parts) == 1 else path.parent.as_posix() for path in files
    }


def test_the_picture_is_small_and_says_what_it_shows():
    from PIL import Image

    path = ROOT / "docs" / "picture.png"
    assert path.stat().st_size < 120_000
    with Image.open(path) as picture:
        assert picture.width > 1_000
        description = picture.text["Description"]
    biased, corrected, planned = (float(x) for x in re.findall(r"sd × (\d+\.\d+)", description))
    assert biased > 1.4
    assert abs(corrected - 1) < 0.05
    assert abs(planned - 1) < 0.05


@pytest.mark.parametrize(
    "of", [checks, estimators, forecasts, row_epochs], ids=lambda of: of.PICTURE.stem
)
def test_pictures_of_numbers_say_them(of):
    from PIL import Image

    with Image.open(of.PICTURE) as picture:
        assert picture.text["Description"] == of.caption(json.loads(of.NUMBERS.read_text()))


@pytest.mark.parametrize("room", ["", *ewsg._ROOMS])
def test_help_names_what_is_public(room):
    module = getattr(ewsg, room) if room else ewsg
    _, lists = module.__doc__.split("\n\n", 1)
    lists = lists.replace("\n    ", " ")
    named = re.findall(r"^((?:\w+, )*\w+): ", lists, re.MULTILINE)
    told = [name for line in named for name in line.split(", ")]
    public = {name for name in dir(module) if not name.startswith("_")}
    if room:
        public = {name for name in public if not inspect.ismodule(getattr(module, name))}
    assert len(told) == len(set(told))
    assert set(told) == public - set(ewsg.METHODS)


def test_the_page_of_the_three_calls_has_what_they_return():
    page = (ROOT / "docs/api/three_calls.md").read_text()
    for name in ("Plan", "Samples", "Report", "answers.check.report.Corrected"):
        assert f"autoclass:: ewsg_jax.{name}\n" in page


def test_pages_have_the_tables_of_their_numbers():
    plan = json.loads(plans.NUMBERS.read_text())
    pages = (
        (new_method, ()),
        (choosing, ()),
        (reproductions, ()),
        (plans, (plan,)),
        (settings, (settings.load(),)),
    )
    for of, numbers in pages:
        text = of.PAGE.read_text()
        assert of.page(text, *numbers) == text, f"run python -m {of.__name__}"


def test_what_a_block_prints_stands_under_it(tmp_path):
    """In words, and in numbers but for their last digits, times and the passes of a search."""
    page = tmp_path / "page.md"
    work = "planning took 12 passes, 2.3 s (mode 1.7)"
    block = f"```python\nprint('ESS 3888 of', 0.1234, '; {work}')\n```\n"
    for said, is_right in {
        f"ESS 3888 of 0.1234 ; {work}": True,
        "ESS 3,900 of\n    0.1236 ; planning took 14 passes, 99 s (mode 2)": True,
        f"ESS 3388 of 0.1234 ; {work}": False,
        f"ESS 3888 of 0.1334 ; {work}": False,
        f"ESS 3888 of -0.1234 ; {work}": False,
        f"ESS 3888 with 0.1234 ; {work}": False,
        "ESS 3888 of 0.1234; planning took 12 steps": False,
        "ESS 3888 of 0.1234": False,
    }.items():
        page.write_text(f"{block}\n```text\n{said}\n```\n")
        with contextlib.nullcontext() if is_right else pytest.raises(AssertionError, match="page"):
            run_blocks(page)


@pytest.mark.parametrize("name", ["../README", "get_started", "plan", "check", "forecast", "runs"])
def test_pages_of_the_first_calls_show_what_they_print(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for _, block in python_blocks(ROOT / "docs" / f"{name}.md"):
        if "print(" in block:
            assert f"{block}```\n\n```text\n" in text


def test_a_method_has_what_contributing_lists(capsys):
    """All of ours have all of it; and of a new one all is to do, with commands that are there."""
    for name in ewsg.METHODS:
        assert [step.files for step in new_method.STEPS if not step.is_done(name)] == [], name
    new_method.main(["no_such_method"])
    said = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in said].count("to do") == len(new_method.STEPS)
    assert any("benchmarks.pages.bias no_such_method" in line for line in said)
    for step in new_method.STEPS:
        files = [file for file in step.files if "FAMILY" not in file]
        assert [file for file in files if not (ROOT / file).exists()] == []
        for module in re.findall(r"-m (\S+)", step.command):
            assert importlib.util.find_spec(module) is not None
    tests = re.search(
        r"python -m pytest -q (tests/methods.*?)\n```", new_method.PAGE.read_text(), re.S
    )
    assert tests is not None
    assert all((ROOT / path).exists() for path in tests[1].replace("\\", "").split())


def test_the_page_of_forecasts_tells_its_numbers():
    """The table is that of the stored numbers, and most forecasts are as near as the page says."""
    result, text = forecasts.load(), forecasts.PAGE.read_text()
    assert forecasts.page(text, result) == text, "run python -m benchmarks.pages.forecasts --draw"
    (quarter, count) = forecasts.share_within(result, 0.25, 2)
    (half, _) = forecasts.share_within(result, 0.5, 0)
    assert count > 80
    assert quarter > 0.95 * count
    assert half > 0.9 * count


def test_the_page_of_checks_tells_what_the_discrepancy_sees():
    result, text = json.loads(stein.NUMBERS.read_text()), stein.PAGE.read_text()
    assert stein.page(text, result) == text, "run python -m benchmarks.pages.stein --draw"
    right, wrong = (
        [row for row in result["power"] if (row["off"] == 1) is of] for of in (True, False)
    )
    assert all(max(row["kernel"], row["scores"]) <= 2 * stein.LEVEL for row in right)
    assert all(row["scores"] > row["kernel"] for row in wrong)
    assert all(
        row["chosen"] < row["every"] / 10 and row["largest_sd"] < 1 for row in result["thinned"]
    )
    assert all(row["first"] > 1 and row["second"] > 1 for row in result["taken"])


def test_the_page_of_checks_tells_its_numbers():
    """The table is that of the stored numbers, and the text's claims are read off them."""
    result, text = json.loads(checks.NUMBERS.read_text()), checks.PAGE.read_text()
    assert checks.page(text, result) == text, "run python -m benchmarks.pages.checks --draw"
    cells = result["cells"]
    assert all(cell["outcome"] == "wrong" for kind in checks.HOT for cell in cells[kind].values())
    assert not any(cell["outcome"] == "wrong" for cell in cells["uld"].values())
    right, wrong = (
        [row for row in result["calibration"] if (row["off"] == 1) is of] for of in (True, False)
    )
    assert sum(row["wrong"] for row in right) <= 0.02 * sum(row["runs"] for row in right)
    # 95 %, but for chance.
    found, runs = (sum(row[name] for row in wrong) for name in ("wrong", "runs"))
    assert stats.binomtest(found, runs, 0.95, alternative="less").pvalue > 1e-3


def test_the_page_of_check_errors_tells_its_numbers():
    """The table is that of the stored numbers, of all cells; errors cover in each."""
    text, found = check_errors.PAGE.read_text(), check_errors.cells()
    assert check_errors.page(text) == text, "run python -m benchmarks.pages.check_errors"
    assert len(found) == 4 * 4 * 2 * 4
    assert max(max(cell["beyond_three"]) for cell in found) <= 0.02
    assert max(max(cell["worst"]) for cell in found) < 8
    right = [cell for cell in found if cell["kind"] == "none"]
    wide = [cell for cell in found if cell["kind"] == "wide" and cell["draws"] == 1_000]
    assert sum(cell["wrong"] for cell in right) <= 0.02 * sum(cell["seeds"] for cell in right)
    assert sum(cell["wrong"] for cell in wide) >= 0.95 * sum(cell["seeds"] for cell in wide)


def test_the_page_of_halving_tells_its_numbers():
    """The table is the stored numbers': what is told is near the truth, less is left."""
    result, text = json.loads(halvings.NUMBERS.read_text()), halvings.PAGE.read_text()
    assert halvings.page(text, result) == text, "run python -m benchmarks.pages.halvings --draw"
    for cells in result.values():
        assert list(cells) == list(halvings.KERNELS)
        for cell in cells.values():
            # The references' own errors are 0.01; the reported ones cover the rest.
            assert abs(cell["told"] - cell["true"]) < 0.01 + cell["told_error"]
            assert cell["extrapolated"]["sd"] < 0.01 + cell["error"]
            if abs(cell["true"]) > 0.05:
                assert cell["extrapolated"]["sd"] < abs(cell["true"]) / 3


def test_the_page_of_many_chains_tells_its_numbers():
    """The table is that of the stored numbers, which are those of its formulas but for chance."""
    result, text = json.loads(many_chains.NUMBERS.read_text()), many_chains.PAGE.read_text()
    assert many_chains.page(text, result) == text, (
        "run python -m benchmarks.pages.many_chains --draw"
    )
    assert len(result["cells"]) == 6
    for name, cell in result["cells"].items():
        heat, rate = cell["heat"], float(name.split()[0])
        share = heat / (1 + heat) if name.endswith("shared") else 0.0
        assert cell["variance"] == pytest.approx((1 + heat) / (1 - rate / 2), rel=0.03)
        assert cell["correlation"] == pytest.approx(share, abs=0.03)
        assert cell["rhat"] == pytest.approx((1 - share) / (2 * many_chains.TIMES), rel=0.2)
        assert cell["worth"] == pytest.approx(1 / (1 + (result["chains"] - 1) * share), rel=0.3)


def test_the_page_of_the_mechanism_tells_its_numbers():
    """The tables are those of stored numbers, and the text's claims are read off them."""
    (parts, laws), text = mechanism.numbers(), mechanism.PAGE.read_text()
    assert mechanism.page(text, parts, laws) == text, "run python -m benchmarks.pages.mechanism"
    variance = {
        name: {h: law["variance"] for h, law in laws[f"location, {key}"]["laws"].items()}
        for name, key in mechanism.METHODS.items()
    }
    h = "0.00390625"
    assert variance["EWSG"][h] == pytest.approx(-variance["SGHMC"][h], rel=0.05)
    assert variance["EWSG-VR"][h] == pytest.approx(2 * variance["EWSG"][h], rel=0.05)
    assert abs(variance["matrix friction"][h]) < 1e-3 * variance["SGHMC"][h]
    assert 0 < variance["EWSG"]["0.5"] < 0.6 * variance["SGHMC"]["0.5"]


def test_the_page_of_estimators_tells_its_numbers():
    """The table is that of the stored numbers, and the text's claims are read off them."""
    result, text = json.loads(estimators.NUMBERS.read_text()), estimators.PAGE.read_text()
    assert estimators.page(text, result) == text, (
        "run python -m benchmarks.pages.estimators: the page is out of date"
    )
    end = {
        name: {h: sum(c["error"][-5:]) / 5 for h, c in by_step.items() if not c["lost_chains"]}
        for name, by_step in result["curves"].items()
    }
    assert set(end["noise-corrected"]) == {"0.0125", "0.00625"}
    assert end["noise-corrected"]["0.0125"] < 0.06 * end["uniform"]["0.0125"]
    for plain, weighted in (
        ("uniform", "EW"),
        ("SVRG", "EW∘SVRG"),
        ("SAGA", "EW∘SAGA"),
        ("CV", "EW∘CV"),
    ):
        assert end[weighted]["0.05"] < end[plain]["0.05"]
        assert end[weighted]["0.025"] < end[plain]["0.025"]
