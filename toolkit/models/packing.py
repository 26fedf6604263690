"""Sentences of a batch one after another, without the padding between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int32, Shaped
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.ops.kernel_inputs import SentenceRows

MULTIPLE = 64
"""Packed rows are filled up to a multiple of it, so that batches have fewer shapes."""


class Packing(NamedTuple):
    """Where the tokens of padded sentences are in packed rows.

    B sentences   S tokens of a sentence, padding included   N packed rows   M rows without filler
    """

    starts: Int32[Tensor, " B+1"]
    """First row of each sentence; the last sentence is filler."""
    lengths: Int32[Tensor, " B+1"]
    sources: Int[Tensor, " N"]
    """Flat index into B x S of the token in each row; filler repeats index 0."""
    tokens: int
    """M."""
    rows: Int[Tensor, "B S"]
    """Row of each token; 0 at padding."""
    keeps_padding: bool = False
    """Whether the rows are the padded sentences, of which attention skips the padding."""

    def pack(self, x: Shaped[Tensor, "B S"]) -> Shaped[Tensor, "1 N"]:
        return x.flatten().index_select(0, self.sources)[None]

    def unpack(self, x: Float[Tensor, "1 N D"]) -> Float[Tensor, "B S D"]:
        """0 at padding that was not kept."""
        padded = x.new_zeros(self.rows.numel(), x.shape[-1])
        packed = padded.index_copy(0, self.sources[: self.tokens], x[0, : self.tokens])
        return packed.unflatten(0, self.rows.shape)

    def find_rows(self, selected: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
        """Rows of tokens that are given by flat indices into B x S."""
        return self.rows.flatten().index_select(0, selected)

    def list_rows(self, positions: Int[Tensor, "1 N"] | None) -> SentenceRows:
        """The packed sentences; they are in order without position ids."""
        ids = None if positions is None else positions[0]
        longest, covers_all = self.rows.shape[1], not self.keeps_padding
        if covers_all:
            longest = max(longest, MULTIPLE - 1)  # of filler
        return SentenceRows(self.starts, self.lengths, longest, ids, covers_all)

    def position_ids(self) -> Int[Tensor, "1 N"]:
        """0, 1, ... in each sentence."""
        return (self.sources % self.rows.shape[1])[None]


def list_rows(
    tokens: Int[Tensor, "B S"], positions: Int[Tensor, "B S"] | None, packing: Packing | None
) -> SentenceRows:
    """The sentences with their padding, which `packing` tells from tokens; None: no padding."""
    sentences, length = tokens.shape
    ends = sentences * length
    starts = torch.arange(0, ends, length, device=tokens.device, dtype=torch.int32)
    lengths = starts.new_full((sentences,), length) if packing is None else packing.lengths[:-1]
    ids = None if positions is None else positions.flatten()
    return SentenceRows(starts, lengths, length, ids, covers_all=packing is None)


def pack_padding(padding: Bool[Tensor, "B S"]) -> Packing | None:
    """The packing of a batch on the host, in pinned memory if the padding is; None if padding is
    not at the ends of sentences.
    """
    if not padding_is_at_ends(padding):
        return None
    real, lengths = ~padding, (~padding).sum(1)
    sources = real.flatten().nonzero().squeeze(1)
    count = len(sources)
    filler = -count % MULTIPLE
    sizes = torch.cat([lengths, lengths.new_tensor([filler])]).int()
    rows = (real.flatten().cumsum(0) - 1).view_as(real).masked_fill_(padding, 0)
    starts = sizes.cumsum(0, dtype=torch.int32) - sizes
    sources = torch.cat([sources, sources.new_zeros(filler)])
    starts, sizes, sources, rows = pin_like(padding, starts, sizes, sources, rows)
    return Packing(starts, sizes, sources, count, rows)


def keep_padding(padding: Bool[Tensor, "B S"]) -> Packing | None:
    """A packing whose shapes follow from that of the batch, as CUDA graphs require."""
    if not padding_is_at_ends(padding):
        return None
    sentences, length = padding.shape
    sizes = F.pad((~padding).sum(1, dtype=torch.int32), (0, 1))
    starts = torch.arange(0, padding.numel() + 1, length, dtype=torch.int32)
    sources = torch.arange(padding.numel())
    starts, sizes, sources = pin_like(padding, starts, sizes, sources)
    rows = sources.view(sentences, length)
    return Packing(starts, sizes, sources, padding.numel(), rows, keeps_padding=True)


def padding_is_at_ends(padding: Bool[Tensor, "B S"]) -> bool:
    """Whether every sentence has its padding at its end."""
    return not bool((padding[:, :-1] & ~padding[:, 1:]).any())


def pin_like(padding: Tensor, *tensors: Tensor) -> Sequence[Tensor]:
    """The tensors in pinned memory if `padding` is in it."""
    return [t.pin_memory() for t in tensors] if padding.is_pinned() else tensors
