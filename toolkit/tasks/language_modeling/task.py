"""Language modeling: each symbol from those before it (Bengio et al. 2003)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from toolkit.common.registry import register_task
from toolkit.config.sections import check_choice, require
from toolkit.criteria import Classes, Prediction
from toolkit.data.loading.examples import Examples
from toolkit.data.samples.language_model_blocks import EOS_AFTER, SAMPLE_MODES
from toolkit.models.interface import Sizes
from toolkit.tasks.capabilities import check_generative, resolve_max_tokens
from toolkit.tasks.language_modeling.examples import OBJECTIVE, BlockBatch, BlockExamples
from toolkit.tasks.task import Metric, Perplexity, Task
from toolkit.tasks.token_metrics import negative_log_likelihood, token_metrics

DEFAULT_TOKENS = 512
"""Tokens that are seen at once by default."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelingConfig:
    tokens_per_sample: int = 0
    """Most tokens of one sample, end symbols included: the model sees no further back. 0 for 512,
    or what the architecture takes if that is less."""
    sample_mode: str = "blocks"
    """What makes one sample. blocks: a piece of the running text, whatever it cuts; documents: the
    same, but never across two documents; items: an item, such as a line, or a piece of one."""
    eos_after: str = "items"
    """What an end symbol stands behind, which is told like the others: items or documents."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample == 0 or self.tokens_per_sample > 1,
            f"task.tokens_per_sample must be at least 2, or 0 for the usual, but is "
            f"{self.tokens_per_sample}.",
        )
        check_choice("task.sample_mode", self.sample_mode, SAMPLE_MODES)
        check_choice("task.eos_after", self.eos_after, EOS_AFTER)
        require(
            self.sample_mode != "items" or self.eos_after == "items",
            "task.eos_after must be items where samples are, but is documents. Leave it out.",
        )


@register_task("language_modeling", LanguageModelingConfig())
class LanguageModeling(Task):
    """-log p(w_t | w_1 .. w_{t-1}), t over all places of a text, ends of its items included."""

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    is_generative = True

    def __init__(
        self, c: LanguageModelingConfig, encoder: Any, sizes: Sizes, make_encoder: Any
    ) -> None:
        super().__init__()
        check_generative(encoder, "language_modeling", decoder_only=True)

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        longest = resolve_max_tokens(config.tokens_per_sample, arch)
        usual = min(DEFAULT_TOKENS, longest) if longest else DEFAULT_TOKENS
        return replace(config, tokens_per_sample=config.tokens_per_sample or usual)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return BlockExamples(
            folder,
            split,
            sample_mode=config.sample_mode,
            eos_after=config.eos_after,
            tokens_per_sample=config.tokens_per_sample,
            fixed_shapes=fixed_shapes,
        )

    def predict(self, encoder: Any, batch: BlockBatch) -> dict[str, Prediction]:
        states = encoder(batch.inputs.tokens, batch.selected)[0]  # (N, D)
        return {OBJECTIVE: Classes(encoder.scores(states), batch.targets)}

    def metrics(self, predictions: Mapping[str, Prediction]) -> dict[str, Metric]:
        """nll and ppl of a token, without label smoothing; accuracy."""
        prediction = predictions[OBJECTIVE]
        assert isinstance(prediction, Classes), "symbols are classes"
        return token_metrics(prediction)

    def batch_metrics(
        self, predictions: Mapping[str, Prediction], batch: BlockBatch
    ) -> dict[str, Metric]:
        """word_ppl = exp(nll of all tokens / words): for any vocabulary's pieces the same words.

        End symbols count as words, as they do where texts are split at white space alone.
        """
        prediction = predictions[OBJECTIVE]
        assert isinstance(prediction, Classes), "symbols are classes"
        return {
            "word_ppl": Perplexity(
                negative_log_likelihood(prediction), torch.tensor(batch.word_count)
            )
        }
