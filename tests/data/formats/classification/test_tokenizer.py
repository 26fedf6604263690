from __future__ import annotations

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import (
    LABELS_FILE,
    ClassificationTokenizer,
    Labels,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer

NUMBER = Labels(task="STS-B", classes=[], metrics=["pearson"], pairs=True, bounds=[0.0, 5.0])


def test_saved_classification_tokenizer_loads_with_its_labels(folder, tmp_path):
    tokenizer = folder().tokenizer
    assert isinstance(tokenizer, ClassificationTokenizer) and tokenizer.labels.task == "RTE"
    (tmp_path / "copy").mkdir()
    tokenizer.save(tmp_path / "copy")
    again = Tokenizer.load(tmp_path / "copy")
    assert again.labels == tokenizer.labels and again.fingerprint == tokenizer.fingerprint
    assert again.decode(again.encode("the cat sat")) == "the cat sat"
    assert tokenizer.sizes == {"tokens": len(tokenizer.vocabulary), "labels": 2}


def test_fingerprint_of_labels_depends_on_classes_only(folder):
    tokenizer = folder().tokenizer
    renamed = ClassificationTokenizer(
        tokenizer.inner, Labels(**{**vars(tokenizer.labels), "task": "QNLI"})
    )
    number = ClassificationTokenizer(tokenizer.inner, NUMBER)
    assert renamed.fingerprint == tokenizer.fingerprint != number.fingerprint
    assert number.sizes["labels"] == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"classes": ["one"]}, "classes: expected none, or several that differ"),
        ({"classes": ["a", "a"]}, "classes: expected none, or several that differ"),
        ({"metrics": [1]}, r"metrics\[0\]: expected str, found int"),
        ({"metrics": ["pearson"]}, "metrics: expected some of accuracy, f1, matthews"),
        ({"bounds": ["x"]}, r"bounds\[0\]: expected float, found str"),
        ({"bounds": [1]}, "bounds: expected two numbers, or none"),
        ({"pairs": "x"}, "pairs: expected bool, found str"),
    ],
)
def test_invalid_labels_are_rejected(folder, change, problem):
    path = folder().path / LABELS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ToolkitError, match=rf"labels\.json: {problem}\. Run toolkit-pre"):
        Tokenizer.load(path.parent)
