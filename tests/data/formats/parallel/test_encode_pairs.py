from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel.files import (
    EncodedPairs,
    FilePair,
    LineBlock,
    PairLimits,
    encode_block,
    limit_pairs,
)
from toolkit.data.preprocessing.workers import WorkerPool
from toolkit.data.samples.sequence_pairs import TokenTexts


@pytest.fixture
def block(tmp_path):
    """Three pairs, the second without a source, in the fourth to sixth lines of their files."""
    for name in "ab":
        (tmp_path / name).write_text("line\n")
    return LineBlock(
        FilePair(tmp_path / "a", tmp_path / "b"), 3, ["x y", "", "z"], ["u", "v", "w"], 9
    )


FOUND = EncodedPairs(
    TokenTexts(np.array([1, 2, 3]), np.array([2, 0, 1])),
    TokenTexts(np.array([4, 5, 6]), np.array([1, 1, 1])),
)


def test_pairs_without_text_are_left_out_unless_kept(block):
    left = limit_pairs(block, FOUND, PairLimits(max_tokens=0, policy="error", keep_empty=False))
    assert left.kept.tolist() == [True, False, True] and left.empty == 1
    assert left.pairs.target.ids.tolist() == [4, 6]
    kept = limit_pairs(block, FOUND, PairLimits(max_tokens=0, policy="error", keep_empty=True))
    assert kept.kept.all() and kept.pairs.source.lengths.tolist() == [2, 0, 1]


def test_long_pairs_are_skipped_or_truncated_and_counted(block):
    skipped = limit_pairs(block, FOUND, PairLimits(max_tokens=1, policy="skip", keep_empty=False))
    assert skipped.kept.tolist() == [False, False, True]
    assert (skipped.overlength, skipped.lost) == (1, 3)
    shortened = limit_pairs(
        block, FOUND, PairLimits(max_tokens=1, policy="truncate", keep_empty=False)
    )
    assert shortened.pairs.source.ids.tolist() == [1, 3] and shortened.lost == 1
    assert shortened.pairs.target.ids.tolist() == [4, 6]


def test_long_line_is_named_with_its_file(block):
    with pytest.raises(ToolkitError, match=r"a:4: .* at most 1 tokens, but 'x y'.* has 2"):
        limit_pairs(block, FOUND, PairLimits(max_tokens=1, policy="error", keep_empty=False))


@pytest.mark.slow
def test_several_processes_encode_the_same_as_one(folder):
    data = folder()
    lines = ["der Hund", "eine Katze", ""]
    some = [
        LineBlock(FilePair(Path("a"), Path("b")), i, lines[i:], lines[i:], 0) for i in range(3)
    ] * 9
    found = []
    for number in (1, 2):
        with WorkerPool(number) as pool:
            found.append(list(pool.imap(partial(encode_block, data.path), some)))
    one, two = found
    assert [block for block, _ in two] == some
    for (_, a), (_, b) in zip(one, two, strict=True):
        for first, second in zip([*a.source, *a.target], [*b.source, *b.target], strict=True):
            np.testing.assert_array_equal(first, second)
