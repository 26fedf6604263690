from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.samples.sequence_pairs import TokenBlocks
from toolkit.data.storage.column_files import CheckedColumnPart, Column, ColumnWriter
from toolkit.data.tokenizers.vocabulary import Vocabulary

END, PAD = 2, 0
WORDS = Vocabulary([f"w{i}" for i in range(60)], pad=PAD, cls=1, sep=END, mask=3, unk=4)
ITEMS = [[[5, 6], [7], [8, 9, 10]], [[11, 12, 13, 14], [15]], [[16, 17, 18], [19]]]
"""Parts, their items, and the tokens of these; documents begin at 5, 8 and 16."""
STARTS = [[True, False, True], [False, False], [True, False]]


@pytest.fixture
def column(tmp_path):
    parts = []
    for number, (items, starts_document) in enumerate(zip(ITEMS, STARTS, strict=True)):
        writer = ColumnWriter(tmp_path / f"p{number}", "<u2")
        lengths = np.array([len(item) for item in items])
        writer.add(np.concatenate(items), lengths, np.array(starts_document))
        parts.append(CheckedColumnPart(writer.stem, writer.finish()))
    return Column("tokens", parts)


def test_empty_part_inserts_no_end_token(column, tmp_path):
    nothing = CheckedColumnPart(tmp_path / "none", ColumnWriter(tmp_path / "none", "<u2").finish())

    def symbols(parts):
        whole, how = Column("tokens", parts), {"sample_mode": "blocks", "eos_after": "documents"}
        stream = TokenBlocks(whole, WORDS, **how, tokens_per_sample=99)
        return stream.read_batch(np.arange(len(stream.lengths)))[1].tolist()

    first, *others = column.parts
    assert symbols([nothing, first, nothing, *others, nothing]) == symbols(column.parts)


@pytest.fixture
def list_samples(column):
    """Samples as (symbol before the first, symbols)."""

    def read_samples(samples, ends, tokens):
        stream = TokenBlocks(
            column, WORDS, sample_mode=samples, eos_after=ends, tokens_per_sample=tokens
        )
        found = stream.read_batch(np.arange(len(stream.lengths)))
        _, tokens, inside = found
        assert inside.sum(1).tolist() == stream.lengths.tolist()
        assert (tokens[~inside] == PAD).all()
        for previous, symbols, inside in zip(*found, strict=True):
            np.testing.assert_array_equal(previous[1:][inside[1:]], symbols[:-1][inside[1:]])
        rows = zip(*found, strict=True)
        return [(int(p[0]), s[inside].tolist()) for p, s, inside in rows]

    return read_samples


def test_blocks_cross_items_with_an_end_token_after_each(list_samples):
    assert list_samples("blocks", "items", 4) == [
        (END, [5, 6, END, 7]),
        (7, [END, 8, 9, 10]),
        (10, [END]),
        (END, [11, 12, 13, 14]),
        (14, [END, 15, END]),
        (END, [16, 17, 18, END]),
        (END, [19, END]),
    ]


def test_end_tokens_may_follow_documents_only(list_samples):
    assert list_samples("blocks", "documents", 9) == [
        (END, [5, 6, 7, END, 8, 9, 10]),  # the second part goes on with the document
        (END, [11, 12, 13, 14, 15, END]),
        (END, [16, 17, 18, 19, END]),
    ]


def test_samples_do_not_cross_documents(list_samples):
    assert list_samples("documents", "items", 9) == [
        (END, [5, 6, END, 7, END]),
        (END, [8, 9, 10, END]),
        (END, [11, 12, 13, 14, END, 15, END]),
        (END, [16, 17, 18, END, 19, END]),
    ]
