from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import (
    ClassificationSplit,
    ClassificationTokenizer,
)
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS, submission_file
from toolkit.data.storage.data_folder import DataFolder

from .conftest import RTE, STS

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


def test_report_counts_classes_and_unlabeled_rows(folder, capsys):
    folder()
    output = capsys.readouterr().out.splitlines()
    assert any(line.endswith(": RTE, entailment, not_entailment") for line in output)
    lines = {line.split()[0]: line for line in output if line.split()}
    assert lines["train"].endswith("entailment 4, not_entailment 4")
    assert lines["test"].endswith("none")


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
