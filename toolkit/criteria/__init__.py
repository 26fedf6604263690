"""Criteria: losses of predictions, summed by objective. Their base class, and the predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.nn.ops.linear import aligned_linear


class Classes(NamedTuple):
    """N predictions over C classes."""

    logits: Float[Tensor, "N C"]
    targets: Int[Tensor, " N"]
    """The correct classes; IGNORED for padding that keeps shapes stable."""


class MaskedClasses(Classes):
    """Predictions with some classes masked: their scores are so low that softmax gives 0."""


class ProjectedClasses(NamedTuple):
    """N predictions over C classes whose logits, states @ table.T + bias, N x C numbers, are not
    stored.
    """

    states: Float[Tensor, "N E"]
    table: Float[Tensor, "C E"]
    bias: Float[Tensor, " C"] | None
    targets: Int[Tensor, " N"]
    """The correct classes; IGNORED for padding that keeps shapes stable."""
    cap: float | None = None
    """Soft cap of the logits."""

    def to_classes(self) -> Classes:
        """The same predictions with their logits."""
        return Classes(aligned_linear(self.states, self.table, self.bias, self.cap), self.targets)


class Binary(NamedTuple):
    """N predictions of yes or no."""

    logits: Float[Tensor, " N"]
    """log p / (1 - p), p the probability of yes."""
    targets: Int[Tensor, " N"]
    """1 for yes, 0 for no; IGNORED for padding."""


class Values(NamedTuple):
    """N predicted numbers."""

    values: Float[Tensor, " N"]
    targets: Float[Tensor, " N"]
    """The correct numbers; NaN for padding."""


IGNORED = -100
IMPOSSIBLE = -1e4
"""Score of a masked class; representable in every precision."""

MIN_PROJECTED_LOGITS = 1 << 25
"""Minimum number of logits that training does not store."""

Prediction = Classes | Binary | Values
LazyPrediction = Prediction | ProjectedClasses


def project(
    states: Float[Tensor, "N E"],
    table: Float[Tensor, "C E"],
    bias: Float[Tensor, " C"] | None,
    cap: float | None = None,
    *,
    targets: Int[Tensor, " N"],
) -> Classes | ProjectedClasses:
    """Predictions with logits states @ table.T + bias, which large batches do not store.

    Evaluation stores them for its metrics, and fp16 for its loss scaling. On the meta device, where
    operations are counted, tensors need no memory.
    """
    projected = ProjectedClasses(states, table, bias, targets, cap)
    small = states.is_meta or len(states) * len(table) < MIN_PROJECTED_LOGITS
    if small or not torch.is_grad_enabled():
        return projected.to_classes()
    device = states.device.type
    half = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.half
    return projected.to_classes() if half else projected


def compute_logits(predictions: Mapping[str, LazyPrediction]) -> dict[str, Prediction]:
    """The predictions with the logits of each ProjectedClasses computed."""
    return {
        name: each.to_classes() if isinstance(each, ProjectedClasses) else each
        for name, each in predictions.items()
    }


class Criterion(nn.Module, ABC):
    """One summed loss per objective: the trainer divides each by its weight over all ranks."""

    takes_projections: ClassVar[bool] = False
    """Whether `forward` also takes ProjectedClasses; otherwise it receives their logits."""

    def __call__(self, predictions: Mapping[str, LazyPrediction]) -> dict[str, Float[Tensor, ""]]:
        return super().__call__(
            predictions if self.takes_projections else compute_logits(predictions)
        )

    def observe(self, learner: Callable[[Any], Any], batch: object) -> None:
        """Called in training with learner and batch, whose predictions `forward` gets next."""

    @abstractmethod
    def forward(self, predictions: Mapping[str, Prediction]) -> dict[str, Float[Tensor, ""]]:
        """Objective -> summed loss of its predictions."""


BLOCK = 1 << 18
"""Logits per block on a CPU: 1 MiB in fp32."""


def split_rows(logits: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Corresponding blocks of rows of all tensors; all rows at once on other devices."""
    on_cpu = logits.device.type == "cpu"
    rows = max(1, BLOCK // max(1, logits.shape[-1]) if on_cpu else len(logits))
    return zip(*(it.split(rows) for it in (logits, *others)), strict=True)
