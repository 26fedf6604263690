from __future__ import annotations

import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.preprocess import preprocess_labelled  # noqa: F401
from toolkit.data.formats.classification.tokenizer import LABELS_FILE, LabelledCodec, Labels
from toolkit.data.tokenizers.tokenizer import Codec

NUMBER = Labels(task="STS-B", classes=[], figures=["pearson"], pairs=True, bounds=[0.0, 5.0])


def test_a_codec_and_its_labels_come_back(folder, tmp_path):
    codec = folder().codec
    assert isinstance(codec, LabelledCodec) and codec.labels.task == "RTE"
    (tmp_path / "copy").mkdir()
    codec.save(tmp_path / "copy")
    again = Codec.load(tmp_path / "copy")
    assert again.labels == codec.labels and again.fingerprint == codec.fingerprint
    assert again.decode(again.encode("the cat sat")) == "the cat sat"
    assert codec.counts == {"tokens": len(codec.vocabulary), "labels": 2}


def test_only_the_classes_make_other_answers(folder):
    codec = folder().codec
    renamed = LabelledCodec(codec.inner, Labels(**{**vars(codec.labels), "task": "QNLI"}))
    number = LabelledCodec(codec.inner, NUMBER)
    assert renamed.fingerprint == codec.fingerprint != number.fingerprint
    assert number.counts["labels"] == 1


@pytest.mark.parametrize(
    "change", [{"classes": ["one"]}, {"more": 1}, {"figures": [1]}, {"bounds": ["x"]}]
)
def test_labels_that_are_none_are_refused(folder, change):
    path = folder().path / LABELS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ToolkitError, match=r"must hold a readable"):
        Codec.load(path.parent)
