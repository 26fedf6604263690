from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from toolkit.criteria import IGNORED
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.language_modeling.config import LanguageModelingConfig
from toolkit.tasks.language_modeling.examples import BlockExamples


@pytest.fixture
def make_examples(data):
    def make(split="valid", row_multiple=1, **options):
        options = {"tokens_per_sample": 20, **options}
        source = SplitSource(DataFolder.open(data), split, row_multiple=row_multiple)
        return BlockExamples(LanguageModelingConfig(**options), source)

    return make


def test_targets_are_the_tokens_of_the_text_alone(make_examples, data):
    examples, column = make_examples(), DataFolder.open(data).split("valid").column("tokens")
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    assert batch.weights == {"lm": float(column.elements + column.items)}
    assert batch.tokens == len(batch.targets) == len(batch.selected) == examples.lengths.sum()
    assert batch.inputs.tokens.shape[0] == batch.sentences == len(examples.lengths)


def test_word_count_includes_the_ends_of_items(make_examples, data):
    batch = make_examples(tokens_per_sample=500).collate(np.zeros(1, np.int64), None)
    folder = DataFolder.open(data)
    column, words = folder.split("valid").column("tokens"), folder.vocabulary
    [part] = column.parts
    text = part.take(np.arange(part.elements)[None], np.zeros(1, int), np.array([part.elements]))
    assert batch.word_count == sum("▁" in words.symbols[i] for i in text[0]) + column.items


def test_word_count_includes_unmarked_first_words(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    level = tokenizers.pre_tokenizers.ByteLevel
    bytewise = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    bytewise.pre_tokenizer = level(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    lines = ["the cat sat on the mat", "a dog runs far"] * 4
    learning = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=level.alphabet()
    )
    bytewise.train_from_iterator(lines, learning)
    roles = {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}
    (tmp_path / "tokenizer").mkdir()
    HuggingFaceTokenizer(bytewise.to_str(), roles).save(tmp_path / "tokenizer")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    text, tokenizer, position = (str(tmp_path / name) for name in ("text", "tokenizer", "bin"))
    preprocess(
        preprocess_config(trainpref=text, tokenizer_from=tokenizer, destdir=position, workers=1)
    )
    config = LanguageModelingConfig(sample_mode="items", tokens_per_sample=64)
    examples = BlockExamples(config, SplitSource(DataFolder.open(position), "train"))
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    assert batch.word_count == sum(len(line.split()) + 1 for line in lines)


def test_idle_rank_has_a_batch_of_weight_zero(make_examples):
    batch = make_examples().collate(np.zeros(0, np.int64), None)
    assert (
        batch.weights == {"lm": 0.0}
        and (batch.sentences, batch.tokens, batch.word_count) == (0,) * 3
    )
    assert (batch.targets == IGNORED).all()


def test_row_multiples_pad_the_selected_positions(make_examples):
    batch = make_examples(row_multiple=64).collate(np.arange(1), None)
    assert len(batch.selected) == 64 and (batch.targets != IGNORED).sum() == 20
    assert torch.equal(batch.selected[:20], torch.arange(20)) and not batch.selected[20:].any()


CHANGES = ({}, {"sample_mode": "items"}, {"eos_after": "documents"}, {"tokens_per_sample": 21})


def test_examples_leave_the_vocabulary_unchanged(make_examples, data):
    folder = DataFolder.open(data)
    BlockExamples(LanguageModelingConfig(tokens_per_sample=20), SplitSource(folder, "valid"))
    assert not folder.vocabulary.starts_word[folder.vocabulary.sep]


def test_options_change_the_fingerprint(make_examples):
    prints = {make_examples(**o).fingerprint for o in CHANGES}
    assert len(prints) == len(CHANGES)
