from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.tasks.tagging.examples import ResolvedTaggingConfig, TaggingExamples

WORDS = ResolvedTaggingConfig(tokens_per_sample=4, fixed_length=4)


def make_examples(folder, config=WORDS, split="valid", row_multiple=1):
    return TaggingExamples(config, TaggedSplit(folder, split), row_multiple=row_multiple)


def collated(examples):
    return examples.collate(np.arange(len(examples.lengths)), None)


@pytest.fixture
def pieces(tagged, tmp_path):
    """The same words, with a SentencePiece tokenizer."""

    text = ["the dog barks loudly . I bark at the cat", "dogs bark at cats loudly , I think"] * 20
    model = train_pieces(text, vocabulary_size=30, character_coverage=1.0)
    SentencePieceTokenizer(model, lowercase=False).save(tmp_path)
    return tagged(tokenizer_from=str(tmp_path))


def test_chunks_are_padded_and_long_sentences_split(tagged):
    batch = collated(make_examples(tagged()))  # I bark . | the cat barks loudly + . | dog
    assert batch.inputs.tokens.shape == (4, 4)
    assert batch.inputs.padding.sum(1).tolist() == [1, 0, 3, 3]
    assert batch.ids.tolist() == list(range(9)) and batch.tokens == 9
    assert batch.ambiguous.nonzero().flatten().tolist() == [1]  # bark
    assert batch.oov.tolist() == [False] * 4 + [True, False, True, False, False]  # cat, loudly


def test_distinct_words_have_their_characters_once_with_padding_first(tagged):
    examples = make_examples(tagged())
    batch, tokenizer = collated(examples), examples.split.tokenizer
    char_ids = batch.inputs.char_ids[batch.inputs.word_index]
    words = ["I", "bark", ".", "<PAD>"], ["the", "cat", "barks", "loudly"], [".", *["<PAD>"] * 3]
    for row, sentence in enumerate(words):
        assert torch.equal(char_ids[row], torch.from_numpy(tokenizer.char_ids(sentence)))
    assert len(batch.inputs.char_ids) == 1 + 8  # . comes twice


def test_tags_unseen_in_training_are_no_targets_but_count_as_words(tagged):
    batch = collated(make_examples(tagged()))
    assert batch.targets.tolist()[6] == -100  # loudly/ADV
    assert batch.weights == {"tag": 8.0} and batch.ids[6] == 6


def test_pieces_are_between_special_tokens_and_words_selected_at_their_first(pieces):
    examples = make_examples(pieces, ResolvedTaggingConfig(tokens_per_sample=64))
    batch, tokenizer = collated(examples), examples.split.tokenizer
    tokens = batch.inputs.tokens
    for row, text in enumerate(["I bark .", "the cat barks loudly .", "dog"]):
        ids = [i for word in text.split() for i in tokenizer.encode(word)]
        words = tokenizer.vocabulary
        assert tokens[row, : len(ids) + 2].tolist() == [words.cls, *ids, words.sep]
    first = tokens.flatten()[batch.selected].tolist()
    assert first == [tokenizer.encode(examples.split.words[t])[0] for t in examples.split.types]
    assert batch.inputs.char_ids is None and batch.word_index is None


def test_mean_pooling_maps_every_piece_to_its_word(pieces):
    examples = make_examples(pieces, ResolvedTaggingConfig(tokens_per_sample=64, pooling="mean"))
    batch, tokenizer = collated(examples), examples.split.tokenizer
    counts = [len(tokenizer.encode(examples.split.words[t])) for t in examples.split.types]
    assert torch.bincount(batch.word_index).tolist() == counts
    assert max(counts) > 1


def test_long_sentences_are_split_between_words_and_long_words_truncated(pieces):
    examples = make_examples(pieces, ResolvedTaggingConfig(tokens_per_sample=5))
    batch = collated(examples)
    assert examples.lengths.max() <= 5
    assert sorted(batch.ids.tolist()) == list(range(9))


def test_word_level_architecture_rejects_subwords(pieces):
    with pytest.raises(ToolkitError, match=r"word-level architecture requires word-level data"):
        make_examples(pieces)
