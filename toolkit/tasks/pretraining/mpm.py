"""Masked position modeling together with masked language modeling (TACO, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import ADVANCED, OF_MODEL, Fraction, PositiveInt, Size
from toolkit.criteria import IGNORED, Classes, LazyPrediction, Prediction, project
from toolkit.data.samples.position_masking import PositionMasking
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead, TokenHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.capabilities import wrong_training_error
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.mlm import (
    MaskingConfig,
    MaskingExamples,
    MaskingStrategy,
    OpenFraction,
    TokenScores,
    check_sum,
)
from toolkit.tasks.pretraining.predictions import order_words
from toolkit.tasks.task import (
    EncoderFactory,
    Metric,
    accuracy,
)

OBJECTIVES = ("mlm", "mpm")


@dataclass(frozen=True, kw_only=True)
class MaskedPositionConfig(MaskingConfig):
    """Options of the task mpm."""

    masking: MaskingStrategy = "span"
    """Which tokens are selected. span: runs of words as in SpanBERT and TACO; bernoulli: each
    independently; exact: an exact fraction; whole_word: all subwords of a word; electra: drawn with
    replacement, as for ELECTRA's generator."""
    objectives: str = field(default="mlm,mpm", metadata=OF_MODEL)
    """Objectives, separated by commas. mlm: masked tokens; mpm: masked positions."""
    position_rate: OpenFraction = 0.15
    """Fraction of positions to predict."""
    position_span_max: Size = 6
    """Maximum number of positions in a span."""
    position_span_p: OpenFraction = 0.2
    """Parameter of the geometric distribution of these spans' lengths."""
    hidden_position_rate: Fraction = 0.8
    """Fraction of the spans whose positions are hidden."""
    shuffled_position_rate: Fraction = 0.1
    """Fraction of the spans whose positions are shuffled; the rest remain."""
    position_range: Literal["sentence", "full_table"] = field(default="sentence", metadata=ADVANCED)
    """Range of the new position of a shuffled span of one. sentence: the positions of the sentence;
    full_table: 0 to max_position, as in the paper, beyond the end of most sentences."""
    max_position: PositiveInt = field(default=511, metadata=ADVANCED)
    """Highest position that position_range full_table draws; the architecture must have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.objective_names or set(self.objective_names) - set(OBJECTIVES):
            raise ToolkitError(
                f"task.objectives must be mlm, mpm or mlm,mpm, but is {self.objectives!r}."
            )
        rates = (self.hidden_position_rate, self.shuffled_position_rate)
        check_sum("hidden_position_rate and shuffled_position_rate", rates)

    @property
    def position_count(self) -> int:
        """Number of positions that can be predicted, for encoders without a table of them."""
        return (
            self.max_position + 1 if self.position_range == "full_table" else self.tokens_per_sample
        )

    @property
    def objective_names(self) -> list[str]:
        return [name.strip() for name in self.objectives.split(",") if name.strip()]


class MaskedPositionsBatch(NamedTuple):
    """Sentences with masked tokens, then the same with masked positions: one pass for both."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the selected positions of the first half, then of the second half."""
    token_targets: Int[Tensor, " M"]
    """Original tokens of the first; IGNORED in padding rows."""
    position_targets: Int[Tensor, " P"]
    """Original positions of the second; IGNORED in padding rows."""
    weights: dict[str, float]
    sentences: int
    tokens: int


class MaskedPositionExamples(MaskingExamples[MaskedPositionsBatch]):
    """The sentences of one split; every epoch masks other tokens and positions."""

    idle_values: ClassVar[Mapping[str, int]] = {
        "token_targets": IGNORED,
        "position_targets": IGNORED,
    }

    def __init__(self, config: MaskedPositionConfig, source: SplitSource) -> None:
        super().__init__(config, source)
        self._objectives = config.objective_names
        self._positions = PositionMasking(
            tokens_per_sample=config.tokens_per_sample,
            rate=config.position_rate,
            span_max=config.position_span_max,
            span_p=config.position_span_p,
            hidden_rate=config.hidden_position_rate,
            shuffled_rate=config.shuffled_position_rate,
            random_below=config.max_position + 1 if config.position_range == "full_table" else None,
        )

    def make_batch(self, ids: IntArray, epoch: int | None) -> MaskedPositionsBatch:
        make = {"mlm": self.mask_tokens, "mpm": self.mask_positions}
        return concatenate_halves({name: make[name](ids, epoch) for name in self._objectives})

    def mask_positions(self, ids: IntArray, epoch: int | None) -> MaskedBatch:
        """Sentences with masked positions; the targets are the original ones."""
        sentences = self.read_sentences(ids)
        positions, masked = self._positions.apply(sentences, self.noise(ids, epoch))
        targets, tokens = masked.positions, sentences.tokens
        return self.to_batch("mpm", sentences, masked, targets, tokens=tokens, positions=positions)


