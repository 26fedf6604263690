"""Token counts and collocations of a text against plain loops, and the masks that follow them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from toolkit.data.samples.masking import SELECT, UNITS, HashNoise, Masking, round_budget
from toolkit.data.samples.sequence_pairs import SentenceBatch
from toolkit.data.samples.statistics import Collocations, count_tokens, hash_words
from toolkit.data.tokenizers.vocabulary import append_special

PIECES = [[2 * w] if w % 3 else [2 * w, 2 * w + 1] for w in range(30)]
VOCABULARY = append_special([("" if i % 2 else "▁") + f"p{i}" for i in range(60)], unk=0)
RATES = {"mask_token_rate": 0.8, "random_token_rate": 0.1, "span_max": 3, "span_p": 0.2}


@pytest.fixture(scope="module")
def texts():
    """Texts of 30 words of one or two tokens, in which some words often follow each other."""
    draw, texts = np.random.default_rng(5), []
    for _ in range(160):
        text = []
        while len(text) < 25:
            start = int(draw.zipf(1.4)) % 30
            text += [w % 30 for w in range(start, start + int(draw.integers(1, 7)))]
        texts.append(text)
    return texts


def to_words(texts):
    tokens = [[t for w in text for t in PIECES[w]] for text in texts]
    begins = [[not i for i, _ in enumerate(row)] for row in tokens]
    flat = np.concatenate(tokens)
    return hash_words(flat, flat % 2 == 0, np.concatenate(begins))


def divide(ngram):
    """All divisions of an n-gram into shorter ones."""
    for cuts in range(1, 2 ** (len(ngram) - 1)):
        edges = [0, *(i + 1 for i in range(len(ngram) - 1) if cuts >> i & 1), len(ngram)]
        yield [ngram[a:b] for a, b in pairwise(edges)]


def ngrams_at(text, chosen):
    spans = [(s, s + n) for n in range(2, 6) for s in range(len(text) - n + 1)]
    return [(start, end) for start, end in spans if text[start:end] in chosen]


def collocations_by_loops(texts, coverage):
    """Length -> collocations, and the PMI of all candidates."""
    counts = {
        n: Counter(text[i : i + n] for text in texts for i in range(len(text) - n + 1))
        for n in range(1, 6)
    }
    p = {g: count / counts[n].total() for n in counts for g, count in counts[n].items()}
    pmi = {
        g: min(np.log(p[g] / np.prod([p[part] for part in parts])) for parts in divide(g))
        for n in range(2, 6)
        for g, count in counts[n].items()
        if count > 10
    }
    ranked = {
        n: sorted((g for g in pmi if len(g) == n), key=lambda g: -pmi[g]) for n in (2, 3, 4, 5)
    }
    covered, size = 0, 0
    while covered <= coverage * counts[1].total():
        size += 1
        sizes = {2: size // 2, 3: size // 4, 4: size // 8, 5: size // 8}
        chosen = {g for n, its in ranked.items() for g in its[: sizes[n]]}
        found = [{i for a, b in ngrams_at(text, chosen) for i in range(a, b)} for text in texts]
        covered = sum(map(len, found))
    return chosen, pmi


@pytest.mark.parametrize("coverage", [0.2, 0.7])
def test_collocations_equal_loops_over_all_divisions(texts, coverage):
    found = Collocations(to_words(texts), coverage)
    chosen, pmi = collocations_by_loops([tuple(text) for text in texts], coverage)
    ours = {
        gram
        for gram in pmi
        if int(to_words([gram]).hash_ngrams(np.zeros(1, np.int64), len(gram))[0])
        in found.ngrams[len(gram)].hashes.tolist()
    }
    assert len(ours) == sum(len(its.hashes) for its in found.ngrams.values())
    for n in range(2, 6):  # equal PMI is ranked in any order
        lists = [sorted(pmi[g] for g in its if len(g) == n) for its in (ours, chosen)]
        assert len(lists[0]) > 0
        np.testing.assert_allclose(*lists, rtol=1e-9)


def make_batch(texts):
    rows = [[60, *(t for w in text for t in PIECES[w]), 61] for text in texts]
    lengths = np.array([len(row) for row in rows])
    tokens = np.array([row + [62] * (lengths.max() - len(row)) for row in rows])
    return SentenceBatch(tokens, lengths, tokens < 60)


def test_pmi_masks_whole_units_and_settles_overlaps_at_random(texts):
    found, batch = Collocations(to_words(texts), 0.5), make_batch(texts[:20])
    how = Masking(
        strategy="pmi", vocabulary=VOCABULARY, tokens_per_sample=99, rate=0.4,
        collocations=found, **RATES,
    )  # fmt: skip
    noise = HashNoise(1, 1, np.arange(20))
    _, selected = how.apply(batch, noise)
    draws, keys = noise.grid(UNITS, 99), noise.grid(SELECT, 99)
    overlaps, units_of_several = 0, 0
    for row, text in enumerate(texts[:20]):
        grams = {
            (s, s + n): int(to_words([text[s : s + n]]).hash_ngrams(np.zeros(1, np.int64), n)[0])
            for n in range(2, 6)
            for s in range(len(text) - n + 1)
        }
        spans = [it for it, h in grams.items() if h in found.ngrams[it[1] - it[0]].hashes.tolist()]
        outer = [
            (a, b) for a, b in spans if not any(c <= a < b <= d != (b - a + c) for c, d in spans)
        ]
        start = np.cumsum([1, *(len(PIECES[w]) for w in text)])
        units, free = list[tuple[int, int]](), set(range(len(text)))
        for a, b in sorted(outer, key=lambda it: draws[row, start[it[0]]]):
            overlaps += not free >= set(range(a, b))
            if free >= set(range(a, b)):
                free -= set(range(a, b))
                units.append((a, b))
        units += [(i, i + 1) for i in free]
        budget, expected = int(round_budget(batch.candidates[row].sum(), 0.4)), {}
        for a, b in sorted(units, key=lambda it: keys[row, start[it[0]]]):
            positions = range(start[a], start[b])
            if len(expected) + len(positions) <= budget:
                expected |= dict.fromkeys(positions, int(start[a]))
                units_of_several += b - a > 1
        mine = selected.rows == row
        pairs = zip(selected.positions[mine], selected.decision_ids[mine], strict=True)
        assert dict(pairs) == expected
    assert overlaps > 9 and units_of_several > 20


def test_pmi_masks_do_not_depend_on_other_sentences_of_the_batch(texts):
    how = Masking(
        strategy="pmi", vocabulary=VOCABULARY, tokens_per_sample=99, rate=0.3,
        collocations=Collocations(to_words(texts), 0.5), **RATES,
    )  # fmt: skip
    both, _ = how.apply(make_batch([texts[3], [], texts[4]]), HashNoise(1, 1, np.array([3, 9, 4])))
    alone, _ = how.apply(make_batch([texts[4]]), HashNoise(1, 1, np.array([4])))
    assert both[2, : alone.shape[1]].tolist() == alone[0].tolist()
    nothing, selected = how.apply(make_batch([[]]), HashNoise(1, 1, np.array([9])))
    assert not len(selected.rows) and nothing.tolist() == [[60, 61]]


def test_frequency_draws_in_proportion_to_the_weights():
    batch = make_batch([[1, 2, 4, 5, 7]] * 4000)
    weights = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    of_token = np.ones(64)
    of_token[batch.tokens[0, 1:6]] = weights
    how = Masking(
        strategy="frequency", vocabulary=VOCABULARY, tokens_per_sample=99, rate=0.4,
        weights=of_token, **RATES,
    )  # fmt: skip
    _, selected = how.apply(batch, HashNoise(1, 1, np.arange(4000)))
    pairs = Counter(map(tuple, selected.positions.reshape(4000, 2).tolist()))
    p = weights / weights.sum()
    law = {
        (i + 1, j + 1): p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        for j in range(5)
        for i in range(j)
    }
    seen = [pairs[pair] for pair in law]
    assert stats.chisquare(seen, np.array(list(law.values())) * 4000).pvalue > 1e-3


def test_tokens_are_counted_over_all_parts(column):
    draw = np.random.default_rng(0)
    items = [draw.integers(0, 9, n).tolist() for n in (5, 0, 7, 1, 30)]
    counts = count_tokens(column((items[:2], [0]), (items[2:], [0])), 12)
    assert counts.tolist() == [sum(its.count(i) for its in items) for i in range(12)]
