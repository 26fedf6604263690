"""Sentences with labels: files, preprocessing, submissions."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.format import read_tsv
from toolkit.data.formats.classification.split import (
    GLUE_SCHEMAS,
    ClassificationSplit,
    ClassificationTokenizer,
    Labels,
    submission_file,
    write_submission,
)
from toolkit.data.storage.data_folder import DataFolder

from .conftest import RTE, STS

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


BROKEN = {**RTE, "train.tsv": RTE["train.tsv"] + "9\tonly two\n"}


def test_texts_and_labels_are_read_back(folder):
    data = folder()
    split = ClassificationSplit(data, "valid")
    assert split.answers.tolist() == [0, 1] and split.labeled.all() and len(split) == 2
    for column, texts in ((split.first, ["cats run", "dogs"]), (split.second, ["a cat", "cats"])):
        found = column.take(np.arange(2), column.lengths)
        ids = np.split(found.ids, np.cumsum(found.lengths)[:-1])
        assert [data.tokenizer.decode(row.tolist()) for row in ids] == texts


def test_unlabeled_rows_keep_their_index(folder):
    split = ClassificationSplit(folder(), "test")
    assert split.index.tolist() == [1, 0] and not split.labeled.any()


def test_given_tokenizer_with_the_same_classes_decides_their_order(folder, tmp_path):
    tokenizer = folder().tokenizer
    reverse = dataclasses.replace(tokenizer.labels, classes=["not_entailment", "entailment"])
    ClassificationTokenizer(tokenizer.inner, reverse).save(tmp_path)
    data = folder(name="again", tokenizer_from=str(tmp_path))
    split = ClassificationSplit(data, "valid")
    assert split.labels.classes == reverse.classes and split.answers.tolist() == [1, 0]


def test_numbers_are_stored_exactly(folder):
    split = ClassificationSplit(folder(STS, glue_task="STS-B"), "train")
    assert split.is_regression and split.answers[:2].tolist() == [3.8, 0.0]


def test_malformed_row_ends_the_run_or_is_left_out_and_counted(folder, tmp_path, capsys):
    with pytest.raises(ToolkitError, match=r"train.tsv:10: a row must have 4 columns.*2\. Correct"):
        folder(BROKEN)
    data = folder(BROKEN, on_malformed="skip", json=str(tmp_path / "report.jsonl"))
    assert data.split("train").items == 8
    assert (
        "left out" in (output := capsys.readouterr().out) and "train.tsv:10: a row must" in output
    )
    events = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    [left] = [event for event in events if event["event"] == "left_out"]
    assert left["line"] == 10 and left["split"] == "train"
    assert next(e for e in events if e.get("split") == "train")["malformed"] == 1


def test_training_and_validation_require_labels(folder):
    with pytest.raises(ToolkitError, match=r"dev.tsv has no column of labels"):
        folder({**RTE, "dev.tsv": RTE["test.tsv"]})


def test_files_of_one_split_all_have_labels_or_none(folder, write_tables):
    path = write_tables()
    both = f"{path / 'test.tsv'},{path / 'dev.tsv'}"
    with pytest.raises(ToolkitError, match=r"must have labels, or none, but .*dev.tsv differs"):
        folder(trainpref=str(path / "train.tsv"), testpref=both)


OWN = {"format": "tsv", "text_columns": "said", "label_column": "mood"}
MOODS = "mood\tsaid\n" + "good\tthe cat sat\nbad\tdogs run\nso-so\ta cat\n" * 3


def test_tsv_table_has_the_classes_of_its_training_data(folder, write_tables):
    path = write_tables({"mine.tsv": MOODS, "new.tsv": "said\ncats\n"})
    data = folder({}, trainpref=str(path / "mine.tsv"), **OWN)
    labels = data.tokenizer.labels
    assert labels.classes == ["bad", "good", "so-so"] and not labels.pairs
    new = {"trainpref": "", "testpref": str(path / "new.tsv"), "tokenizer_from": str(data.path)}
    again = folder({}, "new", **OWN, **new)
    assert again.tokenizer.fingerprint == data.tokenizer.fingerprint


@pytest.mark.parametrize(
    ("valid", "message"),
    [
        ("mood\tsaid\nangry\tcats\n", r"dev.tsv:2: the label must be one of the training data"),
        ("feeling\tsaid\nbad\tcats\n", r"dev.tsv has no column of labels"),
    ],
)
def test_labels_that_training_does_not_have_are_rejected(folder, write_tables, valid, message):
    path = write_tables({"mine.tsv": MOODS, "dev.tsv": valid})
    files = {"trainpref": str(path / "mine.tsv"), "validpref": str(path / "dev.tsv")}
    with pytest.raises(ToolkitError, match=message):
        folder({}, **files, **OWN)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["a", "b", "-"], ["a", "b"]), (["+", "0", "-"], ["+", "-", "0"]), (["a", "-"], ["-", "a"])],
)
def test_rows_without_an_agreed_label_are_left_out_unless_it_is_a_class(
    folder, write_tables, capsys, labels, classes
):
    rows = [f"{labels[number % len(labels)]}\ttext {number}" for number in range(12)]
    path = write_tables({"mine.tsv": "\n".join(["mood\tsaid", *rows, ""])})
    data = folder({}, trainpref=str(path / "mine.tsv"), **OWN)
    assert data.tokenizer.labels.classes == classes
    left_out = 12 - 12 // len(labels) if len(classes) < len(labels) else 12
    assert data.split("train").items == left_out
    noted = "annotators did not agree on a label" in capsys.readouterr().out
    assert noted == (left_out < 12)


def test_submission_has_the_benchmarks_eleven_files():
    mnli, others = ["MNLI-m", "MNLI-mm"], ["QNLI", "RTE", "WNLI", "AX"]
    names = ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", *mnli, *others]
    submitted = [
        submission_file(SimpleNamespace(name=split, labels=SimpleNamespace(task=task.name)))
        for task in GLUE_SCHEMAS.values()
        for split in task.files
        if split.startswith("test")
    ]
    assert [f"{name}.tsv" for name in names] == submitted


def test_folders_of_different_tasks_are_rejected(folder):
    first = folder()
    second = folder(STS, "other", glue_task="STS-B", tokenizer_from=str(first.path))
    with pytest.raises(
        ToolkitError, match=r"data folders must agree on their task and labels, .*other"
    ):
        ClassificationSplit(DataFolder.open(first.path, second.path), "train")


def test_text_without_labels_is_rejected(data):
    with pytest.raises(ToolkitError, match=r"must have a folder of labeled texts, but"):
        ClassificationSplit(DataFolder.open(data), "train")


class Rows(ClassificationSplit):
    """A split as far as answers to it must know it."""

    def __init__(self, **facts):
        vars(self).update(facts)

    def __len__(self):
        return len(self.index)


def rows_of(task, split="test", count=1, **changes):
    spec = GLUE_SCHEMAS[task]
    labels = Labels(
        task=task,
        classes=list(spec.classes),
        metrics=[],
        pairs=spec.pairs,
        bounds=[0.0, 5.0] if spec.is_regression else [],
    )
    given = {
        "index": np.arange(count),
        "is_regression": spec.is_regression,
        "labels": labels,
        "name": split,
    }
    return Rows(**{**given, "folder": SimpleNamespace(name="there"), **changes})


def test_submission_has_a_header_and_rows_in_order_of_the_index(tmp_path):
    rows = rows_of("RTE", count=3, index=np.array([2, 0, 1]))
    write_submission(rows, np.array([1, 0, 0]), tmp_path / "mine.tsv")
    assert (tmp_path / "mine.tsv").read_text() == (
        "index\tprediction\n0\tentailment\n1\tentailment\n2\tnot_entailment\n"
    )


def test_numbers_are_clipped_to_the_range_of_the_task(tmp_path):
    write_submission(rows_of("STS-B", count=3), np.array([-0.5, 2.12345, 7.0]), tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text().split()[3::2] == ["0.000", "2.123", "5.000"]


def test_submission_in_a_folder_has_the_benchmarks_name(tmp_path):
    write_submission(rows_of("MNLI", "test_mismatched", 1), np.array([2]), tmp_path)
    assert (tmp_path / "MNLI-mm.tsv").read_text() == "index\tprediction\n0\tcontradiction\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of("RTE", count=2, name="valid"), r"must be of a test split of GLUE, but is of 'val"),
        (rows_of("RTE", count=2, index=np.array([1, 1])), r"needs its own index, but split"),
    ],
)
def test_invalid_submissions_are_rejected(rows, message, tmp_path):
    with pytest.raises(ToolkitError, match=message):
        write_submission(rows, np.zeros(2, np.int64), tmp_path)
