from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS, read_tsv

HEADER = "sentence\tlabel\n"
MAX_BYTES = 500_000


@pytest.fixture
def read(tmp_path):
    def call(text, task="SST-2", max_bytes=MAX_BYTES):
        path = tmp_path / "table.tsv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_tsv(path, GLUE_SCHEMAS[task], max_bytes)

    return call


def texts(table):
    return [row.texts for row in table.rows]


def test_quotes_are_text(read):
    table = read(HEADER + 'an "unbalanced one\t1\n"and another\t0\n')
    assert texts(table) == [('an "unbalanced one',), ('"and another',)]
    assert [row.label for row in table.rows] == ["1", "0"] and not table.problems


def test_byte_order_mark_and_crlf_are_ignored(read):
    table = read(b"\xef\xbb\xbf" + (HEADER + "well\t1\n").replace("\n", "\r\n").encode())
    assert [(row.line, row.texts, row.label) for row in table.rows] == [(2, ("well",), "1")]


def test_malformed_rows_are_named_by_line(read):
    table = read(HEADER + "good\t1\nbad\n\ngood\t2\nmore\t0\tthings\ngood\t\nlast\t0\n")
    assert texts(table) == [("good",), ("last",)]
    assert [row.number for row in table.rows] == [0, 6], "places in the file"
    wrong = "a row must have 2 columns, as the first line, but has"
    assert [str(problem).split("table.tsv:")[1] for problem in table.problems] == [
        f"3: {wrong} 1.",
        f"4: {wrong} 1.",
        "5: the answer must be one of 0, 1, but is '2'.",
        f"6: {wrong} 3.",
        "7: the row must have an answer, but it is empty.",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"must hold rows, but is empty"),
        ("a\tb\n1\t2\n", r":1: the first line must name the columns of SST-2, 'sentence' among"),
        (HEADER.encode() + b"caf\xe9\t1\n", r":2: expected UTF-8, found byte 0xe9"),
        (HEADER + "a\0b\t1\n", r":2: found a NUL byte"),
    ],
)
def test_file_without_a_table_is_rejected(read, text, message):
    with pytest.raises(ToolkitError, match=message):
        read(text)


def test_cola_has_a_header_in_its_test_file_only(read):
    table = read("gj04\t1\t\tIt works.\ngj04\t0\t*\tWorks it.\n", "CoLA")
    assert [(row.line, row.number, row.texts, row.label) for row in table.rows] == [
        (1, 0, ("It works.",), "1"),
        (2, 1, ("Works it.",), "0"),
    ]
    [row] = read("index\tsentence\n7\tIt works.\n", "CoLA").rows
    assert row.number == 7 and row.label is None


@pytest.mark.parametrize("score", ["5.001", "-1", "nan", "inf", "five", ""])
def test_score_must_be_a_number_in_its_range(read, score):
    table = read(f"sentence1\tsentence2\tscore\na\tb\t{score}\na\tb\t4.75\n", "STS-B")
    assert [row.label for row in table.rows] == ["4.75"]
    assert f"the answer must be a number from 0 to 5, but is {score!r}." in str(table.problems[0])


COUNTS = {
    "CoLA": {"train": 8551, "dev": 1043, "test": 1063},
    "SST-2": {"train": 67349, "dev": 872, "test": 1821},
    "MRPC": {"train": 3668, "dev": 408, "test": 1725},
    "STS-B": {"train": 5749, "dev": 1500, "test": 1379},
    "QNLI": {"train": 8999, "dev": 5463, "test": 5463},
    "MNLI": {"train": 8999, "dev_matched": 1000},
    "QQP": {"train": 19999, "dev": 3497},
}
"""As published, or as the data beside the project says; QQP's first row has five columns."""


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("name", COUNTS)
def test_real_files_have_the_published_rows_and_labels(name, real_data):
    folder = real_data / "glue_data" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    for split, count in COUNTS[name].items():
        path = folder / f"{split}.tsv"
        table = read_tsv(path, GLUE_SCHEMAS[name], MAX_BYTES)
        assert len(table.rows) == count
        wrong = [2] if (name, split) == ("QQP", "train") else []
        assert [int(problem.where) for problem in table.problems] == wrong
