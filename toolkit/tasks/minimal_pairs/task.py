"""The task minimal_pairs, which evaluates the checkpoints of other tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Prediction
from toolkit.models.interface import EncoderModel
from toolkit.tasks.batch import Batch
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class MinimalPairsTaskConfig:
    """No options: those of the evaluation are options of toolkit-validate."""


@register_task("minimal_pairs", MinimalPairsTaskConfig())
class MinimalPairs(Task[MinimalPairsTaskConfig, Examples[Batch], Batch]):
    """Evaluation only: accuracy of score(good) > score(bad) for pairs of sentences."""

    coefficients: Mapping[str, float] = {}

    def __init__(
        self, c: MinimalPairsTaskConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        raise_not_trainable()

    @classmethod
    def examples(cls, config: MinimalPairsTaskConfig, source: SplitSource) -> Examples[Batch]:
        raise_not_trainable()

    def predict(self, encoder: EncoderModel, batch: Batch) -> dict[str, Prediction]:
        raise_not_trainable()


def raise_not_trainable() -> NoReturn:
    """The error for any use in a model."""
    raise ToolkitError(
        "Task minimal_pairs evaluates checkpoints and trains nothing. Train with --task mlm, mpm "
        "or language_modeling, then run toolkit-validate FILES --task minimal_pairs --path RUN."
    )
