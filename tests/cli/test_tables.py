"""Tables in text: encodings against matrices that were written by hand, and files with faults."""

import codecs

import numpy as np
import pytest

from ewsg_jax.cli import cells, data_file
from ewsg_jax.cli.arguments import Reading
from ewsg_jax.cli.delimited import FileError

SMALL = """ward,age,seen,smoker,died
B,30,2024-01-03,Yes,no
A,40,2024-01-01,no,yes
C,50,2024-01-02,Yes,no
A,60,2024-03-01,no,yes
B,35,2024-01-31,no,yes
C,44,2024-02-29,Yes,no
A,71,2024-01-09,Yes,yes
"""


def rows(folder, text, suffix=".csv", **asked):
    """The rows of a text."""
    path = folder / f"rows{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return data_file.rows(str(path), Reading(**asked))


def names(found):
    return [feature.name for feature in found.features]


def test_texts_and_dates_are_encoded(tmp_path):
    """The first level is the reference, `no` of yes and no; and it is named."""
    found = rows(tmp_path, SMALL)
    assert names(found) == ["ward[B]", "ward[C]", "age", "seen", "smoker[Yes]"]
    by_hand = [[1, 0, 30, 2, 1], [0, 0, 40, 0, 0], [0, 1, 50, 1, 1], [0, 0, 60, 60, 0]]
    by_hand += [[1, 0, 35, 30, 0], [0, 1, 44, 59, 1], [0, 0, 71, 8, 1]]
    np.testing.assert_array_equal(found.dataset.x, by_hand)
    assert found.y.tolist() == ["no", "yes", "no", "yes", "yes", "no", "yes"]
    assert "ward: levels B (2), C (2); reference A (3)" in found.words
    assert "smoker: levels Yes (4); reference no (3)" in found.words
    assert "seen: dates are days since 2024-01-01, the first" in found.words
    found = rows(tmp_path, SMALL, reference=("ward=C",), drop=("seen",))
    assert names(found)[:3] == ["ward[A]", "ward[B]", "age"]
    np.testing.assert_array_equal(found.dataset.x[:, 0], [0, 1, 0, 1, 0, 0, 1])
    found = rows(tmp_path, "code,y\n1,0\n2,1\n1,1\n7,0\n", categorical=("code",))
    assert names(found) == ["code[2]", "code[7]"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_marks_and_ends_of_lines(tmp_path, separator, end):
    """An ordinary file is read in silence, whatever stands between its cells."""
    text = SMALL.replace(",", separator).replace("\n", end)
    suffix = ".tsv" if separator == "\t" else ".csv"
    plain = rows(tmp_path, SMALL)
    found = rows(tmp_path, codecs.BOM_UTF8 + text.encode(), suffix)
    assert names(found) == names(plain)
    np.testing.assert_array_equal(found.dataset.x, plain.dataset.x)
    assert any("separated by" in line for line in found.words) == (separator != ",")
    found = rows(tmp_path, text.encode("utf-16"), suffix)
    np.testing.assert_array_equal(found.dataset.x, plain.dataset.x)


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("1,234.5", "point", 1234.5),
        ("1.234,5", "comma", 1234.5),
        ("0,575", "point", None),
        ("0.575", "comma", None),
        ("3,14", "comma", 3.14),
        ("3,14", "point", None),
        ("1 234", "point", 1234),
        ("1'234'567", "point", 1234567),
        ("1\u202f234,5", "comma", 1234.5),
        ("−5", "point", -5),
        ("1e-3", "point", 1e-3),
        ("1_000", "point", None),
        ("inf", "point", None),
        ("1e999", "point", None),
        ("1,2,3", "comma", None),
        ("12 %", "point", None),
    ],
)
def test_numbers(cell, mark, value):
    assert cells.number(cell, mark) == value


@pytest.mark.parametrize(
    ("separator", "a", "b", "by_hand"),
    [
        # What one column shows goes for the other, whose cells may be read in two ways.
        (";", ["1.234", "5.678"], ["3,1", "4,25"], [1234, 5678]),
        (";", ["1,234", "5,678"], ["3,1", "4,25"], [1.234, 5.678]),
        (";", ["1,234", "5,678"], ["3.1", "4.25"], [1234, 5678]),
        # Without such a column a point is one; a comma is one between semicolons.
        ("\t", ["1.234", "5.678"], ["3", "4"], [1.234, 5.678]),
        (";", ["1,234", "5,678"], ["3", "4"], [1.234, 5.678]),
        (",", ['"1,234"', '"5,678"'], ["3", "4"], [1234, 5678]),
        (",", ['"0,234"', '"0,678"'], ["3", "4"], [0.234, 0.678]),
    ],
)
def test_decimal_marks_of_a_file(tmp_path, separator, a, b, by_hand):
    lines = [separator.join(cells) for cells in zip(a, b, "01", strict=True)]
    text = "\n".join([separator.join("aby"), *lines])
    np.testing.assert_allclose(rows(tmp_path, text).dataset.x[:, 0], by_hand)


