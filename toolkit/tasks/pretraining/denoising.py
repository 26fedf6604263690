"""Denoising of corrupted texts by an encoder-decoder model (BART, Lewis et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.registry import register_task
from toolkit.config.declared import AtLeast, Options, PositiveFloat
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.infilling import Infilling
from toolkit.data.samples.masking import HashNoise
from toolkit.data.samples.sequence_pairs import TextSamples, TokenTexts, list_item_starts
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.mlm import OpenFraction
from toolkit.tasks.translation import PairExamples, SourceTargetTask, TranslationBatch


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(Options, section="task"):
    """Options of the task denoising."""

    tokens_per_sample: Annotated[int, AtLeast(2, or_zero=True)] = 0
    """Maximum number of tokens of a text, end symbol included; 0 for 512, or the architecture's
    maximum if less."""
    sample_mode: Literal["blocks", "documents"] = "blocks"
    """Unit of one text. blocks: running text of this length, across all boundaries; documents: the
    same within one document."""
    mask_rate: OpenFraction = 0.3
    """Fraction of the words in masked spans."""
    poisson_lambda: PositiveFloat = 3.0
    """Mean of the Poisson distribution of the spans' lengths in words. A span becomes one mask; of
    length 0 it is an inserted one."""
    permute_sentences: bool = True
    """Shuffle the items of each text, such as sentences (toolkit-preprocess --segment-by
    sentences)."""


OBJECTIVE = "denoising"


class DenoisingExamples(PairExamples):
    """The texts of one split; every epoch corrupts them in another way."""

    scheduled: ClassVar[tuple[str, ...]] = ("task.mask_rate",)

    def __init__(self, c: DenoisingConfig, source: SplitSource) -> None:
        folder, split = source.folder, source.folder.split(source.name)
        self._seed, self._training = source.seed, source.training
        self._schedules, self.row_multiple = source.schedules, source.row_multiple
        self._vocabulary, column = folder.vocabulary, split.column("tokens")
        tokens = c.tokens_per_sample + 1  # [CLS] is not read
        self._samples = TextSamples(
            column, folder.vocabulary, sample_mode=c.sample_mode, tokens_per_sample=tokens
        )
        self.text = self._samples, folder, split
        self._item_starts = list_item_starts(column)
        mask, options = folder.vocabulary.mask, (c.mask_rate, c.poisson_lambda, c.permute_sentences)
        self._noise = Infilling(*options, mask)
        self.lengths = self._samples.lengths - 1
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, c, source.seed)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TranslationBatch:
        texts = self._samples.read_batch(ids % len(self))
        starts_word = self._vocabulary.masked_words.starts(texts.tokens)
        first = self._samples.spans.starts[ids % len(self), None]
        elements = first + np.arange(-1, texts.tokens.shape[1] - 1)  # [CLS] comes first
        items = np.searchsorted(self._item_starts, elements, side="right")
        starts_word[:, 1:] |= items[:, 1:] > items[:, :-1]
        starts_word[:, 1] = True
        rate = self._schedules.value("task.mask_rate", epoch, self._noise.rate)
        noise = self._noise._replace(rate=float(rate))
        now = int(epoch) if self._training and epoch is not None else None
        noised = []
        for row, kept in enumerate(texts.candidates):
            item = items[row, kept] - items[row, 1]
            draws = HashNoise(self._seed, now, ids[row : row + 1])
            noised.append(noise.apply(texts.tokens[row, kept], starts_word[row, kept], item, draws))
        source = TokenTexts(np.concatenate(noised), np.array([len(row) for row in noised]))
        target = TokenTexts(texts.tokens[texts.candidates], texts.candidates.sum(1))
        return self.pair(OBJECTIVE, ids, (source, target), (self._vocabulary, self._vocabulary))


@register_task("denoising", DenoisingConfig())
class Denoising(SourceTargetTask[DenoisingConfig, DenoisingExamples]):
    """-log p(x_t | x_1 .. x_{t-1}, x'), t over all tokens of a text and its end symbol.

    x' is the text with sentences in another order and spans of words replaced by single masks.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, default_tokens = DenoisingExamples, 512
