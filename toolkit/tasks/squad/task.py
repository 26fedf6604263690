"""Extractive question answering: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import MaskedClasses, Prediction
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.heads import SpanHead, build_features
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.squad.examples import END, START, SquadBatch, SquadConfig, SquadExamples
from toolkit.tasks.squad.predictions import SquadPredictor, SquadResults
from toolkit.tasks.task import EncoderFactory, Task

IMPOSSIBLE = -1e4
"""Score of a position where no answer starts or ends; representable in every precision."""


@register_task("squad", SquadConfig())
class Squad(Task[SquadConfig, SquadExamples, SquadBatch]):
    """-(log p(start) + log p(end)) / 2, each p a softmax over positions (Devlin et al. 2019, 4.2).

    For unanswerable questions and windows without the answer, both positions are [CLS] (4.3).
    Unlike in BERT, but as in ELECTRA's code, positions of the question have probability zero.
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {START: 0.5, END: 0.5}
    examples_class = SquadExamples
    default_tokens = 384
    null_threshold: Tensor
    """Tuned on split valid and saved with the checkpoint."""

    def __init__(self, c: SquadConfig, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        super().__init__()
        self.config = c
        self.features = build_features(encoder, layer_mixing=c.layer_mixing)
        self.head = SpanHead(encoder.width)
        self.register_buffer("null_threshold", torch.zeros(()))

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, allowed: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "2 B S"]:
        """Scores of each position as the start and as the end of the answer."""
        scores = self.head(self.features(encoder, inputs))  # (B, S, D) -> (B, S, 2)
        return scores.masked_fill(~allowed[..., None], IMPOSSIBLE).movedim(-1, 0).contiguous()

    def predict(self, encoder: EncoderModel, batch: SquadBatch) -> dict[str, Prediction]:
        start, end = self.scores(encoder, batch.inputs, batch.allowed)
        return {START: MaskedClasses(start, batch.starts), END: MaskedClasses(end, batch.ends)}

    def results(self, examples: SquadExamples) -> SquadResults:
        return SquadResults(examples, self.null_threshold)

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> SquadPredictor:
        config = self.resolve_for(self.config, encoder)
        return SquadPredictor(config, tokenizer, self.null_threshold)
