import numpy as np
import pytest

from toolkit.data.samples import electra_segments
from toolkit.data.samples.electra_segments import SegmentedSamples, pack_examples

CLS, SEP, PAD = 10, 11, 12


class Draws:
    """The same uniform numbers, asked for one at a time."""

    def __init__(self, item):
        self.item = item

    def __getitem__(self, draw):
        return float(electra_segments._draw(np.array([self.item]), draw)[0])


def electra(documents, longest):
    """Clark et al. (2020), released code, written down with loops.

    Documents are lists of (item number, tokens). Their random numbers are replaced by ours.
    """
    found, current, size = [], [], 0

    def target_of(item):
        draws = Draws(item)
        short = draws[electra_segments.TARGET] < 0.05
        return 5 + int(draws[electra_segments.LENGTH] * (longest - 4)) if short else longest

    def example():
        start = current[0][0]
        single = Draws(start)[electra_segments.SINGLE] < 0.1
        limit = 100000 if single else (target_of(start) - 3) // 2
        first, second = [], []
        for item, tokens in current:
            if (
                len(first) == 0
                or len(first) + len(tokens) < limit
                or (
                    len(second) == 0
                    and len(first) < limit
                    and Draws(item)[electra_segments.COIN] < 0.5
                )
            ):
                first += tokens
            else:
                second += tokens
        first = first[: longest - 2]
        second = second[: max(0, longest - len(first) - 3)]
        found.append(([CLS, *first, SEP, *([*second, SEP] if second else [])], 2 + len(first)))

    for document in documents:
        for item, tokens in document:
            current.append((item, tokens))
            size += len(tokens)
            if size >= target_of(current[0][0]):
                example()
                current, size = [], 0
        if current:
            example()
            current, size = [], 0
    return found


def documents_of(column):
    documents, number = [], 0
    for part in column.parts:
        begins = {0, *part.document_starts.tolist()}
        for item, ids in enumerate(np.split(part.values, part.offsets[1:-1])):
            if item in begins:
                documents.append([])
            documents[-1].append((number, ids.tolist()))
            number += 1
    return documents


@pytest.fixture
def text(column):
    """Three parts of items of 1 to `most` tokens, a document of about 12 items each."""

    def write(most, seed=0, count=400):
        draw = np.random.default_rng(seed)
        parts = []
        for size in (count, count // 2, 1):
            items = [draw.integers(0, 10, draw.integers(1, most + 1)).tolist() for _ in range(size)]
            parts.append((items, np.flatnonzero(draw.random(size) < 0.08).tolist()))
        return column(*parts)

    return write


@pytest.mark.parametrize("most", [3, 9, 40])
@pytest.mark.parametrize("longest", [5, 16, 64])
def test_examples_equal_electras_loop(text, vocabulary, most, longest):
    column = text(most)
    found = SegmentedSamples(column, vocabulary, tokens_per_sample=longest)
    want = electra(documents_of(column), longest)
    assert found.lengths.tolist() == [len(row) for row, _ in want]
    batch = found.read_batch(np.arange(len(want)))
    for row, kinds, candidates, (tokens, second) in zip(
        batch.tokens, batch.segments, batch.candidates, want, strict=True
    ):
        padding = len(row) - len(tokens)
        assert row.tolist() == tokens + [PAD] * padding
        rest = len(tokens) - second
        assert kinds.tolist() == [0] * second + [1] * rest + [0] * padding
        assert candidates.tolist() == [t < CLS for t in tokens] + [False] * padding


def test_rates_of_short_and_single_examples_are_the_published_ones(column, vocabulary):
    part = column(([[1] * 4] * 60_000, [0])).parts[0]
    starts, _, first_tokens = pack_examples(part, 32, 0)
    counts = np.diff(starts, append=part.items)
    assert (counts < 8).mean() == pytest.approx(0.05 * 23 / 28, abs=0.01)  # targets 5 .. 28
    full = counts == 8
    single = first_tokens[full] == 32
    assert single.mean() == pytest.approx(0.1, abs=0.015)
    over = first_tokens[full & (first_tokens < 32)]
    assert set(over.tolist()) == {12, 16}  # 12 + 4 reaches (32 - 3) // 2 = 14: half of the time
    assert (over == 16).mean() == pytest.approx(0.5, abs=0.02)
