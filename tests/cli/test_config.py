"""Configurations: what is right is read, what is wrong is refused by its full path."""

import dataclasses
import json
from pathlib import Path

import pytest

import ewsg_jax as ewsg
from ewsg_jax.cli.config import Config, ConfigError, build, from_toml, load

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))

GOOD = """
title = "A title"

[data]
name = "breast_cancer"

[model]
prior_scale = 2

[run]  # what all methods share
num_chains = 4
data_passes = 10

[reference]
step_size = 0.1
friction = 1
num_steps = 100

[[methods]]
name = "sghmc"
step_size = 1e-2
friction = 1
batch_size = 5

[[methods]]
name = "ewsg"
label = "long"
step_size = 1e-2
friction = 1
batch_size = 5
chain_length = 3
"""


def parse(text):
    return build(Config, from_toml(text))


def test_a_good_one():
    experiment = parse(GOOD)
    assert experiment.model.prior_scale == 2.0
    assert isinstance(experiment.model.prior_scale, float)
    assert experiment.run.num_chains == 4
    assert experiment.run.seed == 0
    assert experiment.data.drop_columns == ()
    sghmc, long = experiment.named.values()
    assert (sghmc.label, long.label) == ("sghmc", "long")
    assert dict(long.options) == {
        "step_size": 1e-2,
        "friction": 1,
        "batch_size": 5,
        "chain_length": 3,
    }


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_of_the_project(path):
    config, text = load(path)
    assert config.methods
    assert text == path.read_text()


REFUSED = r"""
num_chains = 4   | num_chians = 4   | key 'run.num_chians' (did you mean 'num_chains'?)
num_chains = 4   | zzz = 4          | unknown key 'run.zzz'; known are num_chains, data_passes
[reference]      | [refrence]       | unknown key 'refrence' (did you mean 'reference'?)
[data]           | [tool]\n[data]   | unknown key 'tool'; known are title, data, run
chain_length     | chain_lenght     | 'methods[2] (ewsg).chain_lenght' (did you mean 'chain_length'
name = "ewsg"    | name = "ewgs"    | methods[2].name must be one of
name = "ewsg"    | name = "ewgs"    | (did you mean 'ewsg'?)
friction = 1\nba | ba               | missing key 'methods[1] (sghmc).friction'
name = "sghmc"   |                  | missing key 'methods[1].name': one of ld, uld
data_passes = 10 |                  | missing key 'run.data_passes'
title = "A title"|                  | missing key 'title'
num_chains = 4   | num_chains = 4.5 | run.num_chains must be a whole number; got 4.5 (float)
num_chains = 4   | num_chains = true| run.num_chains must be a whole number; got True (bool)
prior_scale = 2  | prior_scale = "2"| model.prior_scale must be a number; got '2' (str)
prior_scale = 2  | prior_scale =true| model.prior_scale must be a number; got True (bool)
data_passes = 10 | data_passes = TEN| run.data_passes must be a number; got a whole number too
[run]            | [run]\nshared_minibatch = 1 | run.shared_minibatch must be true or false; got 1
[model]          | [model]\ncoordinates = "c"  | model.coordinates must be one of 'features', 'cu
name = "breast_c | name = "brest_c             | (did you mean 'breast_cancer'?)
[data]           | [data]\ndrop_columns = "a"  | data.drop_columns must be a list
[data]           | [data]\ndrop_columns = [1]  | data.drop_columns[1] must be a string; got 1 (int)
[data]           | [data]\ntest_fraction = 1   | above 0 and below 1; got 1.0
[data]           | [data]\nsplit_seed = TEN    | data.split_seed must be at most 4294967295
[run]            | [run]\nseed = 4294967296    | run.seed must be at most 4294967295; got 4294967296
[run]            | [run]\nstart_spread = inf   | run.start_spread must be a finite number; got inf
num_chains = 4   | num_chains = 0   | run.num_chains must be at least 1; got 0
data_passes = 10 | data_passes = 0  | run.data_passes must be above 0; got 0.0
data_passes = 10 | data_passes = nan| run.data_passes must be above 0; got nan
label = "long"   | label = "sghmc"  | two runs are called 'sghmc'
label = "long"   | label = "reference"         | no run can be called 'reference'
label = "long"   | label = "unscaled names"    | no run can be called 'unscaled names'
label = "long"   | label = "sghmc.data_passes" | no run can be called 'sghmc.data_passes'
label = "long"   | label = "sghmc.unscaled"    | no run can be called 'sghmc.unscaled'
label = "long"   | label = 3        | methods[2] (ewsg).label must be a string
label = "long"   | label = ""       | methods[2] (ewsg).label must be not empty
[[methods]]      | [methods]        | not valid TOML
num_chains = 4   | num_chains =     | not valid TOML
"""
"""What stands in the place of what, and a part of the message; TEN: 10⁴⁰⁰."""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_refusals(line):
    old, new, message = (part.strip().replace("\\n", "\n") for part in line.split("|"))
    assert old in GOOD
    with pytest.raises(ConfigError) as error:
        parse(GOOD.replace(old, new.replace("TEN", str(10**400))))
    assert message in str(error.value)


