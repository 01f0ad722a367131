"""Table 3 of Li, Wang, Zha & Tao, made small on made-up digits."""

import dataclasses
import types

import numpy as np

from benchmarks.papers import mnist, mnist_chains
from benchmarks.papers.figures import png
from benchmarks.papers.running import settings_of, text_of


def small():
    """The quick settings, made small."""
    settings = settings_of(mnist_chains.Settings, text_of("mnist-m"), "quick")
    return dataclasses.replace(
        settings,
        num_rows=40,
        num_validation=20,
        num_test=20,
        hidden=(3,),
        batch_sizes=(5,),
        candidates=(2,),
        data_passes=4.0,
        sum_passes=4.0,
        num_repeats=2,
        ensemble=1,
        factors=(0.01, 1.0, 1e12),
    )


def test_a_small_experiment(monkeypatch):
    x = np.random.default_rng(0).integers(0, 256, (70_000, 784), np.uint8)
    monkeypatch.setattr(
        mnist.data_sets, "load", lambda name: types.SimpleNamespace(x=x, y=np.arange(70_000) % 10)
    )
    settings = small()
    (compute,) = mnist_chains.parts(settings).values()
    done = {"b = 5, M + 1 = 2": compute({}) | {"seconds": 0.0}}
    part = done["b = 5, M + 1 = 2"]
    assert {curve["per_step"] for curve in part["paper"].values()} == {10}, "both cost the same"
    assert set(part["factor"].values()) <= {0.01, 1.0}
    claims = mnist_chains.claims(done)
    assert [claim.by_the_paper for claim in claims] == [True, False, False, False]
    assert png(mnist_chains.draw(done))[:4] == b"\x89PNG"
