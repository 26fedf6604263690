"""What a learner answered to each example of a split, for figures that are no means and for files.

Collected by toolkit-validate; during training by tasks that say so (`Task.answers_in_training`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.distributed import World
from toolkit.reporting.tables import Table


class PredictionCollector(ABC):
    @abstractmethod
    def update(self, batch: Any, predictions: Mapping[str, Prediction]) -> None:
        """Those of one batch."""

    def update_from_encoder(self, encoder: nn.Module, batch: Any) -> None:
        """What the encoder itself makes of a batch, such as what it writes; most need nothing."""
        return

    @abstractmethod
    def sync(self, world: World) -> None:
        """Those of all ranks, on each; every rank must ask, when the split is through."""

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """Beside those that add up over batches."""

    def tables(self) -> Sequence[Table]:
        """For people, where figures do not tell all."""
        return []

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """For programs, likewise: each an event's name and what it tells."""
        return []

    @abstractmethod
    def write(self, path: Path) -> None:
        """The split's own files, with the answers in place of what they hold."""


def check_unique_ids(names: Sequence[str], kind: str) -> None:
    """Answers of several sources may be called the same, and one would hide the other."""
    counted = Counter(names)
    if len(counted) < len(names):
        raise ToolkitError(
            f"answers must be told apart by their {kind}, but {counted.most_common(1)[0][0]!r} is "
            f"there twice. Preprocess the sources apart."
        )
