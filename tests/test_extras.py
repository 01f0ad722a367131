"""What comes with which extra: declared is imported, and what is missing is named."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import ewsg_jax as ewsg
from ewsg_jax.__main__ import keep_programs, main
from ewsg_jax.base.optional import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ELSEWHERE = {
    "tqdm": "used where it is there",
    "numpyro": "imported by its bridge when that is called",
    "PIL": "comes with matplotlib",
    "typing_extensions": "for type checkers, which bring it",
}
"""Imported, and no dependency."""
KEY, DATA = jax.random.key(0), jnp.linspace(-1.0, 1.0, 40)[:, None]
MODEL = ewsg.models.gaussian_location()


def names_in(requirements):
    """The packages of a list of requirements, with those of the extras of our own that it names."""
    found = set()
    for requirement in requirements:
        name, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement).groups()
        if name != PROJECT["name"]:
            found.add(name.replace("-", "_"))
        for extra in (extras or "").split(",") if name == PROJECT["name"] else ():
            found |= names_in(PROJECT["optional-dependencies"][extra])
    return found


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    imported = set()
    for path in (ROOT / "ewsg_jax").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"ewsg_jax"} - set(ELSEWHERE)
    # jax cannot do without jaxlib.
    assert others | {"jaxlib"} == names_in(PROJECT["dependencies"])


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_brings_what_it_is_named_for(name):
    package, extra = EXTRAS[name]
    assert package.lower().replace("-", "_") in names_in(PROJECT["optional-dependencies"][extra])
    # And tests have all of them.
    assert package.lower().replace("-", "_") in names_in(PROJECT["optional-dependencies"]["test"])


def test_importing_the_library_imports_none_of_them():
    """No network library, and no experiments; and without a warning."""
    lazy = [*EXTRAS, "tqdm", "PIL", "arviz_stats", "xarray", "flax", "equinox"]
    lazy += ["scipy.optimize", "ewsg_jax.cli.run"]
    code = f"import sys, ewsg_jax; print([name for name in {lazy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == "[]"


def sampled():
    return ewsg.sample(
        KEY, ewsg.sgld(MODEL, 1e-3, batch_size=5), jnp.zeros(1), DATA, 8, num_chains=2
    )


def stacked():
    kernels = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in (1e-3, 2e-3)])
    return ewsg.sample(KEY, kernels, jnp.zeros(1), DATA, 8, num_chains=2)


def planned():
    return ewsg.plan(KEY, MODEL, jnp.zeros(1), DATA)


def checked():
    exact = ewsg.sample(
        KEY,
        ewsg.uld(MODEL, 0.1, friction=10.0, integrator="BAOAB"),
        jnp.zeros(1),
        DATA,
        9_000,
        num_chains=8,
        burn_in=100,
    )
    return ewsg.check(KEY, exact, MODEL, DATA)


def streamed(folder):
    (folder / "rows.parquet").write_bytes(b"")
    return ewsg.stream(str(folder / "rows.parquet"))


USES = {
    "to_arviz": ("arviz", sampled, lambda run: run.to_arviz()),
    "to_arviz with likelihoods": (
        "arviz",
        sampled,
        lambda run: run.to_arviz(posterior=MODEL, data=DATA),
    ),
    "to_arviz of a stack": ("arviz", stacked, lambda runs: runs.to_arviz()),
    "to_pandas": ("pandas", sampled, lambda run: ewsg.diagnostics.summary(run).to_pandas()),
    "plot of a stack": ("matplotlib", stacked, lambda runs: runs.plot()),
    "plot of a plan": ("matplotlib", planned, lambda plan: plan.plot()),
    "plot of a report": ("matplotlib", checked, lambda report: report.plot()),
    "breast_cancer": ("sklearn", tuple, lambda _: ewsg.datasets.breast_cancer()),
    "load": ("sklearn", tuple, lambda _: ewsg.datasets.load("breast_cancer")),
    "cluster": ("sklearn", tuple, lambda _: ewsg.cluster(DATA, 2)),
    "nuts": ("blackjax", tuple, lambda _: ewsg.nuts(MODEL, 0.1)),
    "from_numpyro": ("numpyro", tuple, lambda _: ewsg.from_numpyro(lambda: None)),
    "numpyro_kernel": ("numpyro", tuple, lambda _: ewsg.numpyro_kernel(MODEL)),
    "from_pymc": ("pymc", tuple, lambda _: ewsg.from_pymc(None)),
    "Parquet": ("pyarrow", None, streamed),
}


@pytest.mark.full
@pytest.mark.parametrize("use", USES)
def test_what_is_missing_is_named_with_its_extra(use, tmp_path, monkeypatch):
    """All else runs without it."""
    package, make, call = USES[use]
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    made = tmp_path if make is None else make()
    with pytest.raises(ImportError) as caught:
        call(made)
    assert str(caught.value).endswith(
        f"needs {EXTRAS[package][0]}: pip install 'ewsg_jax[{EXTRAS[package][1]}]'"
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["run", str(ROOT / "configs" / "quickstart.toml")], "scikit-learn"),
        (["reproduce", "gaussian-kl"], "matplotlib"),
    ],
)
def test_the_command_line_names_one_extra_before_it_begins(
    words, package, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert main([*words, "--output", str(tmp_path / "out")]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"needs {package}: pip install 'ewsg_jax[" in line
    assert {"matplotlib", "scikit_learn"} <= names_in(PROJECT["optional-dependencies"]["run"])
    assert not (tmp_path / "out").exists()


def test_a_bar_is_shown_only_where_there_is_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert sampled().num_draws == 8


@pytest.mark.full
def test_plan_and_check_need_none():
    """In a process where none can be imported, as after `pip install ewsg_jax`."""
    code = f"""
import sys
sys.modules.update(dict.fromkeys({[*EXTRAS, "tqdm", "xarray"]}))
from tests.test_extras import checked, planned
print(planned().gaussian.is_right, checked().outcome)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.stdout.strip() == "True right", done.stderr


def test_the_command_line_keeps_programs_where_jax_is_not_told_another_folder(
    monkeypatch, tmp_path
):
    """In the user's cache folder, and a folder that was named first stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in settings}
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        keep_programs()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "ewsg_jax" / "programs")
        jax.config.update("jax_compilation_cache_dir", "another")
        keep_programs()
        assert jax.config.jax_compilation_cache_dir == "another"
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
