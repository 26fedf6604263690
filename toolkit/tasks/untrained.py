"""Tasks that train nothing: an encoder without a head, and evaluation on minimal pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Prediction
from toolkit.models.interface import EncoderModel
from toolkit.tasks.batch import Batch
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.task import EncoderFactory, Task


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options: those of an evaluation are options of toolkit-validate."""


class UntrainedTask(Task[NoOptions, Examples[Batch], Batch]):
    """A task without examples and without a loss."""

    coefficients: Mapping[str, float] = {}
    remedy: ClassVar[str]
    """Why it cannot be trained, and what to do."""

    def __init__(self, c: NoOptions, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        super().__init__()

    @classmethod
    def examples(cls, config: NoOptions, source: SplitSource) -> Examples[Batch]:
        raise ToolkitError(cls.remedy)

    def predict(self, encoder: EncoderModel, batch: Batch) -> dict[str, Prediction]:
        raise ToolkitError(self.remedy)


@register_task("encode", NoOptions())
class Encode(UntrainedTask):
    """States of all tokens, and nothing to train."""

    remedy = (
        "Task encode has no head to train. Choose another --task; --finetune-from loads the "
        "encoder of a checkpoint."
    )


@register_task("minimal_pairs", NoOptions())
class MinimalPairs(UntrainedTask):
    """Evaluation only: accuracy of score(good) > score(bad) for pairs of sentences."""

    remedy = (
        "Task minimal_pairs evaluates checkpoints and trains nothing. Train with --task mlm, mpm "
        "or language_modeling, then run toolkit-validate FILES --task minimal_pairs --path RUN."
    )

    def __init__(self, c: NoOptions, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        raise ToolkitError(self.remedy)