def test_a_decimal_mark_that_is_given(tmp_path):
    text = "a;y\n1,234;0\n5,678;1\n"
    assert rows(tmp_path, text, decimal="point").dataset.x[0, 0] == 1234
    text = text.replace("5,678", "5,6")
    assert names(rows(tmp_path, text, decimal="point")) == ["a[5,6]"]


def test_missing_cells_by_their_policy(tmp_path):
    text = "a,kind,y\n1,x,0\nNA,z,1\n3,?,1\n5,x,\n8,z,0\n4,x,1\n"
    problems = rows(tmp_path, text).problems
    assert len(problems) == 1
    for part in (
        "1 of 'a' (the first in row 2)",
        "'kind'",
        "--missing drop",
        "--missing indicator",
    ):
        assert part in problems[0]
    table = rows(tmp_path, text, missing="drop")
    assert "3 rows with missing cells left out (a 1, kind 1, y 1)" in table.words
    np.testing.assert_array_equal(table.dataset.x, [[1, 0], [8, 1], [4, 0]])
    np.testing.assert_array_equal(table.y, [0, 0, 1])
    # Without the row that has no response the mean of 1, 3, 8 and 4 is 4.
    table = rows(tmp_path, text, missing="indicator")
    assert names(table) == ["a", "a[missing]", "kind[z]", "kind[missing]"]
    by_hand = [[1, 0, 0, 0], [4, 1, 1, 0], [3, 0, 0, 1], [8, 0, 1, 0], [4, 0, 0, 0]]
    np.testing.assert_array_equal(table.dataset.x, by_hand)
    assert "1 rows with missing cells left out (y 1)" in table.words
    # No mean stands for an exposure.
    table = rows(tmp_path, "a,days,y\n1,30,0\n2,,1\n5,60,2\n", exposure="days", missing="indicator")
    assert names(table) == ["a"]
    assert table.exposure.numbers.tolist() == [30, 60]
    assert "1 rows with missing cells left out (days 1)" in table.words
    # `none` may be a level, and -9 is missing if that is said.
    table = rows(tmp_path, "a,kind,y\n-9,none,0\n2,x,1\n3,x,0\n", na=("-9",), missing="drop")
    assert table.dataset.x.tolist() == [[2], [3]]
    assert rows(tmp_path, "a,k,y\n9,none,0\n2,x,1\n", missing="drop").dataset.num_rows == 2


def test_missing_groups_are_a_group_of_their_own(tmp_path):
    """Also if the names of groups have fewer letters than that of the missing ones."""
    text = "a,sex,y\n1,m,0\n2,f,1\n4,,1\n3,m,0\n7,,1\n"
    table = rows(tmp_path, text, group="sex", missing="indicator")
    assert table.groups.names == ("f", "m", "missing")
    assert table.groups.numbers.tolist() == [1, 0, 2, 1, 2]


def test_a_column_of_groups_that_is_empty_is_refused(tmp_path):
    """Without groups it would be another model than the one that was asked for."""
    table = rows(tmp_path, "a,g,y\n1,,0\n2,NA,1\n4,,1\n", group="g")
    assert table.problems == ("must have two groups or more in 'g'; every cell is missing",)


def test_a_column_that_is_known_in_rows_that_are_left_out_alone(tmp_path):
    text = "a,t,b,y\n1,,,0\n2,,,1\n3,u,5,\n4,v,6,\n7,,,1\n"
    table = rows(tmp_path, text, missing="indicator")
    assert names(table) == ["a"]
    assert "left out, for they are constant: t (missing), b (missing)" in table.words


def test_dates_before_the_first_are_texts(tmp_path):
    """In UTC the first is in the year 0, which Python has not."""
    first = "0001-01-01T00:00:00+14:00"
    assert cells.column("seen", [first, "2024-01-02T00:00:00+14:00"], None).kind == "text"


def test_columns_that_say_nothing_are_left_out_with_a_word(tmp_path):
    generator = np.random.default_rng(0)
    lines = ["row,who,income,empty,same,a,twice,kind,copy,y"]
    for i in range(40):
        a, kind = generator.normal(), "uv"[generator.integers(2)]
        income = 10**6 + generator.integers(10**6)
        lines.append(f"{7 * i},p{i},{income},,x,{a},{3 - 2 * a},{kind},{kind},{i % 2}")
    found = rows(tmp_path, "\n".join(lines))
    assert names(found) == ["income", "a", "kind[v]"]
    said = "; ".join(found.words)
    for part in (
        "row is an id, for no two rows have the same whole number (--keep row keeps it)",
        "who is an id, for no two rows have the same text",
        "every cell is missing: empty",
        "constant: same (x)",
        "twice is determined by a",
        "copy[v] is determined by kind[v]",
    ):
        assert part in said
    assert "row" in names(rows(tmp_path, "\n".join(lines), keep=("row",)))
    # Of all versions before, every number was a feature.
    text = "\n".join(f"{a},{b},{c}" for a, b, c in [("a", "b", "y"), (1, 2, 0), (1, 4, 1)])
    assert names(rows(tmp_path, text, every_column=True)) == ["a", "b"]


