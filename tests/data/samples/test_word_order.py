import numpy as np
import pytest
from scipy import stats

from toolkit.analysis.word_order import join_words, select_words, shuffle_words
from toolkit.data.samples.masking import HashNoise
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.data.tokenizers.vocabulary import append_special

CLS, SEP, PAD = 60, 61, 62


@pytest.fixture(scope="module")
def vocabulary():
    """60 pieces, of which those from 40 on continue a word."""
    return append_special([("▁" if i < 40 else "") + str(i) for i in range(60)], unk=0)


@pytest.fixture(scope="module")
def batch(vocabulary):
    """300 sentences of 1 to 30 tokens that start a word, mostly."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 31, 300)
    texts = TokenTexts(random.integers(0, 60, lengths.sum()), lengths)
    return join_words(texts, ((CLS,), (SEP,)), vocabulary)


def noise(rows, shuffle=0):
    return HashNoise(0, shuffle, np.arange(rows))


def test_words_are_numbered_between_special_tokens(vocabulary):
    texts = TokenTexts(np.array([1, 41, 2, 45, 3, 43]), np.array([3, 3]))
    sentences = join_words(texts, ((CLS,), (SEP,)), vocabulary)
    assert sentences.tokens.tolist() == [[CLS, 1, 41, 2, SEP], [CLS, 45, 3, 43, SEP]]
    assert sentences.words.tolist() == [[-1, 0, 0, 1, -1], [-1, -1, 0, 0, -1]]
    bare = join_words(TokenTexts(np.array([1, 2, 3]), np.array([1, 2])), ((), ()), vocabulary)
    assert bare.tokens.tolist() == [[1, PAD], [2, 3]] and bare.words.tolist() == [[0, -1], [0, 1]]


def test_selected_words_are_whole_and_a_fixed_fraction(batch):
    selected = select_words(batch, 0.15, noise(300))
    for words, chosen in zip(batch.words, selected, strict=True):
        count = words.max() + 1
        numbers = set(words[chosen])
        assert len(numbers) == (max(1, round(0.15 * count)) if count else 0)
        assert (np.isin(words, [*numbers]) == chosen).all()


@pytest.mark.parametrize("window", [2, 4, 8, None])
def test_words_move_whole_and_within_their_window(batch, window):
    sources = shuffle_words(batch.words, window, noise(300))
    moved = batch.permute(sources)
    for before, after, tokens, shuffled in zip(
        batch.words, moved.words, batch.tokens, moved.tokens, strict=True
    ):
        assert ((before < 0) == (after < 0)).all()
        assert (tokens[before < 0] == shuffled[before < 0]).all()
        assert (sorted(after) == sorted(before)) and sorted(tokens) == sorted(shuffled)
        inside = after[after >= 0]
        starts = np.flatnonzero(np.diff(inside, prepend=-9))
        assert len(starts) == inside.max(initial=-1) + 1  # no word is split
        order = inside[starts]
        if window:
            assert (order // window == np.arange(len(order)) // window).all()
        for number in range(len(order)):
            assert tokens[before == number].tolist() == shuffled[after == number].tolist()


def test_windows_of_one_word_keep_the_order(batch):
    sources = shuffle_words(batch.words, 1, noise(300))
    assert (sources == np.arange(batch.words.shape[1])).all()


def test_all_orders_of_a_window_are_equally_likely():
    words = np.tile(np.arange(3), (6000, 1))
    sources = shuffle_words(words, None, noise(6000))
    _, counts = np.unique(sources, axis=0, return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 0.001


def test_masks_and_orders_do_not_depend_on_the_batch(batch):
    ids = np.arange(300)
    rows = np.array([7, 250, 31])
    few = batch._replace(tokens=batch.tokens[rows], words=batch.words[rows])
    all_masks = select_words(batch, 0.15, HashNoise(0, None, ids))
    masks = select_words(few, 0.15, HashNoise(0, None, ids[rows]))
    assert (masks == all_masks[rows]).all()
    for window in (4, None):
        everywhere = shuffle_words(batch.words, window, HashNoise(0, 2, ids))
        assert (
            shuffle_words(few.words, window, HashNoise(0, 2, ids[rows])) == everywhere[rows]
        ).all()
        other = shuffle_words(batch.words, window, HashNoise(0, 3, ids))
        assert (other != everywhere).any()
