"""Masked language modeling (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jaxtyping import Int
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import LazyPrediction, Prediction, project
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import TokenHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.masked_examples import MaskedExamples
from toolkit.tasks.pretraining.masking_config import MaskingConfig
from toolkit.tasks.task import Metric, TargetScores, TextTask
from toolkit.tasks.token_metrics import accuracy, score_targets


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(MaskingConfig):
    """The options of masking."""


@register_task("mlm", MaskedLanguageModelConfig())
class MaskedLanguageModel(TextTask[MaskedLanguageModelConfig, MaskedExamples, MaskedBatch]):
    """-log p(x_n | the rest), n over the selected positions."""

    generation_mode = "fill-mask"
    scorings = ("pseudo_log_likelihood", "within_word_left_to_right")
    coefficients: Mapping[str, float] = {"mlm": 1.0}
    examples_class = MaskedExamples

    def __init__(
        self, c: MaskedLanguageModelConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.head = TokenHead(encoder)

    def predict(self, encoder: EncoderModel, batch: MaskedBatch) -> dict[str, LazyPrediction]:
        states = encoder.select_states(batch.inputs, batch.selected)  # (N, D)
        output = partial(project, targets=batch.targets)
        return {"mlm": self.head(states, encoder.token_embedding.weight, output)}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: MaskedBatch
    ) -> Mapping[str, Metric]:
        """Fraction of the selected positions whose most probable token is correct."""
        return {"accuracy": accuracy(predictions["mlm"])}

    def score_targets(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " N"],
        targets: Int[Tensor, " N"],
    ) -> TargetScores:
        states = encoder.select_states(inputs, selected)  # (N, D)
        output = partial(score_targets, targets=targets)
        found: TargetScores = self.head(states, encoder.token_embedding.weight, output)
        return found

    def fill_mask(
        self, encoder: EncoderModel, tokenizer: Tokenizer, sentences: Sequence[str], top: int
    ) -> list[list[MaskPrediction]]:
        return fill_mask(self.head, encoder, tokenizer, sentences, top)
