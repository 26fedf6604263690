"""Losses of a model on sentences whose words are shuffled within windows, and these orders.

As in Khandelwal et al. (2018), who shuffle the context of LSTM language models. Random numbers are
hashes of (seed, sentence, word), as those of masking: neither the batch around a sentence nor the
number of sentences changes them.

N sentences   B sentences of a batch   S tokens of a sentence   W words of a sentence
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from toolkit.common.arrays import BoolArray, FloatArray, IntArray, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.data.loading.batching import BatchPlanner
from toolkit.data.samples.masking import SELECT, HashNoise, round_budget
from toolkit.data.samples.sequence_pairs import TokenColumn, TokenTexts
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks.embed import collate_texts
from toolkit.tasks.examples import SHAPE_MULTIPLE, pad_to_multiple, to_device
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets, require

ORIGINAL = 1
"""Window of one word, which leaves the original order."""
WINDOWS = (2, 4, 8, None)
"""Words of the windows in which words are shuffled; None for the whole sentence."""
MASK_RATE = 0.15
SEED = 0
MAX_TOKENS = {"cpu": 2048, "cuda": 16_384}
"""Device -> tokens per batch."""


@dataclass(frozen=True, kw_only=True)
class OrderLoss:
    """Mean loss per predicted token in one order, and its difference to the original order."""

    window: int | None
    """Words of a window: 1 for the original order, None for the whole sentence."""
    loss: float
    increase: float
    """Loss minus the loss in the original order."""
    standard_error: float
    """Standard error of the increase over sentences."""
    accuracy: float
    """Fraction of the predicted tokens that are the most probable ones."""
    sentences: int
    """Sentences with a predicted token."""
    targets: int
    """Predicted tokens."""

    @property
    def perplexity_ratio(self) -> float:
        """Perplexity divided by that in the original order."""
        return math.exp(min(self.increase, 700.0))


class SentenceSample:
    """Sentences of a column, evenly spread, as a model reads them."""

    def __init__(self, learner: Learner, column: TokenColumn, *, limit: int, length: int) -> None:
        self._column, self._vocabulary = column, learner.tokenizer.vocabulary
        self._special = learner.task.special_tokens(self._vocabulary)
        self._added = sum(map(len, self._special))
        self.available = len(column.lengths)
        count = min(limit, self.available)
        self.ids: IntArray = np.arange(count) * self.available // max(1, count)
        """Numbers of the sentences in the column."""
        full = column.lengths[self.ids] + self._added
        self.lengths: IntArray = np.minimum(full, length)
        self.truncated = int((full > length).sum())

    def read(self, indices: IntArray) -> WordSentences:
        """The sentences with these indices in `ids`."""
        texts = self._column.take(self.ids[indices], self.lengths[indices] - self._added)
        return join_words(texts, self._special, self._vocabulary)

    def batches(self, max_tokens: int) -> Iterator[IntArray]:
        """Indices of sentences of similar length, all sentences once."""
        planner = BatchPlanner(
            self.lengths,
            max_tokens=max(max_tokens, int(self.lengths.max())),
            batch_size=None,
            seed=SEED,
            fingerprint="",
        )
        plan = planner.in_order()
        return (plan.batch(number) for number in range(len(plan)))


def measure_word_order(
    learner: Learner,
    sample: SentenceSample,
    *,
    shuffles: int,
    on_sentences: Callable[[int], object] = lambda count: None,
) -> list[OrderLoss]:
    """The loss in the original order and for each of `WINDOWS`: the mean over `shuffles` orders.

    The predicted tokens are the same in every order; the original one is measured once.
    `on_sentences` is called with the number of sentences of each batch.
    """
    orders = [(ORIGINAL, 0), *((w, shuffle) for w in WINDOWS for shuffle in range(shuffles))]
    sums = {window: np.zeros((2, len(sample.ids))) for window in (ORIGINAL, *WINDOWS)}
    counts = np.zeros(len(sample.ids))
    device = next(learner.parameters()).device.type
    for indices in sample.batches(MAX_TOKENS.get(device, MAX_TOKENS["cuda"])):
        ids, sentences = sample.ids[indices], sample.read(indices)
        # those of 15% of the words; for language models those of all words
        rate = 1.0 if isinstance(learner.encoder, GenerativeModel) else MASK_RATE
        targets = select_words(sentences, rate, HashNoise(SEED, None, ids))
        counts[indices] = targets.sum(1)
        for window, shuffle in orders:
            sources = shuffle_words(sentences.words, window, HashNoise(SEED, shuffle, ids))
            moved = np.take_along_axis(targets, sources, 1)
            permuted = sentences.permute(sources)
            sums[window][:, indices] += sum_token_losses(learner, permuted, moved)
        on_sentences(len(indices))
    if not counts.any():
        raise ToolkitError("--word-order requires text with words to predict, but found none.")
    means = {w: it if w == ORIGINAL else it / shuffles for w, it in sums.items()}
    return [compare_with_original(w, it, means[ORIGINAL], counts) for w, it in means.items()]


def compare_with_original(
    window: int | None, sums: FloatArray, original: FloatArray, counts: FloatArray
) -> OrderLoss:
    """Means over all predicted tokens. The standard error is that of a ratio of sums.

    d = sum_i D_i / sum_i n_i, D_i the difference of sentence i with n_i predicted tokens;
    its standard error is sqrt(N / (N - 1) sum_i (D_i - d n_i)^2) / sum_i n_i.
    """
    targets, sentences = int(counts.sum()), int(np.count_nonzero(counts))
    differences = sums[0] - original[0]
    increase = differences.sum() / targets
    squares = ((differences - increase * counts) ** 2).sum()
    return OrderLoss(
        window=window,
        loss=float(sums[0].sum() / targets),
        increase=float(increase),
        standard_error=math.sqrt(squares * sentences / max(1, sentences - 1)) / targets,
        accuracy=float(sums[1].sum() / targets),
        sentences=sentences,
        targets=targets,
    )


@torch.no_grad()
def sum_token_losses(learner: Learner, sentences: WordSentences, targets: BoolArray) -> FloatArray:
    """-log p(x_t | sentence with [MASK] at all targets), or for language models
    -log p(x_t | x_1 .. x_{t-1}), summed over the targets t of each sentence.

    `targets` marks them, B x S. The second row counts those that are the most probable tokens.
    """
    encoder, device = learner.encoder, learner.encoder.token_embedding.weight.device
    inputs, selected = to_inputs(learner, sentences, targets)
    encoder.check_ids(inputs)
    wanted = pad_to_multiple(sentences.tokens[targets], 0, SHAPE_MULTIPLE).to(device)
    positions = pad_to_multiple(selected, 0, SHAPE_MULTIPLE).to(device)
    moved = to_device(inputs, device, packs=learner.encoder.uses_packing)
    task = require(learner.task, ScoresTargets)
    found = task.score_targets(encoder, moved, positions, wanted)
    rows, sums = np.nonzero(targets)[0], np.zeros((2, len(targets)))
    numbers = -found.log_probabilities, found.is_best
    for of_sentences, of_tokens in zip(sums, numbers, strict=True):
        np.add.at(of_sentences, rows, of_tokens[: len(rows)].double().cpu().numpy())
    return sums


def to_inputs(
    learner: Learner, sentences: WordSentences, targets: BoolArray
) -> tuple[Inputs, IntArray]:
    """The batch that the encoder reads, and flat indices of the positions that predict."""
    tokens, selected = sentences.tokens, np.flatnonzero(targets)
    if isinstance(learner.encoder, GenerativeModel):  # it never sees the padding that follows
        return Inputs(tokens=torch.from_numpy(tokens)), selected - 1
    visible = np.where(targets, learner.tokenizer.vocabulary.mask, tokens)
    padding = np.arange(tokens.shape[1]) >= sentences.lengths[:, None]
    padded = torch.from_numpy(padding) if padding.any() else None
    return Inputs(tokens=torch.from_numpy(visible), padding=padded), selected


ORDER = 0x6F7264
"""Separates the random stream of orders from that of masks."""


class WordSentences(NamedTuple):
    """Sentences with their special tokens, B x S."""

    tokens: IntArray
    lengths: IntArray
    words: IntArray
    """Number of each token's word in its sentence, from 0; -1 at special tokens, padding, and
    tokens before the first start of a word."""

    def permute(self, sources: IntArray) -> WordSentences:
        """The sentences whose position p has the token of position sources[p]."""
        tokens, words = (np.take_along_axis(it, sources, 1) for it in (self.tokens, self.words))
        return WordSentences(tokens, self.lengths, words)


def join_words(
    texts: TokenTexts, special: tuple[Sequence[int], Sequence[int]], vocabulary: Vocabulary
) -> WordSentences:
    """Texts between the special tokens, padded to the longest, with their words numbered.

    A word is a token that starts one and the tokens up to the next start. Byte-level tokenizers do
    not mark the first word of a text, which then has no number.
    """
    before, after = special
    rows = [[*before, *row.tolist(), *after] for row in split_rows(*texts)]
    tokens = collate_texts(rows, vocabulary.pad).tokens.numpy()
    positions, lengths = np.arange(tokens.shape[1]), texts.lengths + len(before) + len(after)
    inside = (positions >= len(before)) & (positions < (lengths - len(after))[:, None])
    words = np.cumsum(vocabulary.words.starts(tokens) & inside, 1) - 1
    return WordSentences(tokens, lengths, np.where(inside, words, -1))


def select_words(sentences: WordSentences, rate: float, noise: HashNoise) -> BoolArray:
    """The tokens of max(1, round(rate W)) of the W words of each sentence, all subsets equally
    likely, B x S.
    """
    counts = sentences.words.max(1) + 1
    numbers = np.arange(max(1, int(counts.max())))
    keys = np.where(numbers < counts[:, None], noise.grid(SELECT, len(numbers)), 2.0)
    ranks = keys.argsort(1).argsort(1)
    selected = ranks < round_budget(counts, rate)[:, None]
    of_tokens = np.take_along_axis(selected, np.maximum(sentences.words, 0), 1)
    masked: BoolArray = of_tokens & (sentences.words >= 0)
    return masked


def shuffle_words(words: IntArray, window: int | None, noise: HashNoise) -> IntArray:
    """For each position the one whose token moves there, B x S.

    Word w is in window floor(w / window), or all words are in one if `window` is None. The words
    of a window are put into an order drawn uniformly from all of them, the original included;
    tokens of a word stay together. Other tokens stay in place.
    """
    width = words.shape[1]
    rows, positions = np.nonzero(words >= 0)
    numbers = words[rows, positions]
    keys = noise.at(ORDER, rows, numbers)
    order = np.lexsort((positions, keys, numbers // (window or width), rows))
    sources = np.tile(np.arange(width), (len(words), 1))
    sources[rows, positions] = positions[order]
    return sources
