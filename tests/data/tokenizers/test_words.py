"""Words of all scripts, counted from tokens and from the text."""

import numpy as np
import pytest
import tokenizers

from toolkit.common.errors import ToolkitError
from toolkit.data.samples.masking import HashNoise, Masking
from toolkit.data.samples.sequence_pairs import SentenceBatch
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.words import split_words
from toolkit.tasks.completions.scorer import find_word_ends

TEXTS = {
    "我爱北京的NLP会议。": 9,
    "コンピュータの本を読む": 6,  # a run of katakana is one word
    "ภาษาไทย": 7,
    "กินน้ำ": 4,  # marks belong to their letters
    "မြန်မာ": 3,
    "오늘 날씨가 좋다": 3,
    "the cat sat.": 3,
    "كتب الولد": 2,
}
ROLES = {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}


def byte_level(merges):
    """Byte-level BPE, trained on the texts or, without merges, of single bytes."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=261 + merges,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=inner.pre_tokenizer.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS, trainer)
    return HuggingFaceTokenizer(inner.to_str(), ROLES)


@pytest.fixture(scope="module", params=["sentencepiece", "words", "bytes"])
def tokenizer(request):
    if request.param == "bytes":
        return byte_level(merges=200)
    return Tokenizer.train([*TEXTS] * 9, kind=request.param, vocabulary_size=90)


@pytest.mark.parametrize(("text", "count"), TEXTS.items())
def test_tokens_of_every_kind_have_the_words_of_the_text(tokenizer, text, count):
    assert len(split_words(text)) == count
    words, ids = tokenizer.vocabulary.words, np.array(tokenizer.encode(text))
    assert words.starts(ids).sum() + words.inner[ids].sum() == count


@pytest.mark.parametrize("text", ["我爱NLP。", "ภาษาไทย", "오늘 날씨가", "हिन्दी में", "naïve cat 😀"])
def test_single_bytes_of_characters_have_the_words_of_the_text(text):
    tokenizer = byte_level(merges=0)
    starts = tokenizer.vocabulary.words.starts(np.array(tokenizer.encode(text)))
    assert starts.sum() == len(split_words(text))


@pytest.mark.parametrize(
    "kind", ["sentencepiece", "wordpiece", "bpe", "bytes", "characters", "json"]
)
def test_masked_words_are_the_same_whatever_the_tokenizer(kind):
    expected = ["I", "d", "'", "t", "i", "n", "—", "5", "k", "«", "a", "»", "“", "我", "”"]
    white = " " if kind == "characters" else "\t"  # it knows no tabs
    text = f"I don't is{white}naïve—5 km «a» “我”"
    tokenizer = (
        byte_level(merges=200)
        if kind == "json"
        else Tokenizer.train([text] * 9, kind=kind, vocabulary_size=280)
    )
    boundaries = tokenizer.vocabulary.masked_words
    for line in [text, "š " + text]:  # š is unknown to some
        ids, _, first, last = tokenizer.encode_with_offsets([line])
        is_space = np.array([not line[a:b].strip() for a, b in zip(first, last, strict=True)])
        starts = boundaries.starts(ids)
        starts[1:] |= starts[:-1] & is_space[:-1]
        found = [line[a:].lstrip()[:1] for a in first[starts & ~is_space]]
        inner = boundaries.inner[ids].sum()
        all_starts = ["š"] * (line != text) + expected
        assert len(found) + inner == len(all_starts) and (inner or found == all_starts)


def test_pieces_of_subword_nmt_continue_the_word_before_them():
    lines = ["un@@ believ@@ able cats", "爱@@ s cat@@ s x"]
    tokenizer = Tokenizer.train(lines, kind="words", vocabulary_size=20)
    assert tokenizer.decode(tokenizer.encode(lines[0])) == "unbelievable cats"
    ids = np.array([tokenizer.encode(lines[0]), tokenizer.encode(lines[1])[:4]])
    # each ideograph is a word
    assert tokenizer.vocabulary.words.starts(ids).tolist() == [[1, 0, 0, 1], [1, 1, 1, 0]]
    ends = find_word_ends(tokenizer, lines)
    assert [row.tolist() for row in ends] == [[3, 3, 3, 4], [2, 2, 4, 4, 5]]


def plain_pairs(**options):
    """BPE of the package's quick tour: words are split at white space and punctuation."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", **options))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=36, special_tokens=special, show_progress=False, **options
    )
    inner.train_from_iterator(["unbelievable cats can't be 我们 believed"] * 9, trainer)
    return HuggingFaceTokenizer(inner.to_str(), ROLES)


def test_pieces_with_a_mark_at_the_end_of_words_start_words_after_it():
    tokenizer = plain_pairs(end_of_word_suffix="</w>")
    vocabulary = tokenizer.vocabulary
    encoded = tokenizer.encode_with_offsets(["unbelievable cats can't"])
    ids = np.array([ROLES["cls"], *encoded.ids, ROLES["unk"], *encoded.ids[:1]])
    starts = vocabulary.masked_words.starts(ids)[1:]
    found = encoded.starts[starts[: len(encoded.ids)]].tolist()
    assert found == [0, 13, 18, 21, 22] and len(encoded.ids) > 5
    assert starts[-2:].all(), "an unknown token is a word"


@pytest.mark.parametrize("strategy", ["whole_word", "span", "pmi", "exact"])
def test_masks_of_words_reject_pieces_without_marks(strategy):
    options = {"tokens_per_sample": 64, "rate": 0.15, "span_max": 10, "span_p": 0.2}
    options |= {"mask_token_rate": 0.8, "random_token_rate": 0.1, "strategy": strategy}
    Masking(vocabulary=plain_pairs(end_of_word_suffix="</w>").vocabulary, **options)
    if strategy == "exact":
        Masking(vocabulary=plain_pairs().vocabulary, **options)
        return
    with pytest.raises(ToolkitError, match=f"masking {strategy} requires a tokenizer whose pieces"):
        Masking(vocabulary=plain_pairs().vocabulary, **options)


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_whole_word_masking_reaches_its_rate_without_spaces(kind):
    lines = ["我爱北京的会议也爱上海的天气他们今天不来了", "เมื่อวานนี้ฉันไปดูหนังกับเพื่อน"]
    lines = [*lines, "no—one—on—no—on—one—no"] * 20
    tokenizer = Tokenizer.train(lines, kind=kind, vocabulary_size=116)
    rows, v = [tokenizer.encode(line) for line in lines], tokenizer.vocabulary
    tokens = np.full((len(rows), max(map(len, rows)) + 2), v.pad)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids) + 2] = [v.cls, *ids, v.sep]
    lengths = np.array([len(ids) + 2 for ids in rows])
    candidates = ~np.isin(tokens, v.special)
    masking = Masking(
        strategy="whole_word",
        vocabulary=v,
        tokens_per_sample=64,
        rate=0.15,
        span_max=10,
        span_p=0.2,
        mask_token_rate=0.8,
        random_token_rate=0.1,
    )
    batch = SentenceBatch(tokens=tokens, lengths=lengths, candidates=candidates)
    _, selected = masking.apply(batch, HashNoise(1, 0, np.arange(len(rows))))
    assert len(np.unique(selected.rows)) == len(rows)
    assert 0.1 < len(selected.rows) / candidates.sum() < 0.2
