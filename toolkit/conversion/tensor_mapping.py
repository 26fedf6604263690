"""Which tensors of ours and of another program hold the same numbers, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Shape = tuple[int, ...]


class TensorMapping(NamedTuple):
    """One of our tensors, and theirs that are its rows, one above the other."""

    toolkit_name: str
    external_names: tuple[str, ...]
    axis: int | None = None
    """Where theirs have an axis of length 1 that ours lacks."""
    skipped_rows: int = 0
    """Rows that theirs has before those of ours, which nothing reads."""

    def external_shape(self, ours: Shape) -> Shape:
        """Shape of each of theirs, from that of ours."""
        rows, *rest = ours
        shape = [rows // len(self.external_names) + self.skipped_rows, *rest]
        if self.axis is not None:
            shape.insert(self.axis, 1)
        return tuple(shape)

    def join(self, theirs: Mapping[str, Tensor]) -> Tensor:
        """Ours from theirs."""
        parts = [theirs[name][self.skipped_rows :] for name in self.external_names]
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        return whole if self.axis is None else whole.squeeze(self.axis)

    def split(self, ours: Tensor) -> dict[str, Tensor]:
        """Theirs from ours."""
        assert not self.skipped_rows, "rows that were skipped are gone"
        whole = ours if self.axis is None else ours.unsqueeze(self.axis)
        parts = whole.chunk(len(self.external_names))
        return {
            name: part.contiguous() for name, part in zip(self.external_names, parts, strict=True)
        }


def affine_mappings(ours: str, *theirs: str) -> list[TensorMapping]:
    """Weight and bias of a linear map or a norm."""
    return [
        TensorMapping(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs))
        for part in ("weight", "bias")
    ]


def expected_shapes(
    pieces: Iterable[TensorMapping], ours: Mapping[str, Tensor]
) -> dict[str, Shape]:
    """Names and shapes of theirs that a model of ours needs."""
    return {
        name: piece.external_shape(tuple(ours[piece.toolkit_name].shape))
        for piece in pieces
        for name in piece.external_names
    }
