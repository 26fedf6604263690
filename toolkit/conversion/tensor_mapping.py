"""Which tensors of ours and of another program hold the same numbers, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Shape = tuple[int, ...]


class Piece(NamedTuple):
    """One of our tensors, and theirs that are its rows, one above the other."""

    ours: str
    theirs: tuple[str, ...]
    axis: int | None = None
    """Where theirs have an axis of length 1 that ours lacks."""
    skipped: int = 0
    """Rows that theirs has before those of ours, which nothing reads."""

    def shape_of_theirs(self, ours: Shape) -> Shape:
        """Shape of each of theirs, from that of ours."""
        rows, *rest = ours
        shape = [rows // len(self.theirs) + self.skipped, *rest]
        if self.axis is not None:
            shape.insert(self.axis, 1)
        return tuple(shape)

    def joined(self, theirs: Mapping[str, Tensor]) -> Tensor:
        """Ours from theirs."""
        parts = [theirs[name][self.skipped :] for name in self.theirs]
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        return whole if self.axis is None else whole.squeeze(self.axis)

    def parted(self, ours: Tensor) -> dict[str, Tensor]:
        """Theirs from ours."""
        assert not self.skipped, "rows that were skipped are gone"
        whole = ours if self.axis is None else ours.unsqueeze(self.axis)
        parts = whole.chunk(len(self.theirs))
        return {name: part.contiguous() for name, part in zip(self.theirs, parts, strict=True)}


def affine(ours: str, *theirs: str) -> list[Piece]:
    """Weight and bias of a linear map or a norm."""
    return [
        Piece(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs))
        for part in ("weight", "bias")
    ]


def expected(pieces: Iterable[Piece], ours: Mapping[str, Tensor]) -> dict[str, Shape]:
    """Names and shapes of theirs that a model of ours needs."""
    return {
        name: piece.shape_of_theirs(tuple(ours[piece.ours].shape))
        for piece in pieces
        for name in piece.theirs
    }
