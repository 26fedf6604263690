"""A part of a passage for a question: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import Choices, Prediction
from toolkit.data.formats.qa.split import SquadSplit
from toolkit.data.loading.examples import Examples
from toolkit.models.heads import SpanHead
from toolkit.models.interface import Sizes
from toolkit.tasks.squad.config import SquadConfig, suited
from toolkit.tasks.squad.examples import BEGIN, END, WindowBatch, WindowExamples
from toolkit.tasks.squad.predictions import SquadAnswers
from toolkit.tasks.task import Task

NEVER = -1e4
"""Score of a place where no answer begins or ends; every precision has it."""


@register_task("squad", SquadConfig())
class Squad(Task):
    """-(log p(begin) + log p(end)) / 2, each p a softmax over places (Devlin et al. 2019, 4.2).

    An answer that is not in a window, or that there is none of, is at [CLS] (4.3). Unlike in BERT,
    but as in ELECTRA's code, places of the question have no share of the probability.
    """

    answers_in_training, perplexity = True, False
    coefficients: Mapping[str, float] = {BEGIN: 0.5, END: 0.5}
    null_threshold: Tensor

    def __init__(self, c: SquadConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()
        self.head = SpanHead(encoder.width)
        self.register_buffer("null_threshold", torch.zeros(()))

    @classmethod
    def suited(cls, config: Any, arch: Any) -> Any:
        return suited(config, arch)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return WindowExamples(config, SquadSplit(folder, split), training=training)

    def predict(self, encoder: Any, batch: WindowBatch) -> dict[str, Prediction]:
        scores = self.head(encoder(batch.inputs).states)  # (B, S, D) -> (B, S, 2)
        scores = scores.masked_fill(~batch.allowed[..., None], NEVER)
        begin, end = scores.movedim(-1, 0).contiguous()  # (B, S, 2) -> (2, B, S)
        return {BEGIN: Choices(begin, batch.begins), END: Choices(end, batch.ends)}

    def answers(self, examples: Examples) -> SquadAnswers:
        """Collects each answer: for the benchmark's figures, and to be submitted.

        Where answers may be none, split valid says how doubtful one must be to be none, and the
        checkpoint keeps that.
        """
        assert isinstance(examples, WindowExamples), "the examples are this task's own"
        return SquadAnswers(examples, self.null_threshold)
