"""Language modelling: each symbol from those before it (Bengio et al. 2003)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from toolkit.common.registry import register_task
from toolkit.config.sections import one_of, require
from toolkit.criteria import Classes, Prediction
from toolkit.data.loading.examples import Examples
from toolkit.data.samples.language_model_blocks import ENDS, SAMPLES
from toolkit.models.interface import Sizes
from toolkit.tasks.capabilities import refuse_others, within
from toolkit.tasks.language_modeling.examples import OBJECTIVE, BlockBatch, BlockExamples
from toolkit.tasks.task import Figure, Perplexity, Task
from toolkit.tasks.token_metrics import figures_of, negative_log

USUAL = 512
"""Tokens that are seen at once by default."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig:
    tokens_per_sample: int = 0
    """Most tokens of one sample, end symbols included: the model sees no further back. 0 for 512,
    or what the architecture takes if that is less."""
    samples: str = "blocks"
    """What makes one sample. blocks: a piece of the running text, whatever it cuts; documents: the
    same, but never across two documents; items: an item, such as a line, or a piece of one."""
    ends: str = "items"
    """What an end symbol stands behind, which is told like the others: items or documents."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 1,
            f"task.tokens_per_sample must be at least 2, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )
        one_of("task.samples", self.samples, SAMPLES)
        one_of("task.ends", self.ends, ENDS)
        require(
            self.samples != "items" or self.ends == "items",
            "task.ends must be items where samples are, but is documents. Leave it out.",
        )


@register_task("language_modeling", LanguageModelingConfig())
class LanguageModeling(Task):
    """-log p(w_t | w_1 .. w_{t-1}), t over all places of a text, ends of its items included."""

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    writes = True

    def __init__(
        self, c: LanguageModelingConfig, encoder: Any, sizes: Sizes, make_encoder: Any
    ) -> None:
        super().__init__()
        refuse_others(encoder, "language_modeling", decoder_only=True)

    @classmethod
    def suited(cls, config: Any, arch: Any) -> Any:
        longest = within(config.tokens_per_sample, arch)
        usual = min(USUAL, longest) if longest else USUAL
        return replace(config, tokens_per_sample=config.tokens_per_sample or usual)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return BlockExamples(
            folder,
            split,
            samples=config.samples,
            ends=config.ends,
            tokens_per_sample=config.tokens_per_sample,
            fixed_shapes=fixed_shapes,
        )

    def predict(self, encoder: Any, batch: BlockBatch) -> dict[str, Prediction]:
        states = encoder(batch.inputs.tokens, batch.places)[0]  # (N, D)
        return {OBJECTIVE: Classes(encoder.scores(states), batch.targets)}

    def measure(self, predictions: Mapping[str, Prediction]) -> dict[str, Figure]:
        """nll and ppl of a token, without label smoothing; accuracy."""
        prediction = predictions[OBJECTIVE]
        assert isinstance(prediction, Classes), "symbols are classes"
        return figures_of(prediction)

    def count(self, predictions: Mapping[str, Prediction], batch: BlockBatch) -> dict[str, Figure]:
        """word_ppl = exp(nll of all tokens / words): for any vocabulary's pieces the same words.

        End symbols count as words, as they do where texts are split at white space alone.
        """
        prediction = predictions[OBJECTIVE]
        assert isinstance(prediction, Classes), "symbols are classes"
        return {"word_ppl": Perplexity(negative_log(prediction), torch.tensor(batch.words))}
