"""Masked language modeling (Devlin et al. 2019, section 3.1), and the masking that others share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import (
    LATER,
    Above,
    AtLeast,
    Below,
    Fraction,
    NonNegativeInt,
    Options,
    PositiveFloat,
    Size,
)
from toolkit.criteria import IGNORED, LazyPrediction, Prediction, project
from toolkit.data.loading.batching import BatchShape, compute_fingerprint
from toolkit.data.samples.electra_segments import SegmentedSamples
from toolkit.data.samples.masking import (
    SELECT,
    MaskedPositions,
    Masking,
    measure_text,
    round_budget,
)
from toolkit.data.samples.sequence_pairs import SentenceBatch, TextSamples
from toolkit.data.tokenizers.tokenizer import MASK, Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import TiedHead, build_token_head
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.nn.ops.linear import aligned_linear
from toolkit.tasks.embed import collate_texts
from toolkit.tasks.examples import B, Examples, SplitSource, TargetBatch, to_device
from toolkit.tasks.pretraining.adaptive import AdaptiveBatch, AdaptiveMasks
from toolkit.tasks.task import (
    C,
    E,
    EncoderFactory,
    Metric,
    TargetScores,
    Task,
    accuracy,
    encode_texts,
    score_targets,
)

OpenFraction = Annotated[float, Above(0), Below(1)]
MaskingStrategy = Literal["bernoulli", "exact", "whole_word", "frequency", "pmi", "span", "electra"]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(Options, section="task"):
    """Options of every task that masks tokens."""

    tokens_per_sample: Annotated[int, AtLeast(4)] = 128
    """Maximum number of tokens per sentence, special tokens included; longer ones are truncated."""
    sample_mode: Literal["pairs", "blocks", "documents"] = "pairs"
    """Unit of one sentence. pairs: two segments of whole items, see pair_mode; blocks: running
    text, across all boundaries; documents: the same within one document."""
    pair_mode: Literal["chang", "electra"] = "chang"
    """How sample_mode pairs forms two segments. chang: items 1-2, 3-4, ..., token types all 0;
    electra: items of a document packed to tokens_per_sample, sometimes to fewer, and split into two
    segments, sometimes one, with token types 0 and 1 (Clark et al. 2020, code)."""
    masking: MaskingStrategy = "bernoulli"
    """Which tokens are selected. bernoulli: each independently; exact: an exact fraction;
    whole_word: all subwords of a word; frequency: an exact fraction, rare tokens more often; pmi:
    collocations and other words; span: runs of words as in SpanBERT; electra: drawn with
    replacement, as for ELECTRA's generator."""
    mask_rate: OpenFraction = 0.15
    """Fraction of tokens to predict."""
    mask_token_rate: Fraction | None = None
    """Fraction of these replaced by [MASK]. Default 0.8, with electra 0.85."""
    random_token_rate: Fraction | None = None
    """Fraction of these replaced by a random token. Default 0.1, with electra 0."""
    span_max: Size = 3
    """Maximum number of words in a span."""
    span_p: OpenFraction = 0.2
    """Parameter of the geometric distribution of span lengths."""
    frequency_power: PositiveFloat = field(default=0.5, metadata=LATER)
    """masking frequency draws a token that occurs f times in the training text with weight f^-a;
    this is a (Lample and Conneau 2019)."""
    pmi_coverage: OpenFraction = field(default=0.5, metadata=LATER)
    """Share of the words of the training text that are in a collocation of masking pmi: those of 2
    to 5 words with the largest pointwise mutual information (Levine et al. 2021)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum("mask_token_rate and random_token_rate", self.replacement_rates)

    @property
    def replacement_rates(self) -> tuple[float, float]:
        """Fractions replaced by [MASK] and by a random token: as given, or the paper's."""
        masked, random = (0.85, 0.0) if self.masking == "electra" else (0.8, 0.1)
        return (
            masked if self.mask_token_rate is None else self.mask_token_rate,
            random if self.random_token_rate is None else self.random_token_rate,
        )


def check_sum(names: str, rates: tuple[float, float]) -> None:
    """Raise a ToolkitError if two rates exceed 1 together."""
    if sum(rates) > 1:
        raise ToolkitError(
            f"task.{names} must sum to at most 1, but are {rates[0]} and {rates[1]}."
        )


OBJECTIVE = "mlm"


