"""Predictions on raw items: the interface that a task implements, and their batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import LazyPrediction, Prediction, compute_logits
from toolkit.data.loading.batching import BatchPlanner
from toolkit.tasks.batch import Batch, to_device
from toolkit.tasks.examples import Examples
from toolkit.tasks.raw_items import InputField, Values, read_item

TRUNCATED = "were truncated, as in training"


@runtime_checkable
class ItemPrediction(Protocol):
    """The prediction for one item: a NamedTuple whose fields are the keys of its JSON object."""

    def _asdict(self) -> dict[str, Any]: ...
    def to_row(self) -> tuple[str, ...]:
        """Cells of a table, in the order of `Predictor.columns`."""
        ...


I = TypeVar("I")  # noqa: E741
R = TypeVar("R", bound=ItemPrediction, covariant=True)
B = TypeVar("B", bound=Batch)


class ItemBatches(ABC, Generic[B, R]):
    """Some raw items as examples, and the predictions for them.

    A subclass sets `examples`, which must be those of toolkit-validate for the same texts.
    """

    examples: Examples[B]
    truncated: int = 0
    """Number of items that are longer than the model reads."""

    @abstractmethod
    def update(self, batch: B, predictions: Mapping[str, Prediction]) -> None:
        """Store the predictions for one batch of the examples."""

    @abstractmethod
    def results(self) -> list[R]:
        """One prediction per item, in order, after all batches."""


class Predictor(ABC, Generic[I, R]):
    """Raw items of a task: their fields, and the predictions for them."""

    fields: Sequence[InputField]
    """The parts of an item, by name."""
    columns: tuple[str, ...]
    """Names of the cells of a prediction in a table."""

    @abstractmethod
    def parse(self, values: Values) -> I:
        """The item with these values; raises a ToolkitError if nothing can be predicted for it."""

    @abstractmethod
    def start(self, items: Sequence[I]) -> ItemBatches[Any, R]:
        """The items, encoded."""


def parse_items(predictor: Predictor[I, Any], items: Sequence[object]) -> list[I]:
    """The items in Python's types, parsed; an error names the item's index."""
    parsed = []
    for index, item in enumerate(items):
        try:
            parsed.append(predictor.parse(read_item(predictor.fields, item)))
        except ToolkitError as error:
            raise ToolkitError(f"item {index}: {error}") from None
    return parsed


@torch.no_grad()
def predict_batches(
    items: ItemBatches[B, R],
    predict: Callable[[Any], Mapping[str, LazyPrediction]],
    device: torch.device,
    *,
    max_tokens: int | None = None,
    batch_size: int | None = None,
    packs: bool = False,
) -> list[R]:
    """The predictions for all items, which are batched by length.

    An item longer than `max_tokens` is a batch by itself.
    """
    if len(items.examples) == 0:
        return items.results()
    examples = items.examples
    lengths = examples.lengths if max_tokens is None else examples.lengths.clip(max=max_tokens)
    plan = BatchPlanner(
        lengths, max_tokens=max_tokens, batch_size=batch_size, seed=0, fingerprint=""
    ).in_order()
    for index in range(len(plan)):
        batch = to_device(examples.collate(plan.batch(index), None), device, packs=packs)
        items.update(batch, compute_logits(predict(batch)))
    return items.results()
