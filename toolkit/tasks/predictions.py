"""Results of a task: predictions for a split, with metrics and files, and for raw items.

toolkit-validate, toolkit-predict and `learner.predict` store predictions in the same `Results`;
validation during training does if `Task.collects_in_training`. A `Predictor` reads raw items.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.common import json_files
from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.criteria import LazyPrediction, Prediction, compute_logits
from toolkit.data.loading.batching import BatchPlanner
from toolkit.data.raw_items import InputField, ItemValues, name_columns, read_item
from toolkit.data.storage.data_folder import SPLIT, DataFolder
from toolkit.distributed import World
from toolkit.metrics.classification import ClassMetrics, class_metrics
from toolkit.models.interface import EncoderModel
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import B, Examples, SplitSource, to_device

Array = npt.NDArray[Any]
Event = tuple[str, dict[str, object]]
"""Name and values of an event for --json."""

SCORES = ("precision", "recall", "f1")


TRUNCATED = "were truncated, as in training"


I = TypeVar("I")  # noqa: E741
R = TypeVar("R", covariant=True)


class Results(ABC, Generic[B, R]):
    """Predictions for the examples of a split, or of raw items: what is learned from them.

    A subclass makes an array per value with `make_array`, and stores values in `update`.
    """

    def __init__(self, examples: Examples[B], count: int | None = None) -> None:
        """`count` is the number of what the ids of batches count, by default the examples."""
        self.examples = examples
        self.seen = np.zeros(len(examples) if count is None else count, bool)
        self._arrays: list[Array] = []

    def make_array(self, dtype: npt.DTypeLike, *shape: int, fill: float = 0) -> Array:
        """One value, or several of this shape, per example; gathered from all ranks by `sync`."""
        self._arrays.append(np.full((len(self.seen), *shape), fill, dtype))
        return self._arrays[-1]

    def store(self, ids: Tensor | None, array: Array, values: Tensor) -> None:
        """Set the array's values of these examples; negative ids are padding."""
        assert ids is not None, "the task's batches have ids"
        index, stored = ids.cpu(), torch.from_numpy(array)
        real = index >= 0
        stored[index[real]] = values.cpu()[real].to(stored.dtype)
        self.seen[index[real].numpy()] = True

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

    def metrics(self) -> dict[str, float]:
        """Metrics of the whole split."""
        return {}

    def records(self) -> Sequence[R]:
        """One prediction per item, in order: a NamedTuple with the keys of its JSON object."""
        return []

    def tables(self) -> Sequence[Table]:
        """Tables for the console."""
        return []

    def events(self) -> Sequence[Event]:
        """Events for --json."""
        return []

    def write(self, path: Path) -> None:
        """Write the predictions in the format of the data they belong to; by default JSON lines."""
        records: Sequence[Any] = self.records()
        lines = [json_files.dumps(record._asdict()) + "\n" for record in records]
        write_output(path, "".join(lines))


class Predictor(Generic[I, R]):
    """Raw items of a task: their fields, and the predictions for them."""

    fields: Sequence[InputField]
    """The parts of an item, by name."""
    columns: tuple[str, ...]
    """Fields of a prediction that are the cells of a table."""
    encode: Callable[[Any, Sequence[I]], DataFolder]

    def __init__(self, task: Any, encoder: EncoderModel, tokenizer: Any) -> None:
        self.task, self.tokenizer = task, tokenizer
        self.config = task.resolve_for(task.config, encoder)

    @property
    def named_fields(self) -> Sequence[InputField]:
        """The fields, with the names of their columns in the rows of the training data."""
        return name_columns(self.fields, self.tokenizer.columns)

    def parse(self, values: ItemValues) -> I:
        """The item with these values; raises a ToolkitError if nothing can be predicted for it.

        By default the value of the only field, or a tuple of those of all fields.
        """
        item: Any = tuple(values[field.name] for field in self.fields)
        return item if len(item) > 1 else item[0]

    def start(self, items: Sequence[I]) -> Any:
        """The `Results` of the items as examples, which must be those of toolkit-validate.

        By default of the folder that the function `encode(tokenizer, items)` of the class makes.
        """
        return self.read(self.encode(self.tokenizer, items))

    def read(self, folder: DataFolder) -> Any:
        """The results of a folder's only split, as toolkit-validate makes them."""
        return self.task.results(self.task.examples(self.config, SplitSource(folder, SPLIT)))


def parse_items(predictor: Predictor[I, Any], items: Sequence[object]) -> list[I]:
    """The items in Python's types, parsed; an error names the item's index."""
    parsed, fields = [], predictor.named_fields
    for index, item in enumerate(items):
        try:
            parsed.append(predictor.parse(read_item(fields, item)))
        except ToolkitError as error:
            raise ToolkitError(f"item {index}: {error}") from None
    return parsed


@torch.no_grad()
def predict_batches(
    results: Results[B, R],
    predict: Callable[[Any], Mapping[str, LazyPrediction]],
    device: torch.device,
    *,
    max_tokens: int | None = None,
    batch_size: int | None = None,
    packs: bool = False,
) -> Sequence[R]:
    """The predictions for all items, batched by length; one above the limit is its own batch."""
    examples = results.examples
    if not len(examples):
        return results.records()
    lengths = examples.lengths if max_tokens is None else examples.lengths.clip(max=max_tokens)
    plan = BatchPlanner(
        lengths, max_tokens=max_tokens, batch_size=batch_size, seed=0, fingerprint=""
    ).in_order()
    for index in range(len(plan)):
        batch = to_device(examples.collate(plan.batch(index), None), device, packs=packs)
        results.update(batch, compute_logits(predict(batch)))
    return results.records()


def metrics_table(rows: Iterable[ClassMetrics], *, column: str, count: str) -> Table:
    """A row per class."""
    return Table(
        columns=(column, *SCORES, count), rows=[tuple(row) for row in rows], shared_precision=SCORES
    )


def class_events(
    confusion: IntArray, classes: Sequence[str], *, event: str, predicted: int | None = None
) -> list[Event]:
    """One event per class, and one with the confusion matrix and its first `predicted` columns."""
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