class MaskedExamples(Examples[Any]):
    """The sentences of one split, with masked tokens; every epoch masks others."""

    scheduled: ClassVar[tuple[str, ...]] = ("task.mask_rate",)

    def __init__(self, config: MaskingConfig, source: SplitSource) -> None:
        folder, split = source.folder, source.folder.split(source.name)
        column = split.column("tokens")
        self.config, self.source, self.row_multiple = config, source, source.row_multiple
        mode, tokens = config.sample_mode, config.tokens_per_sample
        if mode == "pairs" and config.pair_mode == "electra":
            self._samples: TextSamples = SegmentedSamples(
                column, folder.vocabulary, tokens_per_sample=tokens
            )
        else:
            self._samples = TextSamples(
                column, folder.vocabulary, sample_mode=mode, tokens_per_sample=tokens
            )
        self.text = self._samples, folder, split
        self.lengths, self.remark = self._samples.lengths, self._samples.remark
        if not len(self.lengths):
            raise ToolkitError(
                f"Split {source.name!r} of {folder.name} has a single item, but --task.sample-mode "
                f"pairs requires two. Add --task.sample-mode blocks, or more text."
            )
        mask_token_rate, random_token_rate = config.replacement_rates
        options = (config.masking, config.frequency_power, config.pmi_coverage)
        self._masking = Masking(
            strategy=config.masking,
            vocabulary=folder.vocabulary,
            tokens_per_sample=tokens,
            rate=config.mask_rate,
            mask_token_rate=mask_token_rate,
            random_token_rate=random_token_rate,
            span_max=config.span_max,
            span_p=config.span_p,
            **(measure_text(column, folder.vocabulary, *options) if source.training else {}),
        )
        if self._samples.loses_much:
            made_with = [source.facts.get("made with", "") for source in folder.sources]
            whole = any("segment_by sentences" not in settings for settings in made_with)
            self.advice = " or ".join(
                ["--task.sample-mode blocks"] * (mode == "pairs")
                + ["a larger --task.tokens-per-sample"]
                + ["shorter items (toolkit-preprocess --segment-by sentences)"] * whole
            )
        self.fingerprint = compute_fingerprint(folder.fingerprint, source.name, config, source.seed)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> Any:
        sentences = self._samples.read_batch(ids % len(self))
        masking = replace(self._masking, rate=self.scheduled_value("mask_rate", epoch))
        tokens, masked = masking.apply(sentences, self.noise(ids, epoch))
        targets = sentences.tokens[masked.rows, masked.positions]
        return self.to_batch(OBJECTIVE, sentences, masked, targets, tokens=tokens)

    def to_batch(
        self,
        objective: str,
        sentences: SentenceBatch,
        masked: MaskedPositions,
        targets: IntArray,
        *,
        tokens: IntArray,
        positions: IntArray | None = None,
    ) -> TargetBatch:
        """The tokens and positions that the encoder reads, and the targets."""
        width = tokens.shape[1]
        padded = int(sentences.lengths.min()) < width
        padding = np.arange(width) >= sentences.lengths[:, None] if padded else None
        ids, segments, mask = (
            None if values is None else torch.from_numpy(values)
            for values in (positions, sentences.segments, padding)
        )
        return TargetBatch(
            inputs=Inputs(
                tokens=torch.from_numpy(tokens),
                positions=ids,
                segments=segments,
                padding=mask,
                max_position=None if positions is None else max(width - 1, int(positions.max())),
            ),
            selected=self.pad(masked.rows * width + masked.positions, 0),
            targets=self.pad(targets, IGNORED),
            weights={objective: float(len(targets))},
            sentences=len(sentences.lengths),
            tokens=int(sentences.lengths.sum()),
        )


