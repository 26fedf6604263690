"""Mapping between the tensors of a learner and those of another program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Shape = tuple[int, ...]


class TensorMapping(NamedTuple):
    """A tensor of the toolkit, and the external tensors that are concatenated to it."""

    toolkit_name: str
    external_names: tuple[str, ...]
    axis: int | None = None
    """An axis of length 1 that only the external tensors have."""
    skipped_rows: int = 0
    """Number of unused rows at the start of the external tensor."""

    def external_shape(self, shape: Shape) -> Shape:
        """Shape of each external tensor, from the shape of the toolkit's."""
        rows, *rest = shape
        external = [rows // len(self.external_names) + self.skipped_rows, *rest]
        if self.axis is not None:
            external.insert(self.axis, 1)
        return tuple(external)

    def join(self, external: Mapping[str, Tensor]) -> Tensor:
        """The toolkit's tensor from the external ones."""
        parts = [external[name][self.skipped_rows :] for name in self.external_names]
        joined = torch.cat(parts) if len(parts) > 1 else parts[0]
        return joined if self.axis is None else joined.squeeze(self.axis)

    def split(self, tensor: Tensor) -> dict[str, Tensor]:
        """The external tensors from the toolkit's."""
        assert not self.skipped_rows, "skipped rows cannot be restored"
        expanded = tensor if self.axis is None else tensor.unsqueeze(self.axis)
        parts = expanded.chunk(len(self.external_names))
        return {
            name: part.contiguous() for name, part in zip(self.external_names, parts, strict=True)
        }


def affine_mappings(toolkit_name: str, *external_names: str) -> list[TensorMapping]:
    """Mappings of weight and bias of a linear map or a norm."""
    return [
        TensorMapping(f"{toolkit_name}.{part}", tuple(f"{name}.{part}" for name in external_names))
        for part in ("weight", "bias")
    ]


def expected_shapes(
    mappings: Iterable[TensorMapping], tensors: Mapping[str, Tensor]
) -> dict[str, Shape]:
    """Name -> shape of the external tensors that a learner requires."""
    return {
        name: mapping.external_shape(tuple(tensors[mapping.toolkit_name].shape))
        for mapping in mappings
        for name in mapping.external_names
    }
