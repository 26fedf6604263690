"""Hybrid causal and masked-next-token training of one encoder (Charpentier and Samuel 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import Fraction
from toolkit.criteria import IGNORED, LazyPrediction, Prediction, project
from toolkit.data.samples.masking import MODE, MaskedPositions
from toolkit.models.heads import build_token_head
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.examples import TargetBatch
from toolkit.tasks.pretraining.mlm import (
    OBJECTIVE,
    SCORINGS,
    MaskedExamples,
    MaskingConfig,
    TokenTask,
    predict_tokens,
)
from toolkit.tasks.task import EncoderFactory, Metric, accuracy


@dataclass(frozen=True, kw_only=True)
class HybridConfig(MaskingConfig):
    """Options of the task hybrid."""

    causal_ratio: Fraction = 0.0625
    """Fraction of the sentences that are read from left to right, as by GPT; the tokens of the
    others are masked. It is also the weight of their loss. 0: masked-next-token prediction only; 1:
    a causal language model; 1@0,0@50%: one after the other."""


class HybridBatch(NamedTuple):
    """Masked sentences, and others to read from left to right."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of the positions before the selected ones into B x S; padding repeats 0."""
    targets: Int[Tensor, " N"]
    """Original tokens of the selected positions; IGNORED in padding rows."""
    causal: Inputs
    causal_selected: Int[Tensor, " M"]
    """The positions before each token of the text, as in `selected`."""
    causal_targets: Int[Tensor, " M"]
    weights: dict[str, float]
    sentences: int
    tokens: int


class HybridExamples(MaskedExamples):
    """The sentences of one split; every epoch reads others from left to right."""

    idle_values: ClassVar[Mapping[str, int]] = {"causal_targets": IGNORED}

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> HybridBatch:
        ratio = self.scheduled_value("causal_ratio", epoch)
        causal = self.noise(ids, epoch).grid(MODE, 1)[:, 0] < ratio
        kinds = (~causal, super().make_batch), (causal, self.read_causally)
        masked, left = (  # the encoder reads both kinds in every batch, on every rank
            make(ids[chosen], epoch) if chosen.any() else self.to_idle(make(ids[:1], epoch))
            for chosen, make in kinds
        )
        return HybridBatch(
            inputs=masked.inputs,
            selected=(masked.selected - 1).clamp(min=0),  # padding rows have 0
            targets=masked.targets,
            causal=left.inputs._replace(padding=None, causal=True),  # it comes last
            causal_selected=(left.selected - 1).clamp(min=0),
            causal_targets=left.targets,
            weights={"mntp": masked.weights[OBJECTIVE], "causal": left.weights[OBJECTIVE]},
            sentences=len(ids),
            tokens=masked.tokens + left.tokens,
        )

    def read_causally(self, ids: IntArray, epoch: int | float | None) -> TargetBatch:
        """Unchanged sentences with all tokens of the text as targets."""
        sentences = self._samples.read_batch(ids % len(self))
        rows, positions = np.nonzero(sentences.candidates)
        every, tokens = MaskedPositions(rows, positions, positions), sentences.tokens
        return self.to_batch(OBJECTIVE, sentences, every, tokens[rows, positions], tokens=tokens)


@register_task("hybrid", HybridConfig())
class Hybrid(TokenTask[HybridConfig, HybridExamples, HybridBatch]):
    """(1 - r) mean_n -log p(x_n | the rest) + r mean_t -log p(x_t | x_1 .. x_{t-1}), both predicted
    from the state of the position before: h_{n-1} and h_{t-1} (section 2).

    n runs over the selected positions of the masked sentences, t over all tokens of the others. One
    head predicts both. Special tokens are read, never predicted, as in the authors' code. There a
    share r of the ranks reads causally, and here each sentence with probability r.
    """

    examples_class, scorings = HybridExamples, (*SCORINGS, "log_likelihood")
    shift = 1

    def __init__(
        self, c: HybridConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        if not encoder.can_be_causal:
            raise ToolkitError(
                "Task hybrid requires an encoder that can read from left to right, but this one "
                "has convolutions or streams that look to the right. Choose --arch gpt_bert, bert, "
                "deberta, or composite_bert without arch.convolve and arch.depthwise."
            )
        self.head, self.causal_ratio = build_token_head(encoder), c.causal_ratio

    @property
    def coefficients(self) -> Mapping[str, float]:  # type: ignore[override]
        """The weights of both means, the larger one first."""
        both = {"mntp": 1 - self.causal_ratio, "causal": self.causal_ratio}
        return dict(sorted(both.items(), key=lambda it: -it[1]))

    def predict(self, encoder: EncoderModel, batch: HybridBatch) -> dict[str, LazyPrediction]:
        parts = {
            "mntp": (batch.inputs, batch.selected, batch.targets),
            "causal": (batch.causal, batch.causal_selected, batch.causal_targets),
        }
        return {
            name: predict_tokens(
                encoder, self.head, inputs, selected, partial(project, targets=targets)
            )
            for name, (inputs, selected, targets) in parts.items()
        }

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: HybridBatch
    ) -> Mapping[str, Metric]:
        """Fractions of the targets of both kinds, if any, whose most probable token is correct."""
        names = {"accuracy": "mntp", "causal_accuracy": "causal"}
        return {it: accuracy(predictions[o]) for it, o in names.items() if self.coefficients[o]}
