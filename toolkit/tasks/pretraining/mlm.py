"""Masked language modeling (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.common.registry import register_task
from toolkit.criteria import IGNORED, Classes, Prediction
from toolkit.data.loading.examples import Examples
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.models.encoder import select_states
from toolkit.models.heads import TokenHead
from toolkit.models.interface import Sizes
from toolkit.tasks.batch import MaskedBatch
from toolkit.tasks.pretraining.fill_mask import fill_mask
from toolkit.tasks.pretraining.masked_examples import MaskedExamples, MaskingConfig
from toolkit.tasks.task import Ratio, Task


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(MaskingConfig):
    """Nothing beyond what is hidden and how."""


@register_task("mlm", MaskedLanguageModelConfig())
class MaskedLanguageModel(Task):
    """-log p(x_n | the rest), n over the selected places: predict the hidden tokens."""

    coefficients: Mapping[str, float] = {"mlm": 1.0}

    def __init__(
        self, c: MaskedLanguageModelConfig, encoder: Any, sizes: Sizes, make_encoder: Any
    ) -> None:
        super().__init__()
        self.head = TokenHead(encoder)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return MaskedExamples(
            config, folder, split, seed=seed, training=training, fixed_shapes=fixed_shapes
        )

    def predict(self, encoder: Any, batch: MaskedBatch) -> dict[str, Prediction]:
        states = select_states(
            encoder, batch.inputs, batch.selected
        )  # (N, D), selected places only
        return {"mlm": Classes(self.head(states, encoder.token_embedding.weight), batch.targets)}

    def metrics(self, predictions: Mapping[str, Prediction]) -> dict[str, Ratio]:
        """accuracy: share of the selected places whose most probable token is the true one."""
        logits, targets = predictions["mlm"]
        right = (logits.argmax(-1) == targets).sum()  # IGNORED is no class, so it is never right
        return {"accuracy": Ratio(right.float(), (targets != IGNORED).sum().float())}

    def fill_mask(
        self, encoder: Any, tokenizer: Any, sentences: Sequence[str], top: int = 5
    ) -> list[list[MaskPrediction]]:
        """For every [MASK] of every sentence, the `top` most probable tokens."""
        return fill_mask(self.head, encoder, tokenizer, sentences, top)