def concatenate_halves(halves: dict[str, MaskedBatch]) -> MaskedPositionsBatch:
    """One batch of both halves, or of the only one; masked tokens keep their positions."""
    empty = torch.zeros(0, dtype=torch.long)
    tokens, positions = halves.get("mlm"), halves.get("mpm")
    first, *_ = halves.values()
    inputs, selected = first.inputs, first.selected
    if tokens and positions:
        inputs = concatenate_inputs(tokens.inputs, positions.inputs)
        selected = torch.cat([tokens.selected, positions.selected + tokens.inputs.tokens.numel()])
    return MaskedPositionsBatch(
        inputs=inputs,
        selected=selected,
        token_targets=tokens.targets if tokens else empty,
        position_targets=positions.targets if positions else empty,
        weights={name: half.weights[name] for name, half in halves.items()},
        sentences=first.sentences,
        tokens=sum(half.tokens for half in halves.values()),
    )


def concatenate_inputs(first: Inputs, second: Inputs) -> Inputs:
    """Two batches of the same sentences as one."""
    assert second.positions is not None, "the second half has masked positions"
    in_order = torch.arange(first.tokens.shape[1]).expand_as(first.tokens)
    padding, segments = first.padding, first.segments
    return Inputs(
        tokens=torch.cat([first.tokens, second.tokens]),
        positions=torch.cat([in_order, second.positions]),
        segments=None if segments is None else torch.cat([segments, segments]),
        padding=None if padding is None else torch.cat([padding, padding]),
        max_position=second.max_position,
    )


@register_task("mpm", MaskedPositionConfig())
class MaskedPositionModel(
    TokenScores[MaskedPositionConfig, MaskedPositionExamples, MaskedPositionsBatch]
):
    """-log p(x_i | masked x, all p) - log p(p_j | all x, masked p) (TACO, eq. 3 and 4).

    i over the selected tokens of one copy of a sentence, j over the selected positions of another;
    each term is averaged over its own positions.
    """

    examples_class = MaskedPositionExamples

    def __init__(
        self, c: MaskedPositionConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.coefficients = dict.fromkeys(c.objective_names, 1.0)
        if "mlm" in self.coefficients:
            self.head = TokenHead(encoder)
        if "mpm" in self.coefficients:
            check_position_ids(encoder)
            rows = encoder.max_positions
            if c.position_range == "full_table" and rows and c.max_position >= rows:
                raise ToolkitError(
                    f"task.max_position must be below arch.max_positions, but is "
                    f"{c.max_position} and the table has {rows} rows. Set --task.max-position "
                    f"{rows - 1}."
                )
            self.position_head = PositionHead(encoder, c.position_count)

    def predict(
        self, encoder: EncoderModel, batch: MaskedPositionsBatch
    ) -> dict[str, LazyPrediction]:
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        tokens = len(batch.token_targets)
        predictions: dict[str, LazyPrediction] = {}
        if "mlm" in self.coefficients:
            words, output = states[:tokens], partial(project, targets=batch.token_targets)
            predictions["mlm"] = self.head(words, encoder.token_embedding.weight, output)
        if "mpm" in self.coefficients:
            logits = self.position_head.scores(encoder, states[tokens:])
            predictions["mpm"] = Classes(logits, batch.position_targets)
        return predictions

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: MaskedPositionsBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token or position is correct."""
        return {f"{name}_accuracy": accuracy(p) for name, p in predictions.items()}

    def token_head(self, encoder: EncoderModel) -> tuple[EncoderModel, TokenHead]:
        self.check_objective("mlm", "Predicting tokens")
        return encoder, self.head

    def order_words(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
    ) -> tuple[str, list[MaskPrediction]]:
        self.check_objective("mpm", "Ordering words")
        return order_words(self.position_head, encoder, tokenizer, sentence, top)

    def check_objective(self, name: str, what: str) -> None:
        if name not in self.coefficients:
            given = ", ".join(self.coefficients)
            raise wrong_training_error(what, "--task.objectives mlm,mpm", given)


def check_position_ids(encoder: EncoderModel) -> None:
    """An encoder must see positions only through ids; a table must have a row for hidden ones."""
    if not encoder.takes_positions:
        raise ToolkitError(
            "Task mpm requires an encoder that sees positions only through position ids, but "
            "this one also has convolutions, or no positions at all. Choose --arch taco, or bert "
            "with --arch.positions rope or another term."
        )
    if encoder.position_embedding is None and encoder.max_positions is not None:
        raise ToolkitError(
            "Task mpm requires a row for hidden positions in the table of positions, but this one "
            "has none. Set --arch.hidden-position-embedding true."
        )
