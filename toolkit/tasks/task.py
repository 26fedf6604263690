"""What a task is: it knows its data, its heads and its figures, and nothing about training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from toolkit.criteria import Prediction
from toolkit.data.examples import Examples


class Ratio(NamedTuple):
    """A figure as numerator and denominator, so that batches and ranks simply add up."""

    total: Tensor
    weight: Tensor


class Task(nn.Module, ABC):
    """Heads and figures of one kind of work; registered with `@register_task(name, config)`.

    Built as `Task(config, encoder, sizes, make_encoder)`; `make_encoder(**overrides)` gives a
    second encoder of the same architecture (a generator, say).
    """

    criterion: ClassVar[str] = "cross_entropy"
    """Name of the criterion used unless the user names another."""
    coefficients: Mapping[str, float]
    """Objective -> its factor in the loss."""

    @classmethod
    @abstractmethod
    def examples(
        cls, config: Any, folder: Any, split: str, *, seed: int, training: bool, fixed_shapes: bool
    ) -> Examples:
        """The examples of one split of an opened DataFolder.

        `fixed_shapes` pads the number of selected places to a multiple of 64 (for a GPU).
        """

    @abstractmethod
    def predict(self, encoder: nn.Module, batch: Any) -> dict[str, Prediction]:
        """One prediction per objective, for the selected places only."""

    @abstractmethod
    def measure(self, predictions: Mapping[str, Prediction]) -> dict[str, Ratio]:
        """Figures of evaluation besides the loss, such as accuracy."""


class Learner(nn.Module):
    """An encoder and the task that trains it: the one module to wrap for many processes.

    Wrapping the encoder alone would leave the gradients of the task's heads unsynchronised.
    """

    def __init__(self, encoder: nn.Module, task: Task) -> None:
        super().__init__()
        self.encoder, self.task = encoder, task

    def forward(self, batch: Any) -> dict[str, Prediction]:
        return self.task.predict(self.encoder, batch)
