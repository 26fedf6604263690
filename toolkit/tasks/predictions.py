"""Predictions collected over a split, for metrics that are not means and for prediction files.

toolkit-validate collects them, and validation during training if `Task.collects_in_training`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.distributed import World
from toolkit.metrics.classification import ClassMetrics, class_metrics
from toolkit.models.interface import EncoderModel
from toolkit.reporting.tables import Table
from toolkit.tasks.batch import Batch

B = TypeVar("B", bound=Batch, contravariant=True)
Array = npt.NDArray[Any]
Event = tuple[str, dict[str, object]]
"""Name and values of an event for --json."""

SCORES = ("precision", "recall", "f1")


class PredictionCollector(ABC, Generic[B]):
    """Base class: `make_array` what is predicted per example, `store` it in `update`."""

    def __init__(self, count: int) -> None:
        self.seen = np.zeros(count, bool)
        self._arrays: list[Array] = []

    def make_array(self, dtype: npt.DTypeLike, *shape: int, fill: float = 0) -> Array:
        """One value, or several of this shape, per example; gathered from all ranks by `sync`."""
        self._arrays.append(np.full((len(self.seen), *shape), fill, dtype))
        return self._arrays[-1]

    def store(self, ids: Tensor, array: Array, values: Tensor) -> None:
        """Set the array's values of these examples; negative ids are padding."""
        index = ids.cpu().numpy()
        real = index >= 0
        array[index[real]] = values.cpu().numpy()[real]
        self.seen[index[real]] = True

    @abstractmethod
    def update(self, batch: B, predictions: Mapping[str, Prediction]) -> None:
        """Store the predictions of one batch."""

    def update_from_encoder(self, encoder: EncoderModel, batch: B) -> None:
        """Run the encoder for more than `predict` computes, such as generated text."""

    def sync(self, world: World) -> None:
        """Gather the predictions of all ranks on each; every rank must call it, after the split."""
        ids = np.flatnonzero(self.seen)
        arrays = self._arrays if world.size > 1 else []
        mine = json.dumps([ids.tolist(), *(array[ids].tolist() for array in arrays)])
        for text in world.all_gather(mine):
            index, *parts = json.loads(text)
            self.seen[index] = True
            for array, part in zip(arrays, parts, strict=True):
                array[index] = np.array(part, array.dtype).reshape(-1, *array.shape[1:])
        assert self.seen.all(), "every example is in one batch of one rank"

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """Metrics of the whole split."""

    def tables(self) -> Sequence[Table]:
        """Tables for the console."""
        return []

    def events(self) -> Sequence[Event]:
        """Events for --json."""
        return []

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write the predictions in the format of the data they belong to."""


def class_table(confusion: IntArray, classes: Sequence[str], *, column: str, count: str) -> Table:
    """Precision, recall and F1 per class; `column` names the classes and `count` their items."""
    return metrics_table(class_metrics(confusion, classes), column=column, count=count)


def metrics_table(rows: Iterable[ClassMetrics], *, column: str, count: str) -> Table:
    """A row per class."""
    return Table(
        columns=(column, *SCORES, count),
        rows=[tuple(row) for row in rows],
        shared_precision=SCORES,
    )


def class_events(
    confusion: IntArray, classes: Sequence[str], *, event: str, predicted: int | None = None
) -> list[Event]:
    """One event per class, and one with the confusion matrix.

    If only the first `predicted` classes can be predicted, the matrix has only their columns.
    """
    rows = [(event, row._asdict()) for row in class_metrics(confusion, classes)]
    columns, counts = list(classes)[:predicted], confusion[:, :predicted].tolist()
    return [*rows, ("confusion", {"predicted": columns, "true": classes, "counts": counts})]


def check_unique_ids(ids: Sequence[str], kind: str) -> None:
    """Raise if several sources use the same id: one prediction would overwrite another."""
    most_common = Counter(ids).most_common(1)
    if most_common and most_common[0][1] > 1:
        raise ToolkitError(
            f"--predictions requires a unique {kind} per example, but {most_common[0][0]!r} occurs "
            f"more than once. Preprocess the sources separately."
        )