class FillableMaskedExamples(MaskedExamples):
    """Sentences with masked tokens, whose micro-batches can all have one shape."""

    def fill(self, batch: TargetBatch, shape: BatchShape) -> TargetBatch:
        """Rows of filler up to the number of tokens, and empty ones up to that of rows.

        The number of predicted tokens has a mean of n = rate x tokens. Its places are n and six
        standard deviations of independent draws, sqrt(n (1 - rate)).
        """
        inputs, (sentences, width) = batch.inputs, batch.inputs.tokens.shape
        lengths = torch.zeros(shape.sentences, dtype=torch.int64)
        lengths[:sentences] = width
        if inputs.padding is not None:
            lengths[:sentences] -= inputs.padding.sum(1)
        whole, rest = divmod(shape.tokens - int(lengths.sum()), shape.length)
        lengths[sentences : sentences + whole] = shape.length
        if rest:
            lengths[sentences + whole] = rest
        pad = partial(F.pad, pad=(0, shape.length - width, 0, shape.sentences - sentences))
        schedule = self.source.schedules.schedules.get("task.mask_rate")
        rate = max(schedule.values) if schedule else self._masking.rate
        mean = rate * shape.tokens
        places = math.ceil(mean + 6 * math.sqrt(mean * (1 - rate)))
        missing = max(0, places + -places % self.row_multiple - len(batch.targets))
        rows, positions = batch.selected // width, batch.selected % width
        return batch._replace(
            inputs=inputs._replace(
                tokens=pad(inputs.tokens, value=self._masking.vocabulary.pad),
                segments=None if inputs.segments is None else pad(inputs.segments),
                padding=torch.arange(shape.length) >= lengths[:, None],
            ),
            selected=F.pad(rows * shape.length + positions, (0, missing)),
            targets=F.pad(batch.targets, (0, missing), value=IGNORED),
        )


SCORINGS = ("pseudo_log_likelihood", "within_word_left_to_right", "left_to_right")
"""Scores of sentences by encoders that predict masked tokens."""


class TokenTask(Task[C, E, B]):
    """A task with a head that predicts masked tokens; with `scorings` it scores sentences."""

    generation_mode = "fill-mask"
    encode_items = encode_texts
    shift: ClassVar[int] = 0
    """A token is predicted from the state of the position this far before it."""
    head: Any

    def token_head(self, encoder: EncoderModel) -> tuple[EncoderModel, TiedHead]:
        """The encoder and the head that predict masked tokens."""
        return encoder, self.head

    @torch.no_grad()
    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        """The `top` tokens of softmax(head) for each [MASK] of each sentence, in one batch."""
        encoder, head = self.token_head(encoder)
        device, vocabulary = encoder.token_embedding.weight.device, tokenizer.vocabulary
        encoded = [encode_masked(tokenizer, it, encoder.max_positions) for it in sentences]
        inputs = to_device(collate_texts(encoded, vocabulary.pad), device)
        width = inputs.tokens.shape[1]
        masks = [
            row * width + position - self.shift
            for row, ids in enumerate(encoded)
            for position, token in enumerate(ids)
            if token == vocabulary.mask
        ]
        selected = torch.tensor(masks, device=device)
        logits = predict_tokens(encoder, head, inputs, selected, aligned_linear)
        best = logits.float().softmax(-1).topk(min(top, logits.shape[-1]), dim=-1)
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        show, symbols = vocabulary.display_symbol, vocabulary.symbols
        predictions = ([(show(symbols[i]), p) for p, i in zip(*row, strict=True)] for row in rows)
        return [[next(predictions) for _ in range(it.count(vocabulary.mask))] for it in encoded]

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
        begins: Bool[Tensor, " v"] | None = None,
    ) -> TargetScores:
        """Of causal inputs, `selected` are the positions before the targets, as of all decoders."""
        before = selected if inputs.causal else selected - self.shift
        output = partial(score_targets, targets=targets, begins=begins)
        return predict_tokens(*self.token_head(encoder), inputs, before, output)


def encode_masked(tokenizer: Tokenizer, sentence: str, limit: int | None) -> list[int]:
    """[CLS] words [SEP]; special tokens spelled out in the sentence become their ids."""
    vocabulary = tokenizer.vocabulary
    ids = [vocabulary.cls, *tokenizer.encode_parsing_special(sentence), vocabulary.sep]
    if vocabulary.mask not in ids:
        raise ToolkitError(f"The sentence must contain {MASK}, but is {sentence!r}.")
    check_length(sentence, len(ids), limit)
    return ids


def check_length(sentence: str, tokens: int, limit: int | None) -> None:
    """Raise a ToolkitError if a sentence is longer than the model reads."""
    if limit is not None and tokens > limit:
        raise ToolkitError(
            f"The sentence must have at most {limit} tokens for this model, but has {tokens}: "
            f"{sentence[:60]!r}... Shorten it."
        )


