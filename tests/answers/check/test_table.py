"""The table of a report: which coordinates it has a line of."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(0)
ROWS = np.zeros((4, 1), np.float32)
STANDARD = ewsg.Posterior(
    lambda p, row: 0.0 * row[0],
    lambda p: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p)),
)


def draws(**shapes):
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal((4, 500, *shape)) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def hierarchy():
    """Forty effects, four of them far too wide, and three numbers that all share."""
    made = draws(mu=(2,), tau=(), z=(20, 2))
    made["z"][..., :4, 0] *= 1.5
    return ewsg.check(KEY, made, STANDARD, ROWS)


def lines_of(report, start):
    return [line.split()[0] for line in str(report).splitlines() if line.startswith(start)]


def test_numbers_that_all_share_come_first(hierarchy):
    assert (
        lines_of(hierarchy, ("mu", "tau", "z"))
        == [
            "mu[0]",
            "mu[1]",
            "tau",
            *(hierarchy.names[i] for i in hierarchy.worst(12) if hierarchy.names[i][0] == "z"),
        ][:12]
    )
    assert set(lines_of(hierarchy, "z")) >= {"z[0,0]", "z[1,0]", "z[2,0]", "z[3,0]"}
    assert (
        "(43 coordinates, 3 of the smallest leaves and the 9 with the largest bias shown; others "
        "by report.table)" in str(hierarchy)
    )


def test_a_leaf_is_shown_by_its_name(hierarchy):
    table = hierarchy.table("tau", "mu").splitlines()
    assert table[0].startswith("coordinate")
    assert [line.split()[0] for line in table[1:]] == ["tau", "mu[0]", "mu[1]"]
    assert hierarchy.table("z[3,1]").splitlines()[1] in hierarchy.table("z").splitlines()
    assert len(hierarchy.table("z").splitlines()) == 41
    assert len(hierarchy.table().splitlines()) == 44
    with pytest.raises(ValueError, match=r"coordinates or leaves, such as 'mu\[0\]'; got 'm'"):
        hierarchy.table("m")
    with pytest.raises(TypeError, match="names must be strings; got 3"):
        hierarchy.table(3)


def test_a_branch_of_a_tree_is_shown_by_its_name():
    made = {"layer": draws(w=(3,), b=()), "out": draws(w=())["w"]}
    table = ewsg.check(KEY, made, STANDARD, ROWS).table("layer").splitlines()
    assert [line.split()[0] for line in table[1:]] == [
        "layer.b",
        "layer.w[0]",
        "layer.w[1]",
        "layer.w[2]",
    ]


@pytest.mark.full
def test_many_scalars_or_one_vector_are_shown_by_their_bias():
    for made in (draws(**{f"a{i}": () for i in range(20)}), draws(b=(20,))):
        report = ewsg.check(KEY, made, STANDARD, ROWS)
        worst = [report.names[i] for i in report.worst(12)]
        assert lines_of(report, ("a", "b")) == worst
        assert "(20 coordinates, the 12 with the largest bias shown" in str(report)


def test_a_table_of_nothing_is_a_line(hierarchy):
    def unknown(tree):
        return jax.tree.map(lambda leaf: np.full(leaf.shape, 9.0), tree)

    found = hierarchy.moments
    nothing = dataclasses.replace(
        hierarchy,
        sd_ratio_error=unknown(hierarchy.sd_ratio),
        mean_shift_error=unknown(hierarchy.sd_ratio),
        moments=found._replace(mean_error=9 * found.sd, sd_error=9 * found.sd),
    )
    assert "coordinate " not in str(nothing)
    assert "of 12 coordinates nothing is known: errors are above 3 sd" in str(nothing)
    assert nothing.table("tau") == "of 1 coordinates nothing is known: errors are above 3 sd"
