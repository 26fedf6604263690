from __future__ import annotations

import json

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.commands.describe_data import describe_data
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.files import ParallelSplit
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer

from .conftest import TRAIN, VALID


def texts(split, column, tokenizer):
    found = column.take(np.arange(len(split)), column.lengths)
    rows = np.split(found.ids, np.cumsum(found.lengths)[:-1])
    return [tokenizer.decode(row.tolist()) for row in rows]


def test_both_languages_are_read_back_line_by_line(folder):
    data = folder()
    split, tokenizer = ParallelSplit(data, "train"), data.tokenizer
    assert texts(split, split.source, tokenizer)[:3] == ["der Hund bellt", "eine Katze", "der Hund"]
    assert texts(split, split.target, tokenizer.target)[:3] == ["the dog barks", "a cat", "the dog"]
    assert split.references(np.array([1, 0])) == ["a cat", "the dog barks"]


def test_validation_keeps_blank_lines_and_reference_texts(folder):
    split = ParallelSplit(folder(), "valid")
    assert split.source.lengths.tolist() == [2, 0, 1]
    assert split.references(np.arange(3)) == ["the cat", "", "dog"]  # the cat is in no dictionary
    assert texts(split, split.target, split.tokenizer.target)[0] == "the cat"


def test_training_leaves_out_and_counts_pairs_with_a_blank_side(folder, capsys, tmp_path):
    train = {"de": TRAIN["de"] + "allein\n", "en": TRAIN["en"] + "\n"}
    data = folder(train, json=str(tmp_path / "report.jsonl"))
    assert data.split("train").items == 12 and "blank, left out" in capsys.readouterr().out
    events = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert next(e for e in events if e.get("split") == "train")["empty"] == 1


def test_languages_have_separate_or_joined_vocabularies(folder):
    apart, joined = folder(), folder(name="joined", joined_dictionary=True)
    assert apart.tokenizer.sizes == {"tokens": 10, "targets": 10}
    assert apart.tokenizer.vocabulary.symbols != apart.tokenizer.target.vocabulary.symbols
    assert joined.tokenizer.joined and joined.tokenizer.sizes == {"tokens": 15, "targets": 15}
    assert not (joined.path / "target").exists()
    for data in (apart, joined):
        again = Tokenizer.load(data.path)
        assert (
            isinstance(again, ParallelTokenizer) and again.fingerprint == data.tokenizer.fingerprint
        )
        assert again.languages == "de-en"


def test_sentencepiece_models_are_separate_or_joined(folder):
    how = {"tokenizer": None, "vocab_size": 40}
    apart, joined = folder(**how), folder(name="joined", joined_dictionary=True, **how)
    assert "▁dog" not in "".join(apart.tokenizer.vocabulary.symbols)
    assert apart.tokenizer.target.decode(apart.tokenizer.target.encode("the dog")) == "the dog"
    assert joined.tokenizer.target.encode("the dog") == joined.tokenizer.encode("the dog")


def test_tokenizer_from_reuses_both_vocabularies(folder):
    first = folder()
    second = folder(None, name="more", tokenizer=None, tokenizer_from=str(first.path))
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint and second.splits == [
        "valid"
    ]
    with pytest.raises(ToolkitError, match=r"has the languages de-en, not de-fr"):
        folder(
            None, {**VALID, "fr": "le chat\n\nchien\n"}, name="other", tokenizer=None,
            tokenizer_from=str(first.path), target_lang="fr",
        )  # fmt: skip


def test_vocabulary_of_one_language_serves_both_only_if_joined(folder, tmp_path):
    (tmp_path / "dict.txt").write_text("the 1\ndog 1\nHund 1\n")
    given = {"tokenizer": None, "srcdict": str(tmp_path / "dict.txt")}
    assert folder(joined_dictionary=True, **given).tokenizer.sizes["targets"] == 8
    both = folder(tgtdict=str(tmp_path / "dict.txt"), **given)
    assert both.tokenizer.sizes == {"tokens": 8, "targets": 8} and not both.tokenizer.joined


@pytest.mark.parametrize(
    ("side", "counts"),
    [("srcdict", {"tokens": 8, "targets": 7}), ("tgtdict", {"tokens": 7, "targets": 8})],
)
def test_min_count_applies_to_the_learned_vocabulary(folder, tmp_path, side, counts):
    (tmp_path / "dict.txt").write_text("the 1\ndog 1\nHund 1\n")
    data = folder(min_count=5, **{side: str(tmp_path / "dict.txt")})
    assert data.tokenizer.sizes == counts


def test_parallel_folder_is_described_and_verified(folder):
    data = folder()
    description = describe_data(str(data.path), verify=True, examples=1)
    assert description.items["train 0"] == "der Hund bellt -> the dog barks"
    assert "target 10 symbols" in description.facts["vocabulary"]
    files = [path for path in data.path.rglob("*") if path.is_file()]
    assert description.facts["size"].endswith(f"in {len(files)} files")
    file = data.path / "target" / "dict.txt"
    file.write_text(file.read_text().replace("cat", "car"))
    with pytest.raises(ToolkitError, match=r"target/dict.txt must match its digest in meta.json"):
        DataFolder.open(data.path)


def test_split_without_items_is_rejected(folder):
    with pytest.raises(ToolkitError, match=r"validpref .* has no items to write"):
        folder(valid={"de": "a b c d\n", "en": "a\n"}, max_item_tokens=3, overlength="skip")


def test_other_kinds_of_data_are_rejected(folder, data):
    with pytest.raises(ToolkitError, match=r"task translation must have a folder of parallel text"):
        ParallelSplit(DataFolder.open(data), "train")


@pytest.mark.realdata
def test_multi30k_has_the_published_number_of_pairs(real_data, tmp_path):
    raw = real_data / "multi30k" / "task1" / "raw"
    if not raw.is_dir():
        pytest.skip(f"no Multi30k at {raw}")
    how = {"source_lang": "en", "target_lang": "de", "tokenizer": "words", "workers": 1}
    files = {"trainpref": str(raw / "val"), "testpref": str(raw / "test_2016_flickr")}
    preprocess(preprocess_config(**how, **files, destdir=str(tmp_path / "data")))
    data = DataFolder.open(tmp_path / "data")
    assert [data.split(name).items for name in ("train", "test")] == [1014, 1000]
    [reference] = ParallelSplit(data, "test").references(np.array([0]))
    assert reference == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."
