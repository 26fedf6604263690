"""Parallel text, plain text and words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel import (
    LineBlock,
    ParallelFormatConfig,
    ParallelSplit,
    find_language_file,
    group_pairs,
    limit_pairs,
    read_pairs,
)
from toolkit.data.formats.text import RUN_LENGTH, apply_length_limit, assign_splits
from toolkit.data.preprocess import preprocess
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer, Tokenizer
from toolkit.data.tokenizers.words import WordBoundaries

TRAIN = {
    "de": "der Hund bellt\neine Katze\nder Hund\n" * 4,
    "en": "the dog barks\na cat\nthe dog\n" * 4,
}
VALID = {"de": "die Katze\n\nHund\n", "en": "the cat\n\ndog\n"}


@pytest.fixture
def write_files(tmp_path):
    """Writes a split's files, one for each language, and gives their common beginning."""

    def write(texts, name="train", ending=""):
        for language, text in texts.items():
            path = tmp_path / f"{name}.{language}{ending}"
            path.write_bytes(gzip.compress(text.encode()) if ending else text.encode())
        return str(tmp_path / name)

    return write


@pytest.fixture
def folder(write_files, tmp_path):
    """Preprocesses texts in two languages and opens the result."""

    def make(train=TRAIN, valid=VALID, name="data", **options):
        given = {"trainpref": write_files(train)} if train else {}
        given |= {"validpref": write_files(valid, "valid")} if valid else {}
        given |= {"source_lang": "de", "target_lang": "en", "tokenizer": "words", "workers": 1}
        where = {"destdir": str(tmp_path / name), "overwrite": True}
        preprocess(preprocess_config(**{**given, **where, **options}))
        return DataFolder.open(where["destdir"])

    return make


@pytest.fixture
def block(tmp_path):
    """Three pairs, the second without a source, in the fourth to sixth lines of their files."""
    for name in "ab":
        (tmp_path / name).write_text("line\n")
    return LineBlock((tmp_path / "a", tmp_path / "b"), 3, [4, 5, 6], ["x y", "", "z"], list("uvw"))


def limits(max_item_tokens, overlength):
    return ParallelFormatConfig(max_item_tokens=max_item_tokens, overlength=overlength)


FOUND = (
    TokenTexts(np.array([1, 2, 3]), np.array([2, 0, 1])),
    TokenTexts(np.array([4, 5, 6]), np.array([1, 1, 1])),
)


def test_long_pairs_are_skipped_or_truncated_and_counted(block):
    skipped = limit_pairs(block, FOUND, limits(1, "skip"), keep_empty=False)
    *_, kept, counts = skipped
    assert kept.tolist() == [False, False, True]
    assert (counts["overlength"], counts["lost_tokens"]) == (1, 3)
    source, target, _, counts = limit_pairs(block, FOUND, limits(1, "truncate"), keep_empty=False)
    assert source.ids.tolist() == [1, 3] and counts["lost_tokens"] == 1
    assert target.ids.tolist() == [4, 6]


def test_long_line_is_named_with_its_file(block):
    with pytest.raises(ToolkitError, match=r"a:4: .* at most 1 tokens, but 'x y'.* has 2"):
        limit_pairs(block, FOUND, limits(1, "error"), keep_empty=False)


def find_pair(prefix):
    return tuple(find_language_file(Path(prefix), name, "trainpref") for name in ("de", "en"))


def test_prefix_stands_for_a_file_in_each_language(write_files):
    prefix = write_files({"de": "c\n", "en": "d\n"}, "more")
    write_files({"de": "", "en": ""}, "more", ".gz")  # what is not packed goes first
    assert find_pair(prefix) == (Path(f"{prefix}.de"), Path(f"{prefix}.en"))


def test_missing_language_is_reported(write_files):
    prefix = write_files({"de": "a\n", "fr": "b\n"}, ending=".gz")
    with pytest.raises(ToolkitError, match=r"train\.en is not there\. Give the path"):
        find_pair(prefix)
    with pytest.raises(ToolkitError, match=r"nowhere.de is not there"):
        find_pair(prefix + "/nowhere")


def test_blocks_hold_corresponding_lines(write_files):
    prefix = write_files({"de": "a\r\nb\r\n\r\nd", "en": "A\nB\n\nD\n"}, ending=".gz")
    found = list(group_pairs(pair := find_pair(prefix), read_pairs(pair, 100), 3))
    assert [block.source for block in found] == [["a", "b", ""], ["d"]]
    assert [block.target for block in found] == [["A", "B", ""], ["D"]]
    assert [block.first for block in found] == [0, 3]


def test_unequal_numbers_of_lines_are_rejected(write_files):
    pair = find_pair(write_files({"de": "a\n" * 5, "en": "b\n" * 7}))
    with pytest.raises(ToolkitError, match=r"equally many lines, but have 5 and 7\. Line n of one"):
        list(read_pairs(pair, 100))


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


