from itertools import pairwise

import numpy as np
import pytest

from toolkit.data.samples.sequence_pairs import TextSamples
from toolkit.data.storage.data_folder import make_synthetic_text

CLS, SEP, PAD = 10, 11, 12


def stated(column, vocabulary, samples, tokens=16):
    """Every sentence without padding, one by one and as one batch: both must agree."""
    found = TextSamples(column, vocabulary, sample_mode=samples, tokens_per_sample=tokens)
    ids = np.arange(len(found.lengths))
    batch = found.read_batch(ids)
    rows = [row[:n].tolist() for row, n in zip(batch.tokens, batch.lengths, strict=True)]
    assert rows == [found.read_batch(ids[i : i + 1]).tokens[0].tolist() for i in ids]
    assert (batch.tokens[np.arange(batch.tokens.shape[1]) >= batch.lengths[:, None]] == PAD).all()
    special = np.isin(batch.tokens, [CLS, SEP, PAD])
    assert (batch.candidates == ~special).all()
    return rows


@pytest.fixture
def random_column(column):
    draw = np.random.default_rng(5)

    def items(count):
        return [draw.integers(0, 10, draw.integers(1, 9)).tolist() for _ in range(count)]

    return column((items(21), [0, 4, 13]), (items(8), [3]), (items(1), [0]))


def all_items(part):
    return [ids.tolist() for ids in np.split(part.values, part.offsets[1:-1])]


def test_pairs_equal_chang_s_loop(random_column, vocabulary):
    expected = []
    for part in random_column.parts:
        items = all_items(part)
        for first, second in zip(items[::2], items[1::2], strict=False):
            expected.append([CLS, *first, SEP, *second, SEP][:16])
    assert stated(random_column, vocabulary, "pairs") == expected


def test_pairs_lose_their_tail_and_the_last_sep_with_it(column, vocabulary):
    rows = stated(column(([[1] * 3, [2] * 3], [0])), vocabulary, "pairs", tokens=8)
    assert rows == [[CLS, 1, 1, 1, SEP, 2, 2, 2]]
    rows = stated(column(([[1] * 9, [2] * 3], [0])), vocabulary, "pairs", tokens=8)
    assert rows == [[CLS, 1, 1, 1, 1, 1, 1, 1]]


def chopped(values, size):
    return [[CLS, *values[i : i + size], SEP] for i in range(0, len(values), size)]


def test_document_blocks_start_again_with_each_document(random_column, vocabulary):
    expected = []
    for part in random_column.parts:
        starts = sorted({0, *part.document_starts.tolist(), part.items})
        items = all_items(part)
        for start, end in pairwise(starts):
            expected += chopped([token for item in items[start:end] for token in item], 14)
    assert stated(random_column, vocabulary, "documents") == expected


def test_truncation_of_pairs_is_reported(column, vocabulary):
    items = column(([[1] * 3, [2] * 3, [1] * 9, [2] * 3], [0]))

    def samples(mode, tokens):
        return TextSamples(items, vocabulary, sample_mode=mode, tokens_per_sample=tokens)

    def remark(mode, tokens):
        return samples(mode, tokens).remark

    assert samples("pairs", 8).loses_much and not samples("blocks", 8).loses_much
    assert remark("pairs", 8) == "2 cut, 8 tokens lost (33.3%)"  # of 9 and 15 with special ones
    assert (remark("pairs", 15), remark("blocks", 8), remark("documents", 8)) == ("", "", "")


@pytest.mark.parametrize("samples", ["pairs", "blocks", "documents"])
def test_synthetic_samples_are_full(samples):
    folder = make_synthetic_text(20, items=6)
    column = folder.split("train").column("tokens")
    found = TextSamples(column, folder.vocabulary, sample_mode=samples, tokens_per_sample=512)
    assert (found.lengths == 512).mean() > 0.99
    tokens = found.read_batch(np.arange(2)).tokens
    assert set(tokens[:, 2:-1].flat) <= set(range(5, 20)) | {folder.vocabulary.sep}
