"""The task encode: an encoder without a head, such as a converted model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Prediction
from toolkit.models.interface import EncoderModel
from toolkit.tasks.batch import Batch
from toolkit.tasks.encoder_factory import EncoderFactory
from toolkit.tasks.examples import Examples, SplitSource
from toolkit.tasks.task import Task

HEADLESS = (
    "Task encode has no head to train. Choose another --task; --finetune-from loads the encoder of "
    "a checkpoint."
)


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """No options."""


@register_task("encode", EncodeConfig())
class Encode(Task[EncodeConfig, Examples[Batch], Batch]):
    """States of all tokens, and nothing to train."""

    coefficients: Mapping[str, float] = {}

    def __init__(
        self, c: EncodeConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__()

    @classmethod
    def examples(cls, config: EncodeConfig, source: SplitSource) -> Examples[Batch]:
        raise ToolkitError(HEADLESS)

    def predict(self, encoder: EncoderModel, batch: Batch) -> dict[str, Prediction]:
        raise ToolkitError(HEADLESS)
