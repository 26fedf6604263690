"""Sentences with masked tokens, shared by the pretraining tasks."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.electra_segments import SegmentedSamples
from toolkit.data.samples.masking import HashNoise, MaskedPositions, Masking
from toolkit.data.samples.text_samples import SentenceBatch, TextSamples
from toolkit.data.storage.columns import Column
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import Batch, MaskedBatch
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.pretraining.masking_config import MaskingConfig

OBJECTIVE = "mlm"
B = TypeVar("B", bound=Batch)


class MaskingExamples(Examples[B]):
    """The sentences of one split; every epoch masks other tokens."""

    def __init__(self, config: MaskingConfig, source: SplitSource) -> None:
        folder, column = source.folder, source.folder.split(source.name).column("tokens")
        self._seed, self._training = source.seed, source.training
        self.row_multiple = source.row_multiple
        self._samples = make_samples(config, column, folder.vocabulary)
        self._masking = make_masking(config, folder.vocabulary)
        self.lengths, self.remark = self._samples.lengths, self._samples.remark
        self.advice = self._samples.advice
        if not len(self.lengths):
            raise ToolkitError(
                f"Split {source.name!r} of {folder.name} has a single item, but --task.sample-mode "
                f"pairs requires two. Add --task.sample-mode blocks, or more text."
            )
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, config, source.seed)

    def mask_tokens(self, ids: IntArray, epoch: int | None) -> MaskedBatch:
        """Sentences with masked tokens; the targets are the original ones."""
        sentences = self.read_sentences(ids)
        tokens, masked = self._masking.apply(sentences, self.noise(ids, epoch))
        targets = sentences.tokens[masked.rows, masked.positions]
        return self.to_batch(OBJECTIVE, sentences, masked, targets, tokens=tokens)

    def read_sentences(self, ids: IntArray) -> SentenceBatch:
        return self._samples.read_batch(ids % len(self))

    def noise(self, ids: IntArray, epoch: int | None) -> HashNoise:
        """Random numbers per sentence; those of copies differ."""
        return HashNoise(self._seed, epoch if self._training else None, ids)

    def to_batch(
        self,
        objective: str,
        sentences: SentenceBatch,
        masked: MaskedPositions,
        targets: IntArray,
        *,
        tokens: IntArray,
        positions: IntArray | None = None,
    ) -> MaskedBatch:
        """The tokens and positions that the encoder reads, and the targets."""
        width = tokens.shape[1]
        padded = int(sentences.lengths.min()) < width
        padding = np.arange(width) >= sentences.lengths[:, None] if padded else None
        return MaskedBatch(
            inputs=Inputs(
                tokens=torch.from_numpy(tokens),
                positions=_to_tensor(positions),
                segments=_to_tensor(sentences.segments),
                padding=_to_tensor(padding),
                max_position=None if positions is None else max(width - 1, int(positions.max())),
            ),
            selected=self.pad(masked.rows * width + masked.positions, 0),
            targets=self.pad(targets, IGNORED),
            weights={objective: float(len(targets))},
            sentences=len(sentences.lengths),
            tokens=int(sentences.lengths.sum()),
        )


class MaskedExamples(MaskingExamples[MaskedBatch]):
    """Sentences with masked tokens, for tasks with no other objective."""

    def make_batch(self, ids: IntArray, epoch: int | None) -> MaskedBatch:
        return self.mask_tokens(ids, epoch)


def make_samples(
    config: MaskingConfig, column: Column, vocabulary: Vocabulary
) -> TextSamples | SegmentedSamples:
    """The samples of a split: segment pairs or running text, as the options choose."""
    tokens = config.tokens_per_sample
    if config.sample_mode == "pairs" and config.pair_mode == "electra":
        return SegmentedSamples(column, vocabulary, tokens_per_sample=tokens)
    return TextSamples(column, vocabulary, sample_mode=config.sample_mode, tokens_per_sample=tokens)


def make_masking(config: MaskingConfig, vocabulary: Vocabulary) -> Masking:
    """The masking that the options describe."""
    mask_token_rate, random_token_rate = config.replacement_rates
    return Masking(
        strategy=config.masking,
        vocabulary=vocabulary,
        tokens_per_sample=config.tokens_per_sample,
        rate=config.mask_rate,
        mask_token_rate=mask_token_rate,
        random_token_rate=random_token_rate,
        span_max=config.span_max,
        span_p=config.span_p,
    )


def _to_tensor(values: npt.NDArray[Any] | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)
