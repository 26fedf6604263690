"""Multiple choice: RACE (Lai et al. 2017), SWAG (Zellers et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import MaskedClasses, Prediction
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.heads import OptionHead, build_features, build_pooler
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.multiple_choice.examples import (
    NO_OPTION,
    OBJECTIVE,
    MultipleChoiceBatch,
    MultipleChoiceConfig,
    MultipleChoiceExamples,
)
from toolkit.tasks.multiple_choice.predictions import (
    MultipleChoicePredictor,
    MultipleChoiceResults,
)
from toolkit.tasks.task import EncoderFactory, Task

IMPOSSIBLE = -1e4
"""Score of an option that a question does not have; representable in every precision."""


@register_task("multiple_choice", MultipleChoiceConfig())
class MultipleChoice(Task[MultipleChoiceConfig, MultipleChoiceExamples, MultipleChoiceBatch]):
    """-log p(option), p a softmax over w . x_o + b, x_o the [CLS] state of passage and option o.

    (Devlin et al. 2019, section 4.4.) x is pooled or plain, as in the task glue.
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, results_class = MultipleChoiceExamples, MultipleChoiceResults
    default_tokens = 512

    def __init__(
        self, c: MultipleChoiceConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        self.config = c
        self.features = build_features(encoder, layer_mixing=c.layer_mixing)
        self.pooler = build_pooler(c.head, encoder.width)
        self.head = OptionHead(encoder.width, c.head_dropout)

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """The score of each option, by the state of its row's first token."""
        return self.head(self.pooler(self.features.select(encoder, inputs, selected)))

    def predict(self, encoder: EncoderModel, batch: MultipleChoiceBatch) -> dict[str, Prediction]:
        scores = self.scores(encoder, batch.inputs, batch.selected)
        options = scores[batch.option_rows.clamp(min=0)]  # (B) -> (N, O)
        options = options.masked_fill(batch.option_rows == NO_OPTION, IMPOSSIBLE)
        return {OBJECTIVE: MaskedClasses(options, batch.targets)}

    def predictor(self, encoder: EncoderModel, tokenizer: Tokenizer) -> MultipleChoicePredictor:
        return MultipleChoicePredictor(self.resolve_for(self.config, encoder), tokenizer)