def selected(valid, test, count=16000):
    found = assign_splits("train", np.arange(count), valid, test)
    return {split: chosen for split, chosen, _ in found}


@pytest.mark.parametrize("valid, test", [(0.05, 0.0), (0.3, 0.1), (0.0, 0.5)])
def test_splits_have_the_given_fractions_and_every_item(valid, test):
    splits = selected(valid, test)
    assert sum(splits.values()).tolist() == [1] * 16000
    assert splits["valid"].mean() == pytest.approx(valid, abs=0.002)
    assert splits["test"].mean() == pytest.approx(test, abs=0.002)


def test_held_out_items_depend_on_their_position_alone():
    whole = selected(0.1, 0.1)
    for split, chosen, _ in assign_splits("train", np.arange(5000, 6000), 0.1, 0.1):
        assert (chosen == whole[split][5000:6000]).all()


def test_runs_differ_between_items_that_are_no_longer_neighbors():
    train, valid, _ = assign_splits("train", np.arange(1000), 0.1, 0.0)
    for _, chosen, runs in (train, valid):
        positions = np.flatnonzero(chosen)
        separated = np.diff(positions) > 1
        assert (np.diff(runs[positions]) != 0).tolist() == separated.tolist()


@pytest.mark.parametrize("valid, test", [(0.015, 0.0), (0.02, 0.02)])
def test_fractions_hold_over_parts_shorter_than_a_run(valid, test):
    shares = {"valid": 0, "test": 0, "train": 0}
    for part in range(200):
        for split, chosen, _ in assign_splits(
            "train", np.arange(42 * RUN_LENGTH), valid, test, part
        ):
            shares[split] += chosen.sum() / (200 * 42 * RUN_LENGTH)
    assert shares["valid"] == pytest.approx(valid, rel=0.03)
    assert shares["test"] == pytest.approx(test, rel=0.03)


def test_first_held_out_run_of_a_part_does_not_continue_the_part_before():
    parts = [[*assign_splits("train", np.arange(RUN_LENGTH), 0.2, 0.2, part)] for part in range(20)]
    for split in (1, 2):
        first = [runs[chosen] for _, chosen, runs in (part[split] for part in parts)]
        assert any(len(runs) for runs in first) and all((runs > 0).all() for runs in first)


IDS = np.arange(10)
LENGTHS = np.array([2, 5, 0, 3])  # 0 1 | 2 3 4 5 6 | | 7 8 9
WORDS = [0, 2, 4, 7]  # where a word begins


@pytest.mark.parametrize(
    ("policy", "limit", "words", "items", "lost"),
    [
        ("skip", 3, WORDS, [[0, 1], [], [7, 8, 9]], 5),
        ("truncate", 3, WORDS, [[0, 1], [2, 3, 4], [], [7, 8, 9]], 2),
        ("split", 3, WORDS, [[0, 1], [2, 3], [4, 5, 6], [], [7, 8, 9]], 0),
        ("split", 3, [0, 2, 4, 5, 7], [[0, 1], [2, 3, 4], [5, 6], [], [7, 8, 9]], 0),
        ("split", 2, [], [[0, 1], [2, 3], [4, 5], [6], [], [7, 8], [9]], 0),
        ("skip", 5, WORDS, [[0, 1], [2, 3, 4, 5, 6], [], [7, 8, 9]], 0),
    ],
)
def test_items_beyond_the_limit_follow_the_policy(policy, limit, words, items, lost):
    boundaries = WordBoundaries([(i in words, b"a") for i in IDS], ())
    kept, lengths, sources, overlength = apply_length_limit(IDS, LENGTHS, limit, policy, boundaries)
    cut = np.split(kept, np.cumsum(lengths)[:-1])
    assert [ids.tolist() for ids in cut] == items and len(IDS) - len(kept) == lost
    assert overlength == (limit < LENGTHS).sum()
    firsts = [IDS[LENGTHS[:i].sum() :][0] for i in sources if LENGTHS[i]]
    assert all(item[0] >= first for item, first in zip(filter(None, items), firsts, strict=True))


LINES = [
    "the cat  sat on\tthe mat",
    "a\u00a0man's dog, and it ran",
    "\u4e2d\u6587 text",
    "the \u200b",
    "cat",
]


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "words"])
def test_words_start_in_the_tokens_of_their_line(kind):
    tokenizer = Tokenizer.train(LINES * 3, kind=kind, vocabulary_size=40)
    ids, lengths, words = tokenizer.encode_counting_words(LINES)
    assert ids.tolist() == tokenizer.encode_lines(LINES)[0].tolist()
    ends = lengths.cumsum()
    counted = [int(words[end - n : end].sum()) for n, end in zip(lengths, ends, strict=True)]
    assert counted == [len(line.split()) for line in LINES]
