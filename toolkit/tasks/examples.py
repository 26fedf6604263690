"""Examples of a task: what it makes of a split, for the trainer and for loops of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.data import Dataset

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.config.schedules import RunSchedules
from toolkit.criteria import IGNORED
from toolkit.data.samples.masking import HashNoise
from toolkit.data.samples.sequence_pairs import PairBatch, TokenSamples
from toolkit.data.samples.statistics import measure_rarity
from toolkit.data.storage.data_folder import DataFolder, MemoryFolder, Split
from toolkit.models.interface import Inputs
from toolkit.models.packing import Packing, pack_padding

T = TypeVar("T")


@runtime_checkable
class Batch(Protocol):
    """Every task's batch is a NamedTuple with at least these fields."""

    @property
    def inputs(self) -> Inputs:
        """Inputs of the encoder."""

    @property
    def weights(self) -> dict[str, float]:
        """Objective -> number of terms its loss sums over; all zero for an idle rank."""

    @property
    def sentences(self) -> int:
        """Number of sentences."""

    @property
    def tokens(self) -> int:
        """Tokens without padding."""


class TargetBatch(NamedTuple):
    """Inputs with a target at each of some positions: the batch of most tasks."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat indices of these positions into B x S; padding rows repeat index 0."""
    targets: Shaped[Tensor, " N"]
    """Token, class or value of each; IGNORED (-100), or NaN for values, in padding rows and if it
    is unknown."""
    weights: dict[str, float]
    sentences: int
    tokens: int
    ids: Int[Tensor, " N"] | None = None
    """Index of each example in the split, if its predictions are stored; -1 for an idle rank."""
    word_count: float = 0.0
    """Words among the targets of a language model."""


B = TypeVar("B", bound=Batch)
SHAPE_MULTIPLE = 64
"""Multiple of selected positions in training and validation."""
NO_SCHEDULES = RunSchedules()


class SplitSource(NamedTuple):
    """A split of a data folder, and what its examples are for."""

    folder: DataFolder
    name: str
    seed: int = 0
    training: bool = False
    row_multiple: int = 1
    """Pad the number of selected positions to a multiple of this: CPUs and GPUs prepare a matrix
    product once per shape, and CUDA graphs a whole update, which takes longer than a few rows."""
    schedules: RunSchedules = NO_SCHEDULES
    """Options whose values change during the run."""

    def check_labeled(self, labeled: bool, unlabeled: str) -> None:
        """Raise if a split for training has `unlabeled` items, such as "rows without labels"."""
        if not self.training or labeled:
            return
        if isinstance(self.folder, MemoryFolder):
            raise ToolkitError(
                "Training requires a label for each item. Give learner.dataset the labels, or "
                "training=False."
            )
        raise ToolkitError(
            f"Split {self.name!r} of {self.folder.name} has {unlabeled} and cannot be used for "
            f"training. Choose another --train-subset."
        )