def test_a_table_that_is_a_number():
    text = "model = 3\n" + GOOD.replace("[model]\nprior_scale = 2", "")
    with pytest.raises(ConfigError, match="must be a table of keys; got 3"):
        parse(text)


def test_methods_must_be_there():
    start = GOOD[: GOOD.index("[[methods]]")]
    for methods, message in (
        ("", "missing key 'methods'"),
        ("methods = []\n", "methods must be not empty"),
        ("methods = 3\n", "methods must be a list; got 3"),
        ("methods = [3]\n", r"methods\[1\] must be a table"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse(methods + start)


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(
        ConfigError, match=r"not valid TOML, which is text in UTF-8: .* 0xff in position 0"
    ):
        load(tmp_path / "bytes.toml")


def test_every_method_can_be_named():
    start = GOOD[: GOOD.index("[[methods]]")]
    for name, method in ewsg.METHODS.items():
        options = {"name": name, "step_size": 0.1, **method.example}
        options |= {"labels": "stratum"} if "labels" in options else {}
        functions = [key for key, value in options.items() if callable(value)]
        lines = [
            f"{key} = {json.dumps(value)}" for key, value in options.items() if key not in functions
        ]
        text = start + "[[methods]]\n" + "\n".join(lines)
        if functions:  # which no config can hold
            with pytest.raises(ConfigError, match=functions[0]):
                parse(text)
        else:
            assert parse(text).named[name].name == name


NOTE = 'note = """\nseed = 5\n[run]\n"""\n'
RUN = "[run]  # what all methods share"


@pytest.mark.parametrize(
    "run", [RUN, "[ run ]", "[run]\nseed = 3", "[run]\n  seed=0x3 # of the run", f"{RUN}\nseed = 7"]
)
def test_another_seed_stands_where_it_is_read(tmp_path, run):
    """However the table begins, in a text that gives the same run when it is read again."""
    path, written = tmp_path / "good.toml", tmp_path / "config.toml"
    path.write_text(NOTE + GOOD.replace(RUN, run))
    config, text = load(path, seed=7)
    written.write_text(text)
    assert config.run.seed == 7
    assert dataclasses.replace(config, run=load(path)[0].run) == load(path)[0]
    assert load(written) == load(written, seed=7) == (config, text)


def test_a_seed_that_has_no_line_is_refused(tmp_path):
    path = tmp_path / "good.toml"
    before, after = GOOD[: GOOD.index(RUN)], GOOD[GOOD.index("[reference]") :]
    path.write_text(f"run = {{num_chains = 2, data_passes = 1}}\n{before}{after}")
    assert load(path)[0].run.num_chains == 2
    with pytest.raises(ConfigError, match=r"run\.seed must have a line of its own below \[run\]"):
        load(path, seed=7)
