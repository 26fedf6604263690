"""A task's examples as a torch Dataset, for training loops of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from toolkit.common.errors import ToolkitError
from toolkit.tasks.batch import Batch
from toolkit.tasks.examples import Examples


class TaskDataset(Dataset[Batch]):
    """Examples that torch's DataLoader makes batches of, and `learner.loss` reads.

    `DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=dataset.collate)` fetches whole
    batches from `__getitems__`, and `collate` returns them as they are. Item i is a batch with this
    example only.

    In training, random choices such as masks are drawn for each batch from torch's default
    generator; otherwise they are the same every time.
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
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        return self.__getitems__([index % len(self)])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """One batch of these examples."""
        draw = int(torch.randint(1 << 31, ())) if self.training else None
        batch: Batch = self.examples.make_batch(np.array(indices, np.int64), draw)
        return batch

    @staticmethod
    def collate(batch: Batch | list[Batch]) -> Batch:
        """The batch that the DataLoader fetched, unchanged."""
        if isinstance(batch, list):
            raise ToolkitError(
                "dataset.collate requires a DataLoader of the dataset itself or of its Subset, "
                "which fetch whole batches. Make one dataset of all texts."
            )
        return batch
