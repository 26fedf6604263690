"""The encoder without a head: what a converted model is that brought none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Prediction
from toolkit.data.loading.examples import Examples
from toolkit.models.interface import Sizes
from toolkit.tasks.task import Ratio, Task


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """Nothing to choose."""


@register_task("encode", EncodeConfig())
class Encode(Task):
    """States of all places, and nothing to learn: another task starts from them."""

    coefficients: Mapping[str, float] = {}

    def __init__(self, c: EncodeConfig, encoder: Any, sizes: Sizes, make_encoder: Any) -> None:
        super().__init__()

    @classmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        raise_headless()

    def predict(self, encoder: nn.Module, batch: Any) -> dict[str, Prediction]:
        raise_headless()

    def metrics(self, predictions: Mapping[str, Prediction]) -> dict[str, Ratio]:
        raise_headless()


def raise_headless() -> NoReturn:
    raise ToolkitError(
        "the task must have something to predict, but encode is an encoder without a head. Train "
        "one: name another task, and this checkpoint with --finetune-from."
    )
