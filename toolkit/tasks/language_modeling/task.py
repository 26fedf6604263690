"""Language modeling: predict each token from the previous ones (Bengio et al. 2003)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import LazyPrediction, Prediction, project
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.capabilities import check_generative
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.language_modeling.config import LanguageModelingConfig
from toolkit.tasks.language_modeling.examples import OBJECTIVE, BlockBatch, BlockExamples
from toolkit.tasks.task import Metric, Perplexity, TargetScores, TextTask
from toolkit.tasks.token_metrics import (
    negative_log_likelihood,
    score_targets,
    token_metrics,
)


@register_task("language_modeling", LanguageModelingConfig())
class LanguageModeling(TextTask[LanguageModelingConfig, BlockExamples, BlockBatch]):
    """-log p(w_t | w_1 .. w_{t-1}), t over all positions of a text, end symbols included."""

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    is_generative = True
    generation_mode = "continue"
    scorings = ("log_likelihood",)
    examples_class = BlockExamples
    default_tokens = 512

    def __init__(
        self, c: LanguageModelingConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        check_generative(encoder, "language_modeling", decoder_only=True)

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """The end symbol starts a text."""
        return (vocabulary.sep,), ()

    def predict(self, encoder: EncoderModel, batch: BlockBatch) -> dict[str, LazyPrediction]:
        assert isinstance(encoder, GenerativeModel), "checked when the task is built"
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        table = encoder.output_embedding.weight
        return {OBJECTIVE: project(states, table, None, batch.targets)}

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
    ) -> TargetScores:
        assert isinstance(encoder, GenerativeModel), "checked when the task is built"
        states = encoder.select_states(inputs, selected)  # (N, D)
        return score_targets(states, encoder.output_embedding.weight, None, targets)

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: BlockBatch
    ) -> Mapping[str, Metric]:
        """nll and ppl per token, without label smoothing; accuracy; word_ppl.

        word_ppl = exp(summed nll / words) is comparable between vocabularies: words are those of
        the text, end symbols included.
        """
        prediction = predictions[OBJECTIVE]
        words = torch.tensor(batch.word_count)
        word_ppl = Perplexity(negative_log_likelihood(prediction), words)
        return {**token_metrics(prediction), "word_ppl": word_ppl}
