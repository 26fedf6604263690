from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ClassificationSplit, ClassificationTokenizer
from toolkit.data.preprocess import preprocess

from .conftest import PAIRS, RTE, STS

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


def test_index_of_a_tsv_table_may_be_text(folder, write_tables):
    test = (
        write_tables({"t.tsv": "id\tsentence1\tsentence2\nq-1\tcats\ta\nq-2\tdogs\tb\n"}) / "t.tsv"
    )
    own = {name: RTE[name] for name in ("train.tsv", "dev.tsv")}
    train = write_tables(own) / "train.tsv"
    options = {"text_columns": "sentence1,sentence2", "trainpref": str(train)}
    data = folder(own, format="tsv", testpref=str(test), **options)
    assert ClassificationSplit(data, "test").index.tolist() == [0, 1]


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


def test_malformed_row_of_a_submission_is_never_left_out(folder):
    with pytest.raises(ToolkitError, match=r"test.tsv:4: .*has 2\. Correct it\.$"):
        folder({**RTE, "test.tsv": RTE["test.tsv"] + "2\tx\n"}, on_malformed="skip")


def test_training_and_validation_require_labels(folder):
    with pytest.raises(ToolkitError, match=r"dev.tsv has no column of labels"):
        folder({**RTE, "dev.tsv": RTE["test.tsv"]})


def test_files_of_one_split_all_have_labels_or_none(folder, write_tables):
    path = write_tables()
    both = f"{path / 'test.tsv'},{path / 'dev.tsv'}"
    with pytest.raises(ToolkitError, match=r"must have labels, or none, but .*dev.tsv differs"):
        folder(trainpref=str(path / "train.tsv"), testpref=both)


def test_tokenizer_from_another_task_keeps_the_vocabulary_only(folder):
    first = folder()
    second = folder(STS, "other", glue_task="STS-B", tokenizer_from=str(first.path))
    assert second.tokenizer.vocabulary.fingerprint == first.tokenizer.vocabulary.fingerprint
    assert (
        second.tokenizer.labels.classes == []
        and second.tokenizer.fingerprint != first.tokenizer.fingerprint
    )


def test_text_with_the_tokenizer_of_a_task_has_no_classes(folder, tmp_path):
    first = folder()
    (tmp_path / "text.txt").write_text("the cat sat\n" * 9)
    more = {"tokenizer_from": str(first.path), "trainpref": str(tmp_path / "text.txt")}
    text = folder(name="text", format="text", **more)
    assert text.tokenizer.vocabulary.fingerprint == first.tokenizer.vocabulary.fingerprint
    assert text.tokenizer.kind == first.tokenizer.inner.kind and not hasattr(
        text.tokenizer, "labels"
    )


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


def test_one_class_is_rejected(folder, write_tables):
    path = write_tables({"mine.tsv": "mood\tsaid\ngood\tcats\n"})
    with pytest.raises(ToolkitError, match=r"needs two classes or more, but the training data has"):
        folder({}, trainpref=str(path / "mine.tsv"), **OWN)


def test_vocabulary_requires_training_text(folder, write_tables):
    path = write_tables({"dev.tsv": PAIRS + "0\ta\tb\tentailment\n"})
    with pytest.raises(ToolkitError, match=r"no training text to learn a vocabulary from"):
        folder({}, trainpref="", validpref=str(path / "dev.tsv"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"glue_task": "COLA"}, r"glue_task must be one of CoLA, SST-2, .* but is 'COLA'"),
        ({"format": "tsv", "glue_task": "RTE"}, "no option is called glue_task"),
        ({"format": "tsv", "label_type": "x"}, "label_type must be one of class, number"),
        ({"on_malformed": "x"}, r"on_malformed must be one of error, skip, but is 'x'"),
        ({"format": "tsv", "text_columns": "a,b,c"}, "text_columns must be one name, or two with"),
        ({"max_item_tokens": 5}, "no option is called max_item_tokens"),
    ],
)
def test_options_of_other_formats_are_rejected(wrong, message, tmp_path):
    options = {"trainpref": str(tmp_path), "destdir": str(tmp_path / "data"), "format": "glue"}
    with pytest.raises(ToolkitError, match=message):
        preprocess(preprocess_config(**{**options, **wrong}))
