"""Translation: a sentence from another (Sutskever et al. 2014; Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.common.registry import register_task
from toolkit.config.sections import check_choice, require
from toolkit.criteria import Classes, Prediction
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.loading.examples import Examples
from toolkit.models.interface import Sizes
from toolkit.tasks.capabilities import check_generative, resolve_max_tokens
from toolkit.tasks.task import Metric, Task
from toolkit.tasks.token_metrics import token_metrics
from toolkit.tasks.translation.examples import OBJECTIVE, TranslationBatch, TranslationExamples
from toolkit.tasks.translation.predictions import TranslationCollector

OVERLENGTH_MODES = ("error", "skip", "truncate")


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    tokens_per_sample: int = 0
    """Most tokens of a sentence on either side, its end symbol included; 0 for as many as the
    architecture takes."""
    overlength: str = "error"
    """What becomes of a pair with more. error: the run ends. skip: it is left out of training, and
    cut where it is validated, since every pair counts there. truncate: its tail is cut off."""
    validation_beam: int = 1
    """Hypotheses that are followed while the validation text is translated for BLEU and chrF; 1
    takes the most probable symbol at each place, 0 translates nothing."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 1,
            f"task.tokens_per_sample must be at least 2, or 0 for the architecture's own, but is "
            f"{self.tokens_per_sample}.",
        )
        check_choice("task.overlength", self.overlength, OVERLENGTH_MODES)
        require(
            self.validation_beam >= 0,
            f"task.validation_beam must not be negative, but is {self.validation_beam}.",
        )


@register_task("translation", TranslationConfig())
class Translation(Task):
    """-log p(y_t | y_1 .. y_{t-1}, x), t over the places of the target and its end.

    A sentence ends with the end symbol, and what is written begins behind one.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    collects_in_training = True
    is_generative = True

    def __init__(self, c: TranslationConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()
        check_generative(encoder, "translation", decoder_only=False)
        self.config = c

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        return replace(config, tokens_per_sample=resolve_max_tokens(config.tokens_per_sample, arch))

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return TranslationExamples(
            ParallelSplit(folder, split),
            tokens_per_sample=config.tokens_per_sample,
            overlength=config.overlength,
            training=training,
            fixed_shapes=fixed_shapes,
        )

    def predict(self, encoder: Any, batch: TranslationBatch) -> dict[str, Prediction]:
        states = encoder(batch.inputs, batch.previous, batch.selected)[0]  # (N, D)
        return {OBJECTIVE: Classes(encoder.scores(states), batch.targets)}

    def metrics(self, predictions: Mapping[str, Prediction]) -> dict[str, Metric]:
        """nll and ppl without label smoothing; accuracy, the most probable symbol being right."""
        prediction = predictions[OBJECTIVE]
        assert isinstance(prediction, Classes), "symbols are classes"
        return token_metrics(prediction)

    def collector(self, examples: Examples) -> TranslationCollector | None:
        """Translates the sources, for BLEU and chrF."""
        assert isinstance(examples, TranslationExamples), "the examples are this task's own"
        beam = self.config.validation_beam
        return TranslationCollector(examples.split, beam) if beam else None
