"""Sentences with hidden tokens: what masked language modeling and its relatives learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.config.sections import require
from toolkit.criteria import IGNORED
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.samples.electra_segments import SegmentedSamples
from toolkit.data.samples.masking import MASKING_STRATEGIES, HashNoise, MaskedPositions, Masking
from toolkit.data.samples.text_samples import SAMPLE_MODES, SentenceBatch, TextSamples
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.shape_padding import pad_to_multiple

OBJECTIVE = "mlm"
PAIR_MODES = ("chang", "electra")

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    tokens_per_sample: int = 128
    """Most tokens of one sentence, special symbols included; longer ones lose their tail."""
    sample_mode: str = "pairs"
    """What makes one sentence. pairs: two segments of whole items, as pairs says. blocks: a
    piece of the running text, whatever it cuts. documents: as blocks, but never across two
    documents."""
    pair_mode: str = "chang"
    """How samples pairs makes two segments of items. chang: items 1-2, 3-4, ...; token types all 0.
    electra: items of a document gathered to tokens_per_sample, now and then to fewer, and dealt
    out to two segments, now and then to one; token types 0 and 1 (Clark et al. 2020, code)."""
    masking: str = "bernoulli"
    """Which tokens are hidden. bernoulli: each on its own; exact: an exact share; whole_word:
    all pieces of a word; span: SpanBERT's runs of words; electra: as ELECTRA's generator."""
    mask_rate: float = 0.15
    """Share of tokens to predict, 0 to 1."""
    mask_token_rate: float | None = None
    """Share of these that is shown as [MASK]. By default 0.8, with electra 0.85."""
    random_token_rate: float | None = None
    """Share of these that is shown as a random token. By default 0.1, with electra 0."""
    span_max: int = 3
    """Longest run of words that span masking hides at a time."""
    span_p: float = 0.2
    """Parameter of the geometric law of these runs' lengths."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample > 3,
            f"task.tokens_per_sample must be at least 4, but is {self.tokens_per_sample}.",
        )
        for name, known in (
            ("sample_mode", SAMPLE_MODES),
            ("pair_mode", PAIR_MODES),
            ("masking", MASKING_STRATEGIES),
        ):
            value = getattr(self, name)
            require(
                value in known,
                f"task.{name} must be one of {', '.join(known)}, but is {value!r}.",
            )
        require(
            self.pair_mode == "chang" or self.sample_mode == "pairs",
            f"task.pair_mode {self.pair_mode} must come with task.sample_mode pairs, but that is "
            f"{self.sample_mode}. Leave one of them out.",
        )
        require(
            0 < self.mask_rate < 1,
            f"task.mask_rate must lie between 0 and 1, but is {self.mask_rate}.",
        )
        shown = self.replacement_rates
        require(
            min(shown) >= 0 and sum(shown) <= 1,
            f"task.mask_token_rate and random_token_rate must be shares that sum to at most 1, "
            f"but are {shown[0]} and {shown[1]}.",
        )
        require(self.span_max > 0, f"task.span_max must be at least 1, but is {self.span_max}.")
        require(0 < self.span_p < 1, f"task.span_p must lie between 0 and 1, but is {self.span_p}.")

    @property
    def replacement_rates(self) -> tuple[float, float]:
        """Shares shown as [MASK] and as a random token: as given, or as the law's paper has it."""
        hidden, random = (0.85, 0.0) if self.masking == "electra" else (0.8, 0.1)
        return (
            hidden if self.mask_token_rate is None else self.mask_token_rate,
            random if self.random_token_rate is None else self.random_token_rate,
        )