def predict_tokens(
    encoder: EncoderModel,
    head: TiedHead,
    inputs: Inputs,
    selected: Int[Tensor, " N"],
    output: Callable[..., object],
) -> Any:
    """`output` of the head's states, table, bias and cap at the selected positions."""
    states = encoder.select_states(inputs, selected)  # (N, D)
    return head(states, encoder.token_embedding.weight, output)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(MaskingConfig):
    """Options of the task mlm."""

    adaptive_interval: NonNegativeInt = field(default=0, metadata=LATER)
    """Select tokens of each type more often the more of its predictions are wrong, measured every N
    updates (AMLM, Edman and Fraser 2025, with 200); 0: all types alike. Requires task.masking
    exact."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive_interval and self.masking != "exact":
            raise ToolkitError(
                f"task.adaptive_interval requires task.masking exact, which weighs tokens, but it "
                f"is {self.masking}. Pass --task.masking exact."
            )


class AdaptiveExamples(MaskedExamples):
    """Sentences for training whose tokens are selected by the accuracy of their types."""

    idle_values: ClassVar[Mapping[str, int]] = {"budget": 0}

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> AdaptiveBatch:
        sentences, noise = self._samples.read_batch(ids % len(self)), self.noise(ids, epoch)
        tokens, candidates = sentences.tokens, sentences.candidates
        rows, positions = np.nonzero(candidates)
        every = MaskedPositions(rows, positions, positions)
        unmasked = self.to_batch(OBJECTIVE, sentences, every, positions, tokens=tokens)
        draws = np.where(candidates, noise.grid(SELECT, candidates.shape[1]), 0.0)
        budget = round_budget(candidates.sum(1), self.scheduled_value("mask_rate", epoch))
        return AdaptiveBatch(
            inputs=unmasked.inputs,
            replaced=torch.from_numpy(self._masking.replace(tokens, every, noise)),
            draws=torch.from_numpy(draws.astype(np.float32)),
            budget=torch.from_numpy(budget),
            most=max(1, int(budget.max())),
            weights={OBJECTIVE: float(budget.sum())},
            sentences=len(ids),
            tokens=unmasked.tokens,
        )


@register_task("mlm", MaskedLanguageModelConfig())
class MaskedLanguageModel(
    TokenTask[MaskedLanguageModelConfig, FillableMaskedExamples, TargetBatch]
):
    """-log p(x_n | the rest), n over the selected positions."""

    coefficients: Mapping[str, float] = {"mlm": 1.0}
    examples_class, scorings = FillableMaskedExamples, SCORINGS
    adaptive: AdaptiveMasks | None

    def __init__(
        self, c: MaskedLanguageModelConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.head, self.adaptive = build_token_head(encoder), None
        if c.adaptive_interval:
            rows = encoder.token_embedding.num_embeddings
            self.adaptive = AdaptiveMasks(rows, c.adaptive_interval)

    @classmethod
    def examples(cls, config: MaskedLanguageModelConfig, source: SplitSource) -> Any:
        """Evaluation selects tokens of all types alike, always the same ones."""
        adapts = config.adaptive_interval and source.training
        return (AdaptiveExamples if adapts else cls.examples_class)(config, source)

    def on_update(self, update: int, sum_over_ranks: Callable[[Tensor], Tensor]) -> None:
        """Let masks follow the accuracy of an update."""
        if self.adaptive is not None:
            self.adaptive.on_update(update, sum_over_ranks)

    def on_discard(self) -> None:
        """Forget the predictions of a failed pass, or of a probe."""
        if self.adaptive is not None:
            self.adaptive.on_discard()

    def predict(
        self, encoder: EncoderModel, batch: TargetBatch | AdaptiveBatch
    ) -> dict[str, LazyPrediction]:
        if isinstance(batch, AdaptiveBatch):
            assert self.adaptive is not None, "the examples have the same options"
            predictions = self.predict(encoder, self.adaptive.select(batch))
            if self.training and torch.is_grad_enabled():  # not to measure FLOPs
                self.adaptive.observe(predictions["mlm"])
            return predictions
        output = partial(project, targets=batch.targets)
        return {"mlm": predict_tokens(encoder, self.head, batch.inputs, batch.selected, output)}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TargetBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token is correct."""
        return {"accuracy": accuracy(predictions["mlm"])}
