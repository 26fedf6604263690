import numpy as np
import pytest
from scipy import stats

from toolkit.data.samples.masking import (
    MASKING_STRATEGIES,
    SPANS,
    HashNoise,
    Masking,
    span_length_distribution,
)
from toolkit.data.samples.sequence_pairs import SentenceBatch
from toolkit.data.tokenizers.vocabulary import append_special

CLS, SEP, PAD, MASK = 1000, 1001, 1002, 1003
ROWS, LENGTH = 400, 64
EVERY_STRATEGY = pytest.mark.parametrize("law", MASKING_STRATEGIES)


@pytest.fixture(scope="module")
def words():
    """1000 pieces, every third goes on with a word."""
    return append_special([("" if i % 3 == 0 else "▁") + str(i) for i in range(1000)], unk=0)


def masking(words, law, **options):
    rates = {"rate": 0.15, "mask_token_rate": 0.8, "random_token_rate": 0.1}
    spans = {"span_max": 3, "span_p": 0.2, "tokens_per_sample": LENGTH}
    return Masking(strategy=law, vocabulary=words, **{**rates, **spans, **options})


def sentences(lengths, width=None, seed=0):
    """[CLS] a [SEP] b [SEP] of random tokens, b from the middle on."""
    lengths = np.array(lengths, np.int64)
    width = width or int(lengths.max())
    tokens = np.random.default_rng(seed).integers(0, 1000, (len(lengths), 4 * LENGTH))[:, :width]
    places, ends = np.arange(width)[None], lengths[:, None]
    tokens[:, 0] = CLS
    tokens[(places == ends // 2) | (places == ends - 1)] = SEP
    tokens[places >= ends] = PAD
    return SentenceBatch(tokens, lengths, tokens < 1000)


@pytest.fixture(scope="module")
def batch():
    return sentences([LENGTH] * ROWS)


def noise(rows=ROWS, seed=1, epoch=1):
    return HashNoise(seed, epoch, np.arange(rows))


def chosen_rows(selected, rows=ROWS):
    order = np.lexsort((selected.positions, selected.rows))
    return np.split(
        selected.positions[order], np.searchsorted(selected.rows[order], np.arange(1, rows))
    )


# -- what holds for every law


@EVERY_STRATEGY
def test_masking_selects_only_text_and_leaves_other_tokens_unchanged(words, batch, law):
    visible, selected = masking(words, law).apply(batch, noise())
    assert batch.candidates[selected.rows, selected.positions].all()
    changed = visible != batch.tokens
    changed[selected.rows, selected.positions] = False
    assert not changed.any()


@EVERY_STRATEGY
def test_masks_do_not_depend_on_batch_neighbors_or_padding(words, law):
    lengths = [10, 64, 33, 50]
    alone = sentences(lengths)
    kind = sentences(lengths, width=90)
    order = np.array([2, 0, 3, 1])
    shuffled = SentenceBatch(kind.tokens[order], kind.lengths[order], kind.candidates[order])
    hide = masking(words, law).apply
    want, selected = hide(alone, noise(4))
    got, again = hide(shuffled, HashNoise(1, 1, order))
    assert (got[np.argsort(order)][:, :64] == want).all()
    rows = [p.tolist() for p in chosen_rows(selected, 4)]
    assert [p.tolist() for p in chosen_rows(again._replace(rows=order[again.rows]), 4)] == rows


@EVERY_STRATEGY
def test_seed_epoch_and_evaluation_differ_but_repeat(words, batch, law):
    hide = masking(words, law).apply
    kinds = [(1, 1), (2, 1), (1, 2), (1, None)]
    selected = [hide(batch, noise(seed=s, epoch=e))[0] for s, e in kinds]
    again = [hide(batch, noise(seed=s, epoch=e))[0] for s, e in kinds]
    assert all((a == b).all() for a, b in zip(selected, again, strict=True))
    assert len({visible.tobytes() for visible in selected}) == 4


@EVERY_STRATEGY
def test_masking_selects_nothing_in_empty_sentences(words, law):
    empty = sentences([2, 2, 2])
    visible, selected = masking(words, law).apply(empty, noise(3))
    assert len(selected.rows) == 0
    assert (visible == empty.tokens).all()


# -- the laws themselves


def test_bernoulli_selects_tokens_independently(words, batch):
    _, selected = masking(words, "bernoulli").apply(batch, noise())
    candidates = int(batch.candidates[0].sum())
    counts = np.bincount(selected.rows, minlength=ROWS)
    seen = np.bincount(counts, minlength=candidates + 1)[3:17]
    law = stats.binom(candidates, 0.15).pmf(np.arange(3, 17)) * ROWS
    assert stats.chisquare(seen, law * seen.sum() / law.sum()).pvalue > 1e-3
    places = np.bincount(selected.positions, minlength=LENGTH)[batch.candidates[0]]
    assert stats.chisquare(places).pvalue > 1e-3


@pytest.mark.parametrize("rate, count", [(0.15, 9), (0.16, 10), (0.5, 30), (0.001, 1)])
def test_exact_selects_the_rounded_fraction_uniformly(words, batch, rate, count):
    _, selected = masking(words, "exact", rate=rate).apply(batch, noise())
    assert (np.bincount(selected.rows) == count).all()  # of 61 candidates
    places = np.bincount(selected.positions, minlength=LENGTH)[batch.candidates[0]]
    assert stats.chisquare(places).pvalue > 1e-3


def groups(words, batch, row):
    """The words of a sentence, as lists of places."""
    selected = []
    for position in np.flatnonzero(batch.candidates[row]).tolist():
        starts = words.words.starts(batch.tokens[row])[position]
        if starts or not batch.candidates[row, position - 1]:
            selected.append([])
        selected[-1].append(position)
    return selected


def test_whole_word_selects_whole_words_and_fills_the_budget_if_they_fit(words, batch):
    _, selected = masking(words, "whole_word").apply(batch, noise())
    counts = []
    for row, places in enumerate(chosen_rows(selected)):
        left = [group for group in groups(words, batch, row) if not set(group) <= set(places)]
        assert not {position for group in left for position in group} & set(places.tolist())
        assert all(len(group) > 9 - len(places) for group in left)
        counts.append(len(places))
    assert max(counts) == 9


def test_span_length_distribution_is_the_truncated_geometric():
    assert span_length_distribution(0.2, 3).round(4).tolist() == [0.4098, 0.3279, 0.2623]
    six = [0.2711, 0.2168, 0.1735, 0.1388, 0.1110, 0.0888]
    assert span_length_distribution(0.2, 6) == pytest.approx(six, abs=1e-4)
    assert span_length_distribution(0.2, 10) @ np.arange(1, 11) == pytest.approx(3.797, abs=1e-3)


def runs(places):
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)


def test_span_equals_a_loop_over_its_definition(words, batch):
    law = masking(words, "span")
    _, selected = law.apply(batch, noise())
    for row, places in enumerate(chosen_rows(selected)):
        assert places.tolist() == spans_by_loop(words, batch, row, law)


def spans_by_loop(words, batch, row, law):
    """SpanBERT's procedure for one sentence, with the same random numbers."""
    candidates = np.flatnonzero(batch.candidates[row]).tolist()
    groups_of = groups(words, batch, row)
    number = {position: i for i, group in enumerate(groups_of) for position in group}
    budget, taken, attempt = int(np.ceil(law.rate * len(candidates))), set(), 0
    edges = np.cumsum(span_length_distribution(law.span_p, law.span_max))
    while len(taken) < budget:
        size, which = np.modf(noise().grid(SPANS, attempt + 1)[row, -1] * len(candidates))
        position, attempt = candidates[int(which)], attempt + 1
        if position in taken:
            continue
        length = 1 + int((size >= edges[:-1]).sum())
        run = [p for group in groups_of[number[position] :][:length] for p in group]
        for p in run:
            if len(taken) == budget or SEP in batch.tokens[row, position:p]:
                break
            taken.add(p)
    return sorted(taken)


def test_spans_never_cross_special_tokens_and_share_one_decision(words, batch):
    visible, selected = masking(words, "span", rate=0.3).apply(batch, noise())
    kinds = []
    for row, places in enumerate(chosen_rows(selected)):
        for run in runs(places):
            seen, true = visible[row, run], batch.tokens[row, run]
            kinds.append(
                "mask" if (seen == MASK).all() else "same" if (seen == true).all() else "random"
            )
            assert kinds[-1] != "random" or (seen == MASK).sum() < 2  # one may be drawn
    counts = [kinds.count(kind) for kind in ("mask", "random", "same")]
    assert stats.chisquare(counts, np.array([0.8, 0.1, 0.1]) * len(kinds)).pvalue > 1e-3


def test_electra_draws_with_replacement_up_to_its_limit(words):
    batch = sentences([64] * 300 + [20] * 100)
    _, selected = masking(words, "electra").apply(batch, noise())
    counts = np.bincount(selected.rows)
    assert set(counts[:300].tolist()) == {9}  # int(0.155 x 64), below round(0.15 x 64) = 10
    assert set(counts[300:].tolist()) == {3}  # round(0.15 x 20)
    twice = len(selected.rows) - len(
        set(zip(selected.rows.tolist(), selected.positions.tolist(), strict=True))
    )
    expected = 300 * 36 / 61 + 100 * 3 / 17  # pairs of draws over candidates
    assert twice == pytest.approx(expected, rel=0.25)


# -- what is shown


def test_visible_tokens_follow_80_10_10(words, batch):
    visible, selected = masking(words, "bernoulli").apply(batch, noise())
    seen, true = (
        visible[selected.rows, selected.positions],
        batch.tokens[selected.rows, selected.positions],
    )
    counts = [(seen == MASK).sum(), ((seen != MASK) & (seen != true)).sum(), (seen == true).sum()]
    law = np.array([0.8 + 0.1 / 1004, 0.1 - 0.2 / 1004, 0.1 + 0.1 / 1004])
    assert stats.chisquare(counts, law * len(seen)).pvalue > 1e-3
    drawn = seen[(seen != MASK) & (seen != true) & (seen < 1000)]
    assert stats.chisquare(np.bincount(drawn // 100)).pvalue > 1e-3


def test_positions_decide_independently(words):
    """Neighboring places and samples share no randomness: no correlation of their draws."""
    grid = HashNoise(1, 1, np.arange(300)).grid(1, 300)
    for other in (grid[1:, :], grid[:, 1:], HashNoise(1, 1, np.arange(300)).grid(2, 300)):
        mine = grid[: other.shape[0], : other.shape[1]]
        assert np.corrcoef(mine.ravel(), other.ravel())[0, 1] == pytest.approx(0, abs=0.015)
