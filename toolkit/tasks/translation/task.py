"""Translation (Sutskever et al. 2014; Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.common.registry import register_task
from toolkit.criteria import LazyPrediction, Prediction, project
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import EncoderModel
from toolkit.tasks.capabilities import check_generative
from toolkit.tasks.task import EncoderFactory, Metric, Task, token_metrics
from toolkit.tasks.translation.examples import (
    OBJECTIVE,
    TranslationBatch,
    TranslationConfig,
    TranslationExamples,
)
from toolkit.tasks.translation.predictions import TranslationResults


@register_task("translation", TranslationConfig())
class Translation(Task[TranslationConfig, TranslationExamples, TranslationBatch]):
    """-log p(y_t | y_1 .. y_{t-1}, x), t over the positions of the target and its end symbol.

    The decoder's first input is the end symbol.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    collects_in_training = True
    is_generative = True
    generation_mode = "translate"
    examples_class = TranslationExamples
    default_tokens = 0

    def __init__(
        self, c: TranslationConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()
        check_generative(encoder, "translation", decoder_only=False)
        self.config = c

    def special_tokens(self, vocabulary: Vocabulary) -> tuple[Sequence[int], Sequence[int]]:
        """The end symbol follows a source sentence."""
        return (), (vocabulary.sep,)

    def predict(self, encoder: EncoderModel, batch: TranslationBatch) -> dict[str, LazyPrediction]:
        assert isinstance(encoder, GenerativeModel), "checked when the task is built"
        states = encoder.decode(
            batch.previous, encoder(batch.inputs), batch.inputs.padding, selected=batch.selected
        )[0]  # (N, D)
        table = encoder.output_embedding.weight
        return {OBJECTIVE: project(states, table, None, batch.targets)}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TranslationBatch
    ) -> Mapping[str, Metric]:
        """nll and ppl without label smoothing; accuracy."""
        return token_metrics(predictions[OBJECTIVE])

    def results(self, examples: TranslationExamples) -> TranslationResults | None:
        beam = self.config.validation_beam
        return TranslationResults(examples, beam) if beam else None