class MaskingExamples:
    """The sentences of one split; every collation hides some of their tokens anew."""

    def __init__(
        self,
        config: MaskingConfig,
        folder: DataFolder,
        split: str,
        *,
        seed: int,
        training: bool,
        fixed_shapes: bool,
    ) -> None:
        self._seed, self._training, self._fixed_shapes = seed, training, fixed_shapes
        self._samples = make_samples(
            config, folder.split(split).column("tokens"), folder.vocabulary
        )
        self._masking = make_masking(config, folder.vocabulary)
        self.lengths, self.remark = self._samples.lengths, self._samples.remark
        self.fingerprint = compute_fingerprint(folder.fingerprint, split, config, seed)

    def mask_tokens(self, ids: Numbers, epoch: int | None) -> MaskedBatch:
        """The sentences with hidden tokens, which are to be found."""
        sentences, noise = self.draw(ids, epoch)
        shown, chosen = self._masking.apply(sentences, noise)
        targets = sentences.tokens[chosen.rows, chosen.positions]
        return self.to_batch(OBJECTIVE, sentences, chosen, targets, tokens=shown)

    def draw(self, ids: Numbers, epoch: int | None) -> tuple[SentenceBatch, HashNoise]:
        """The sentences, and what chance has for each of them."""
        noise = HashNoise(self._seed, epoch if self._training else None, ids)
        return self._samples.read_batch(ids % len(self.lengths)), noise  # copies have other masks

    def to_batch(
        self,
        objective: str,
        sentences: SentenceBatch,
        chosen: MaskedPositions,
        targets: Numbers,
        *,
        tokens: Numbers,
        positions: Numbers | None = None,
    ) -> MaskedBatch:
        """What is shown of the sentences, and what is asked at the chosen places."""
        width = tokens.shape[1]
        padded = int(sentences.lengths.min()) < width
        padding = np.arange(width) >= sentences.lengths[:, None] if padded else None
        return MaskedBatch(
            inputs=Inputs(
                tokens=torch.from_numpy(tokens),
                positions=_tensor(positions),
                segments=_tensor(sentences.segments),
                padding=_tensor(padding),
            ),
            selected=pad_to_multiple(chosen.rows * width + chosen.positions, 0, self._fixed_shapes),
            targets=pad_to_multiple(targets, IGNORED, self._fixed_shapes),
            weights={objective: float(len(targets))},
            sentences=len(sentences.lengths),
            tokens=int(sentences.lengths.sum()),
        )


class MaskedExamples(MaskingExamples):
    """Sentences with hidden tokens, for tasks that ask for nothing else."""

    def collate(self, ids: Numbers, epoch: int | None) -> MaskedBatch:
        """The sentences with hidden tokens; without ids an idle rank's batch of weight zero."""
        if len(ids) == 0:
            return to_idle(self.mask_tokens(np.zeros(1, np.int64), None))
        return self.mask_tokens(ids, epoch)


def to_idle(batch: MaskedBatch) -> MaskedBatch:
    nothing = torch.full_like(batch.targets, IGNORED)
    weights = dict.fromkeys(batch.weights, 0.0)
    return batch._replace(targets=nothing, weights=weights, sentences=0, tokens=0)


def make_samples(
    config: MaskingConfig, column: Column, vocabulary: Vocabulary
) -> TextSamples | SegmentedSamples:
    """The sentences that the config asks for."""
    longest = config.tokens_per_sample
    if config.pair_mode == "electra":
        return SegmentedSamples(column, vocabulary, tokens_per_sample=longest)
    return TextSamples(
        column, vocabulary, sample_mode=config.sample_mode, tokens_per_sample=longest
    )


def _tensor(values: npt.NDArray[Any] | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)


def make_masking(config: MaskingConfig, vocabulary: Vocabulary) -> Masking:
    """The law that the config names."""
    hidden, random = config.replacement_rates
    return Masking(
        strategy=config.masking,
        vocabulary=vocabulary,
        tokens_per_sample=config.tokens_per_sample,
        rate=config.mask_rate,
        mask_token_rate=hidden,
        random_token_rate=random,
        span_max=config.span_max,
        span_p=config.span_p,
    )
