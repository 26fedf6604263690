"""A class or a number for a text or a pair: the tasks of GLUE (Wang et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Classes, Prediction, Values
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.loading.examples import Examples
from toolkit.models.encoder import select_states
from toolkit.models.heads import Pooler, SentenceHead
from toolkit.models.interface import Sizes
from toolkit.tasks.glue.config import GlueConfig, resolve_length
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch, GlueExamples
from toolkit.tasks.glue.predictions import GlueCollector
from toolkit.tasks.task import Task


@register_task("glue", GlueConfig())
class Glue(Task):
    """-log p(class | text), p = softmax(W x + b), x the [CLS] state, pooled or plain.

    Of a number y it is (w . x + b - y)^2 (Devlin et al. 2019, section 4.1 and code).
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}

    def __init__(self, c: GlueConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()
        if not sizes.labels:
            raise ToolkitError(
                "task glue must know how many classes there are, but the data has none. Run "
                "toolkit-preprocess with --format glue or tsv."
            )
        self.is_regression = sizes.labels == 1
        self.pooler = Pooler(encoder.width) if c.head == "pooled" else nn.Identity()
        self.head = SentenceHead(encoder.width, sizes.labels, c.head_dropout)

    @classmethod
    def resolve_for(cls, config: Any, arch: Any) -> Any:
        return resolve_length(config, arch)

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        return GlueExamples(config, ClassificationSplit(folder, split), training=training)

    def predict(self, encoder: Any, batch: GlueBatch) -> dict[str, Prediction]:
        states = select_states(encoder, batch.inputs, batch.selected)  # (N, D)
        scores = self.head(self.pooler(states))  # (N, D) -> (N, C)
        if self.is_regression:
            return {OBJECTIVE: Values(scores[:, 0], batch.targets)}
        return {OBJECTIVE: Classes(scores, batch.targets)}

    def collector(self, examples: Examples) -> GlueCollector:
        """Collects each answer: for the benchmark's figures, and to be submitted."""
        assert isinstance(examples, GlueExamples), "the examples are this task's own"
        return GlueCollector(examples.split)
