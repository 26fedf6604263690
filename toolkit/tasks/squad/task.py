"""A part of a passage for a question: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from toolkit.common.registry import register_task
from toolkit.criteria import MaskedClasses, Prediction
from toolkit.data.formats.qa.split import SquadSplit
from toolkit.data.loading.examples import Examples
from toolkit.models.heads import SpanHead
from toolkit.models.interface import Sizes
from toolkit.tasks.squad.config import SquadConfig, resolve_squad
from toolkit.tasks.squad.examples import END, START, SquadBatch, SquadExamples
from toolkit.tasks.squad.predictions import SquadCollector
from toolkit.tasks.task import Task

IMPOSSIBLE = -1e4
"""Score of a place where no answer begins or ends; every precision has it."""


@register_task("squad", SquadConfig())
class Squad(Task):
    """-(log p(begin) + log p(end)) / 2, each p a softmax over places (Devlin et al. 2019, 4.2).

    An answer that is not in a window, or that there is none of, is at [CLS] (4.3). Unlike in BERT,
    but as in ELECTRA's code, places of the question have no share of the probability.
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {START: 0.5, END: 0.5}
    null_threshold: Tensor

    def __init__(self, c: SquadConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()
        self.head = SpanHead(encoder.width)
        self.register_buffer("null_threshold", torch.zeros(()))

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        return resolve_squad(config, arch)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return SquadExamples(config, SquadSplit(folder, split), training=training)

    def predict(self, encoder: Any, batch: SquadBatch) -> dict[str, Prediction]:
        scores = self.head(encoder(batch.inputs).states)  # (B, S, D) -> (B, S, 2)
        scores = scores.masked_fill(~batch.allowed[..., None], IMPOSSIBLE)
        begin, end = scores.movedim(-1, 0).contiguous()  # (B, S, 2) -> (2, B, S)
        return {START: MaskedClasses(begin, batch.starts), END: MaskedClasses(end, batch.ends)}

    def collector(self, examples: Examples) -> SquadCollector:
        """Collects each answer: for the benchmark's figures, and to be submitted.

        Where answers may be none, split valid says how doubtful one must be to be none, and the
        checkpoint keeps that.
        """
        assert isinstance(examples, SquadExamples), "the examples are this task's own"
        return SquadCollector(examples, self.null_threshold)
