from __future__ import annotations

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.classification.split import ClassificationTokenizer, Labels
from toolkit.data.preprocessing.choose_tokenizer import choose_tokenizer_for_texts
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.tokenizers.offsets import replace_line_breaks


@pytest.fixture
def choose(tmp_path):
    """The tokenizer for texts; nothing else is left in the folder."""

    def run(texts, **options):
        options = {"trainpref": "x", "tokenizer": "words", **options}
        (folder := tmp_path / "folder").mkdir()
        with WorkerPool(1) as pool:
            found = choose_tokenizer_for_texts(preprocess_config(**options), texts, folder, pool)
        assert not list(folder.iterdir())
        return found

    return run


def test_vocabulary_is_learned_from_texts_of_several_lines(choose):
    assert choose(["a b\nc", "a\u2028d"]).vocabulary.symbols[4:8] == ["a", "b", "c", "d"]


def test_given_tokenizer_loses_its_labels(choose, tokenizer, tmp_path):
    labels = Labels(task="x", classes=["a", "b"], metrics=["accuracy"], pairs=False, bounds=[])
    ClassificationTokenizer(tokenizer, labels).save(tmp_path)
    found = choose([], tokenizer=None, tokenizer_from=str(tmp_path))
    assert type(found) is type(tokenizer) and found.fingerprint == tokenizer.fingerprint


def test_long_texts_are_learned_from(choose):
    found = choose(["a\0 " * 9, "b"], max_line_bytes=9)
    assert found.vocabulary.symbols[4:6] == ["a\ufffd", "b"]


def test_vocabulary_requires_texts(choose):
    with pytest.raises(ToolkitError, match="no training text to learn a vocabulary from"):
        choose([])


def test_replacing_line_breaks_keeps_offsets():
    text = "a\n\tb\u2028c\r\nd\ud800\0"
    single = replace_line_breaks(text)
    assert single == "a  b c  d\ufffd\ufffd" and len(single) == len(text)
