"""Extractive question answering: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import MaskedClasses, Prediction
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.heads import SpanHead, build_features
from toolkit.models.interface import EncoderModel
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.squad.config import SquadConfig
from toolkit.tasks.squad.examples import END, START, SquadBatch, SquadExamples
from toolkit.tasks.squad.predictions import SquadCollector
from toolkit.tasks.squad.predictor import SquadPredictor
from toolkit.tasks.task import Task

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

    def predict(self, encoder: EncoderModel, batch: SquadBatch) -> dict[str, Prediction]:
        scores = self.head(self.features(encoder, batch.inputs))  # (B, S, D) -> (B, S, 2)
        scores = scores.masked_fill(~batch.allowed[..., None], IMPOSSIBLE)
        start, end = scores.movedim(-1, 0).contiguous()  # (B, S, 2) -> (2, B, S)
        return {START: MaskedClasses(start, batch.starts), END: MaskedClasses(end, batch.ends)}

    def collector(self, examples: SquadExamples) -> SquadCollector:
        return SquadCollector(examples, self.null_threshold)

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> SquadPredictor:
        config = self.resolve_for(self.config, encoder)
        return SquadPredictor(config, tokenizer, self.null_threshold)