def test_every_column_of_a_data_set_is_taken_as_it_is():
    """As `check` asks of folders of older versions."""
    table = data_file.rows("breast_cancer", Reading(every_column=True))
    assert len(names(table)) == 30


def test_ids_in_any_order(tmp_path):
    """Numbers that are dense, or called so; wide ones are what is measured."""
    generator = np.random.default_rng(0)
    dense, wide = generator.permutation(200), generator.choice(10**6, 200, replace=False)
    lines = [f"{a},{b},{b},{i % 2}" for i, (a, b) in enumerate(zip(dense, wide, strict=True))]
    found = rows(tmp_path, "\n".join(["code,patient_id,income,y", *lines]))
    assert names(found) == ["income"]


def test_all_that_is_wrong_is_one_message(tmp_path):
    lines = ["id,age,age,town,y"]
    lines += [f"{i},{20 + i},{i % 7},town {i},{i % 2}" for i in range(30)]
    lines[3] = "2,unknown,1,town 1,0"
    lines[9] = "8,28"
    lines[12] = "11,,3,town 5,1"
    with pytest.raises(FileError) as refused:
        data_file.read(str(write(tmp_path, lines)))
    said = str(refused.value)
    assert "3 things are wrong" not in said
    for part in (
        "1. it must have columns of different names; 2 are called 'age'",
        "2. it must have 5 cells in every row, as its header; row 9 has 2",
        "row 3 has 'unknown'",
        "--categorical age",
        "27 different texts in the column 'town'",
        "--group town",
    ):
        assert part in said
    assert said.count("\n  ") == 4


def write(folder, lines):
    path = folder / "rows.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "it has nothing"),
        (b"\n \n", "it has nothing"),
        (b"a,b,y\n", "rows below its header"),
        (b"a b y\n1 2 0\n", "one column, 'a b y'"),
        (b"1,2,0\n2,1,1\n", "a line of column names"),
        (b"a,b,y\n1,\xe9,0\n", "line 2 has the byte 0xe9"),
        (b"a,y\n1,0\n2,\x00\n", "bytes of value 0"),
        (b'a,y\n1,"0\n' + b"2,1\n" * 40_000, "a quote may not be closed"),
    ],
)
def test_what_is_no_table(tmp_path, text, said):
    with pytest.raises(FileError, match=said):
        rows(tmp_path, text)


def test_a_space_before_a_quote(tmp_path):
    found = rows(tmp_path, 'a, "b, c", y\n1, "2", 0\n2, "5", 1\n1, "1,000", 1\n')
    assert names(found) == ["a", "b, c"]
    assert found.dataset.x.tolist() == [[1, 2], [2, 5], [1, 1000]]


def test_other_encodings_are_said(tmp_path):
    text = "größe,y\n1,0\n2,1\n".encode("cp1252")
    assert names(rows(tmp_path, text, encoding="cp1252")) == ["größe"]


def test_groups(tmp_path):
    found = rows(tmp_path, SMALL, group="ward")
    assert names(found) == ["age", "seen", "smoker[Yes]"]
    assert found.groups.names == ("A", "B", "C")
    assert found.groups.numbers.tolist() == [1, 0, 2, 0, 1, 2, 0]
    assert (
        "must have two groups"
        in rows(tmp_path, SMALL.replace("B,", "A,").replace("C,", "A,"), group="ward").problems[0]
    )


def test_a_response_s_class_of_reference(tmp_path):
    found = rows(tmp_path, SMALL.replace("yes", "Yes").replace(",no\n", ",NO\n"))
    codes, classes = data_file.coded(found.y, 2, "", found.first)
    assert classes == ("NO", "Yes")
    assert codes.tolist() == [0, 1, 0, 1, 1, 0, 1]
    found = rows(tmp_path, SMALL, reference=("died=yes",))
    codes, classes = data_file.coded(found.y, 2, "", found.first)
    assert (codes.tolist(), classes) == ([1, 0, 1, 0, 0, 1, 0], ("yes", "no"))


@pytest.mark.parametrize("text", [",,,\n,,,\n", '""\n'])
def test_a_table_of_separators_alone_is_refused(tmp_path, text):
    with pytest.raises(FileError, match="must have columns with commas"):
        rows(tmp_path, text)
