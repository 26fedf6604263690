"""Sentences and what they become, put into batches side by side.

B batch   S places of a source   T places of a target   N places where something is written
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.loading.batching import fingerprint_of
from toolkit.data.ragged import ranges
from toolkit.data.samples.sequence_pairs import Texts
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import filled

OBJECTIVE = "translation"
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ParallelBatch(NamedTuple):
    """Sources, and their targets shifted: from each symbol the next one is told."""

    inputs: Inputs
    """Sources, each with the end symbol behind it."""
    previous: Int[Tensor, "B T"]
    """The end symbol, then the target; padding behind it."""
    places: Int[Tensor, " N"]
    """Where `previous` is no padding, as flat indices into B x T; rows beyond the last repeat 0."""
    targets: Int[Tensor, " N"]
    """The symbol behind each of these, the end symbol last; IGNORED in rows that only fill up."""
    rows: Int[Tensor, " B"]
    """Number of each pair in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int
    """Of both sides."""


class ParallelExamples:
    """The pairs of one split."""

    def __init__(
        self,
        split: ParallelSplit,
        *,
        tokens_per_sample: int,
        too_long: str,
        training: bool,
        fixed_shapes: bool,
    ) -> None:
        self.split, self._fixed_shapes = split, fixed_shapes
        source, target = (side.lengths.astype(np.int64) for side in (split.source, split.target))
        most = tokens_per_sample - 1 if tokens_per_sample else int(max(source.max(), target.max()))
        longest = np.maximum(source, target)
        long = longest > most
        if too_long == "error" and long.any():
            refuse_long(split, int(longest.argmax()), int(longest.max()) + 1, most + 1)
        stays = ~long if too_long == "skip" and training else np.full(len(long), True)
        if len(stays) and not stays.any():
            refuse_all(split, most + 1)
        self.numbers: Numbers = np.flatnonzero(stays)
        self._source, self._target = (np.minimum(side, most)[stays] for side in (source, target))
        self.lengths: Numbers = np.maximum(self._source, self._target) + 1
        self.remark = remark_of(int(long.sum()), most + 1, int((~stays).sum()))
        options = (tokens_per_sample, too_long if long.any() else "")
        self.fingerprint = fingerprint_of(split.folder.fingerprint, split.name, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> ParallelBatch:
        """The pairs side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        numbers, split = self.numbers[ids], self.split
        words, written = split.codec.vocabulary, split.codec.target.vocabulary
        source = split.source.take(numbers, self._source[ids])
        target = split.target.take(numbers, self._target[ids])
        inside = np.arange(int(target.lengths.max()) + 1) <= target.lengths[:, None]
        wanted = ended(target, written.sep, written.pad)[inside]
        weight = 0.0 if idle else float(len(wanted))
        return ParallelBatch(
            inputs=inputs_of(source, words.sep, words.pad),
            previous=torch.from_numpy(begun(target, written.sep, written.pad)),
            places=filled(np.flatnonzero(inside), 0, self._fixed_shapes),
            targets=filled(
                np.full_like(wanted, IGNORED) if idle else wanted, IGNORED, self._fixed_shapes
            ),
            rows=torch.from_numpy(np.full(1, -1) if idle else numbers),
            weights={OBJECTIVE: weight},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int((source.lengths + target.lengths + 2).sum()),
        )


def ended(text: Texts, end: int, pad: int) -> Numbers:
    """Each text, the end symbol and padding, B x T."""
    width = int(text.lengths.max()) + 1
    grid = np.full((len(text.lengths), width), pad, np.int64)
    begins = np.arange(len(grid)) * width
    grid.reshape(-1)[ranges(begins, text.lengths)] = text.ids
    grid.reshape(-1)[begins + text.lengths] = end
    return grid


def begun(text: Texts, end: int, pad: int) -> Numbers:
    """The end symbol, each text, and padding, B x T."""
    width = int(text.lengths.max()) + 1
    grid = np.full((len(text.lengths), width), pad, np.int64)
    grid.reshape(-1)[ranges(np.arange(len(grid)) * width + 1, text.lengths)] = text.ids
    grid[:, 0] = end
    return grid


def inputs_of(text: Texts, end: int, pad: int) -> Inputs:
    """Sources to be read; padding is None where there is none."""
    tokens, lengths = ended(text, end, pad), text.lengths + 1
    padding = np.arange(tokens.shape[1]) >= lengths[:, None]
    hidden = torch.from_numpy(padding) if padding.any() else None
    return Inputs(tokens=torch.from_numpy(tokens), padding=hidden)


def remark_of(long: int, most: int, left_out: int) -> str:
    """How many pairs are not as they stand in the data."""
    if not long:
        return ""
    return f"{long:,} with more than {most} tokens {'left out' if left_out else 'cut'}"


def refuse_long(split: ParallelSplit, number: int, tokens: int, most: int) -> None:
    raise ToolkitError(
        f"sentences must have at most {most} tokens, the end symbol included, but pair {number} of "
        f"{split.name} in {split.folder.name} has {tokens}. Raise --tokens-per-sample as far as "
        f"the architecture lets you, or choose --task.too-long skip or truncate."
    )


def refuse_all(split: ParallelSplit, most: int) -> None:
    raise ToolkitError(
        f"pairs to train on must have at most {most} tokens, the end symbol included, but none of "
        f"{split.name} in {split.folder.name} has so few. Raise --tokens-per-sample as far as the "
        f"architecture lets you, or choose --task.too-long truncate."
    )