class Examples(ABC, Generic[B]):
    """Base class: set `lengths` and `fingerprint`, and define `make_batch`.

    Subclasses are called with the task's config, completed for the architecture, and the split.
    """

    lengths: IntArray
    """Tokens per example, special tokens included; the batch planner reads them."""
    fingerprint: str = ""
    """Changes with the data, the vocabulary and the options that shape the examples."""
    remark: str = ""
    """What is left out of the data, such as `1,200 cut, 3,400 tokens lost (1.2%)`."""
    advice: str = ""
    """Options that keep more of the data, if much of it is left out."""
    truncated: int = 0
    """Number of items that are longer than the model reads."""
    row_multiple: int = 1
    config: Any
    source: SplitSource
    """The split, of examples with random choices, and their seed."""
    text: tuple[TokenSamples, DataFolder, Split] | None = None
    """Samples of plain text, and where it is; None for others."""
    scheduled: ClassVar[tuple[str, ...]] = ()
    """Paths of options whose values `make_batch` reads from the schedules of the run, and that no
    module has."""
    idle_values: ClassVar[Mapping[str, int]] = {}
    """Batch field, besides `targets` and `ids` -> its value in the batch of an idle rank."""

    def __len__(self) -> int:
        return len(self.lengths)

    def count_words(self) -> IntArray | None:
        """Words that start in each example; None if its task or its data does not count them."""
        return None if self.text is None else self.text[0].count_words(self.text[-1])

    def measure_rarity(self) -> FloatArray:
        """How rare the tokens of each example are together, for a curriculum."""
        if self.text is None:
            raise ToolkitError(
                "data.curriculum rarity requires a task on plain text, such as mlm or "
                "language_modeling. Choose length, or a file with a number for each example."
            )
        samples, folder, split = self.text
        return measure_rarity(samples, split.column("tokens"), folder.vocabulary)

    def scheduled_value(self, option: str, epoch: int | float | None) -> float:
        """An option of the task in this epoch, by the schedules of the run."""
        return self.source.schedules.value(f"task.{option}", epoch, getattr(self.config, option))

    def noise(self, ids: IntArray, epoch: int | float | None) -> HashNoise:
        """Random numbers per example; those of copies differ."""
        now = int(epoch) if self.source.training and epoch is not None else None
        return HashNoise(self.source.seed, now, ids)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest row that the encoder reads."""
        return int(self.lengths.max(initial=0))

    @abstractmethod
    def make_batch(self, ids: IntArray, epoch: int | float | None) -> B:
        """One micro-batch; epoch None is evaluation, the same every time.

        The fraction of the epoch is the part that is over: random choices do not depend on it.

        Ids from len(self) on are further copies of example id % len(self): the same data, with
        separate randomness.
        """

    def collate(self, ids: IntArray, epoch: int | float | None) -> B:
        """One micro-batch; without ids that of an idle rank, while the others have more batches.

        It goes through the model like any other, but all of its weights are zero.
        """
        if len(ids):
            return self.make_batch(ids, epoch)
        return self.to_idle(self.make_batch(np.zeros(1, np.int64), None))

    def to_idle(self, batch: B) -> B:
        """The batch with weight zero and without targets; NaN are those that are numbers."""
        replaced: dict[str, Any] = {
            name: torch.full_like(values, np.nan if values.is_floating_point() else value)
            for name, value in {"targets": IGNORED, "ids": -1, **self.idle_values}.items()
            if isinstance(values := getattr(batch, name, None), Tensor)
        }
        weights, named = dict.fromkeys(batch.weights, 0.0), cast(Any, batch)
        return named._replace(**replaced, weights=weights, sentences=0, tokens=0)

    def pad(self, values: IntArray, fill: int) -> Int[Tensor, " N"]:
        """One row at least, so that every head takes part in every batch; see `row_multiple`."""
        return pad_to_multiple(values, fill, self.row_multiple)


def pad_to_multiple(values: IntArray, fill: int, multiple: int) -> Int[Tensor, " N"]:
    """Values padded to a multiple of rows, at least one multiple."""
    rows = multiple * max(1, -(-len(values) // multiple))
    return pad_rows(values.astype(np.int64, copy=False), rows, fill)


def pad_rows(values: IntArray | BoolArray, rows: int, fill: int) -> Shaped[Tensor, " N"]:
    """Values padded with `fill` to this number of rows, as a tensor."""
    padded = np.full(rows, fill, values.dtype)
    padded[: len(values)] = values
    return torch.from_numpy(padded)


class TaskDataset(Dataset[Batch]):
    """Examples that torch's DataLoader makes batches of, and `learner.loss` reads.

    `DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=dataset.collate)` fetches whole
    batches. Item i is a batch with this example only. In training, random choices such as masks are
    drawn for each batch from torch's default generator; otherwise they are the same every time.
    """

    def __init__(self, examples: Examples[Any], *, training: bool) -> None:
        self.examples, self.training = examples, training
        if not len(self):
            raise ToolkitError(
                "the data must have at least one example for the task, but have none. Give more."
            )

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Batch:
        return self.__getitems__([range(len(self))[index]])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """One batch of these examples."""
        draw = int(torch.randint(1 << 31, ())) if self.training else None
        return self.examples.make_batch(np.array(indices, np.int64), draw)

    @staticmethod
    def collate(batch: Batch | list[Batch]) -> Batch:
        """The batch that the DataLoader fetched, unchanged."""
        if isinstance(batch, list):
            raise ToolkitError(
                "dataset.collate requires a DataLoader of the dataset itself or of its Subset, "
                "which fetch whole batches. Make one dataset of all texts."
            )
        return batch


def to_inputs(texts: PairBatch) -> Inputs:
    """Segments and padding are None if they are zero everywhere."""
    parts: tuple[Any, ...] = texts.segments, texts.padding
    segments, padding = (torch.from_numpy(part) if part.any() else None for part in parts)
    return Inputs(torch.from_numpy(texts.tokens), segments=segments, padding=padding)


def to_device(batch: T, device: torch.device, *, packs: bool = False) -> T:
    """The batch, a NamedTuple of tensors, other NamedTuples and plain values, on the device.

    With `packs`, inputs on other devices than a CPU get their packing.
    """
    if device.type == "cpu":
        return batch
    packed = add_packing(batch, pack_padding) if packs else batch
    waits = device.type == "mps"  # which reads pinned memory only without waiting
    return tree_map_only(Tensor, lambda it: it.to(device, non_blocking=not waits), packed)


def add_packing(batch: T, pack: Callable[[Tensor], Packing | None]) -> T:
    """A batch on the host, or its inputs, with the packing of padded inputs without one."""
    named: Any = batch
    inputs: Inputs = named if isinstance(batch, Inputs) else named.inputs
    if inputs.padding is None or inputs.packing is not None:
        return batch
    inputs = inputs._replace(packing=pack(inputs.padding))
    return inputs if isinstance(batch, Inputs) else named._replace(inputs=inputs)  # type: ignore[return-value]
