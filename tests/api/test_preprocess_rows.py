"""Labeled rows in memory give the data of the same rows in a file."""

import numpy as np
import pytest

import toolkit
from tests.data.formats.rows.test_rows import REVIEWS, columns, write_json_lines

COLUMNS = {"text_columns": "review", "label_column": "mood", "tokenizer": "words"}


def to_frame(rows):
    return pytest.importorskip("pandas").DataFrame(rows)


def to_dataset(rows):
    datasets = pytest.importorskip("datasets")
    mood = datasets.ClassLabel(names=["bad", "good"])
    return datasets.Dataset.from_list(rows).cast_column("mood", mood)


def to_arrays(rows):
    return [{**row, "mood": np.str_(row["mood"]), "more": np.zeros(2)} for row in rows]


@pytest.mark.parametrize("convert", [list, to_arrays, to_frame, to_dataset])
def test_rows_in_memory_equal_those_of_a_file(tmp_path, convert):
    write_json_lines(tmp_path / "a.jsonl", REVIEWS)
    rows, path = convert(REVIEWS), str(tmp_path / "a.jsonl")
    files = {"trainpref": path, "validpref": path, "destdir": str(tmp_path / "files")}
    toolkit.preprocess(format="rows", **files, **COLUMNS)
    destdir = tmp_path / "data"
    toolkit.preprocess({"train": rows, "validation": rows}, destdir=str(destdir), **COLUMNS)
    assert columns(destdir) == columns(tmp_path / "files")
    toolkit.preprocess(rows, valid_fraction=0.5, destdir=str(tmp_path / "held"), **COLUMNS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*REVIEWS[:1], {"review": 3, "mood": "bad"}],
            r"^train/rows\.jsonl:2: 'review' must be text",
        ),
        ([["a", "b"]], r"^train/rows\.jsonl:1: the row must be an object with names of columns"),
        ({"review": ["a"], "mood": ["b"]}, "the data has no split train, but has mood, review"),
        ({"../a": REVIEWS}, r"^rows: \[0\]: expected the name of a file. Rename the split"),
        ("a.csv", r"not a file\. Give trainpref='a.csv'\."),
    ],
)
def test_errors_name_split_and_row(tmp_path, rows, message):
    with pytest.raises(toolkit.ToolkitError, match=message):
        toolkit.preprocess(rows, destdir=str(tmp_path / "data"), **COLUMNS)
