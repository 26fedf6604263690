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
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.ragged import ragged_arange
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.models.interface import Inputs
from toolkit.tasks.shape_padding import pad_to_multiple

OBJECTIVE = "translation"
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class TranslationBatch(NamedTuple):
    """Sources, and their targets shifted: from each symbol the next one is told."""

    inputs: Inputs
    """Sources, each with the end symbol behind it."""
    previous: Int[Tensor, "B T"]
    """The end symbol, then the target; padding behind it."""
    selected: Int[Tensor, " N"]
    """Where `previous` is no padding, as flat indices into B x T; rows beyond the last repeat 0."""
    targets: Int[Tensor, " N"]
    """The symbol behind each of these, the end symbol last; IGNORED in rows that only fill up."""
    pair_ids: Int[Tensor, " B"]
    """Number of each pair in the split; -1 for an idle rank's."""
    weights: dict[str, float]
    sentences: int
    tokens: int
    """Of both sides."""


class TranslationExamples:
    """The pairs of one split."""

    def __init__(
        self,
        split: ParallelSplit,
        *,
        tokens_per_sample: int,
        overlength: str,
        training: bool,
        fixed_shapes: bool,
    ) -> None:
        self.split, self._fixed_shapes = split, fixed_shapes
        source, target = (side.lengths.astype(np.int64) for side in (split.source, split.target))
        most = tokens_per_sample - 1 if tokens_per_sample else int(max(source.max(), target.max()))
        longest = np.maximum(source, target)
        long = longest > most
        if overlength == "error" and long.any():
            raise_too_long(split, int(longest.argmax()), int(longest.max()) + 1, most + 1)
        stays = ~long if overlength == "skip" and training else np.full(len(long), True)
        if len(stays) and not stays.any():
            raise_all_too_long(split, most + 1)
        self.pair_ids: Numbers = np.flatnonzero(stays)
        self._source, self._target = (np.minimum(side, most)[stays] for side in (source, target))
        self.lengths: Numbers = np.maximum(self._source, self._target) + 1
        self.remark = overlength_remark(int(long.sum()), most + 1, int((~stays).sum()))
        options = (tokens_per_sample, overlength if long.any() else "")
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, split.name, *options)

    def collate(self, ids: Numbers, epoch: int | None) -> TranslationBatch:
        """The pairs side by side; without ids an idle rank's batch of weight zero."""
        idle = len(ids) == 0
        ids = np.zeros(1, np.int64) if idle else ids % len(self.lengths)
        numbers, split = self.pair_ids[ids], self.split
        words, written = split.tokenizer.vocabulary, split.tokenizer.target.vocabulary
        source = split.source.take(numbers, self._source[ids])
        target = split.target.take(numbers, self._target[ids])
        inside = np.arange(int(target.lengths.max()) + 1) <= target.lengths[:, None]
        wanted = append_eos(target, written.sep, written.pad)[inside]
        weight = 0.0 if idle else float(len(wanted))
        return TranslationBatch(
            inputs=to_source_inputs(source, words.sep, words.pad),
            previous=torch.from_numpy(prepend_eos(target, written.sep, written.pad)),
            selected=pad_to_multiple(np.flatnonzero(inside), 0, self._fixed_shapes),
            targets=pad_to_multiple(
                np.full_like(wanted, IGNORED) if idle else wanted, IGNORED, self._fixed_shapes
            ),
            pair_ids=torch.from_numpy(np.full(1, -1) if idle else numbers),
            weights={OBJECTIVE: weight},
            sentences=0 if idle else len(ids),
            tokens=0 if idle else int((source.lengths + target.lengths + 2).sum()),
        )


def append_eos(text: TokenTexts, end: int, pad: int) -> Numbers:
    """Each text, the end symbol and padding, B x T."""
    width = int(text.lengths.max()) + 1
    grid = np.full((len(text.lengths), width), pad, np.int64)
    begins = np.arange(len(grid)) * width
    grid.reshape(-1)[ragged_arange(begins, text.lengths)] = text.ids
    grid.reshape(-1)[begins + text.lengths] = end
    return grid


def prepend_eos(text: TokenTexts, end: int, pad: int) -> Numbers:
    """The end symbol, each text, and padding, B x T."""
    width = int(text.lengths.max()) + 1
    grid = np.full((len(text.lengths), width), pad, np.int64)
    grid.reshape(-1)[ragged_arange(np.arange(len(grid)) * width + 1, text.lengths)] = text.ids
    grid[:, 0] = end
    return grid


def to_source_inputs(text: TokenTexts, end: int, pad: int) -> Inputs:
    """Sources to be read; padding is None where there is none."""
    tokens, lengths = append_eos(text, end, pad), text.lengths + 1
    padding = np.arange(tokens.shape[1]) >= lengths[:, None]
    hidden = torch.from_numpy(padding) if padding.any() else None
    return Inputs(tokens=torch.from_numpy(tokens), padding=hidden)


def overlength_remark(long: int, most: int, left_out: int) -> str:
    """How many pairs are not as they stand in the data."""
    if not long:
        return ""
    return f"{long:,} with more than {most} tokens {'left out' if left_out else 'cut'}"


def raise_too_long(split: ParallelSplit, number: int, tokens: int, most: int) -> None:
    raise ToolkitError(
        f"sentences must have at most {most} tokens, the end symbol included, but pair {number} of "
        f"{split.name} in {split.folder.name} has {tokens}. Raise --tokens-per-sample as far as "
        f"the architecture lets you, or choose --task.overlength skip or truncate."
    )


def raise_all_too_long(split: ParallelSplit, most: int) -> None:
    raise ToolkitError(
        f"pairs to train on must have at most {most} tokens, the end symbol included, but none of "
        f"{split.name} in {split.folder.name} has so few. Raise --tokens-per-sample as far as the "
        f"architecture lets you, or choose --task.overlength truncate."
    )
