"""Tensors and settings of another program's model: their names here, and what does not match.

Those of LTG-BERT and GPT-BERT are packed as their authors publish them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.reporting.console import Console
from toolkit.reporting.tables import Table

Shape = tuple[int, ...]
NameTable = Mapping[str, str]
"""Names of the toolkit -> those of another program, without .weight and .bias. `*` is the number of
a layer, and {a b} stands for several tensors, which are concatenated."""

LAYER = re.compile(r"(?<=\.layers\.)\d+(?=\.)")
MAX_ROWS = 50
KINDS = ("missing", "misshapen", "extra", "unusable")
WEIGHTS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


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


def find_mappings(
    names: Iterable[str], table: NameTable, shapes: Mapping[str, Mapping[str, Any]]
) -> list[TensorMapping]:
    """The mappings of those tensors of the toolkit that the table names.

    `shapes` has the axis or the skipped rows of tensors by their names with `*`.
    """
    mappings = []
    for name in names:
        layer = LAYER.search(name)
        general = LAYER.sub("*", name)
        stem, _, part = general.rpartition(".")
        if external := table.get(general) or (f"{table[stem]}.{part}" if stem in table else ""):
            before, _, rest = external.replace("*", layer[0] if layer else "").partition("{")
            several, _, after = rest.partition("}")
            parts = tuple(before + it + after for it in several.split()) or (before,)
            mappings.append(TensorMapping(name, parts, **shapes.get(general, {})))
    return mappings


def expected_shapes(
    mappings: Iterable[TensorMapping], tensors: Mapping[str, Tensor]
) -> dict[str, Shape]:
    """Name -> shape of the external tensors that a learner requires."""
    return {
        name: mapping.external_shape(tuple(tensors[mapping.toolkit_name].shape))
        for mapping in mappings
        for name in mapping.external_names
    }


class Mismatch(NamedTuple):
    """A setting or tensor that differs from what the model requires."""

    kind: str
    where: str
    found: str
    required: str


def check_none(source: object, mismatches: Sequence[Mismatch]) -> None:
    """Print the mismatches as a table and raise a ToolkitError if there are any."""
    if not mismatches:
        return
    rows, more = [list(mismatch) for mismatch in mismatches[:MAX_ROWS]], len(mismatches) - MAX_ROWS
    note = f"and {more:,} more" if more > 0 else ""
    Table(columns=Mismatch._fields, rows=rows, note=note).print(Console(file=sys.stderr))
    kinds = list(dict.fromkeys(mismatch.kind for mismatch in mismatches))
    raise ToolkitError(
        f"{source} cannot be converted without loss: {len(mismatches)} "
        f"{'mismatch' if len(mismatches) == 1 else 'mismatches'} ({', '.join(kinds)}), see the "
        f"table. Nothing was written."
    )


def compare_tensors(
    tensors: Mapping[str, Tensor], required: Mapping[str, Shape], file: str
) -> list[Mismatch]:
    """Missing, misshapen and extra tensors, and those that are not finite numbers."""
    problems: list[Mismatch] = []
    for name in dict.fromkeys((*required, *tensors)):
        tensor, wanted = tensors.get(name), required.get(name)
        shape = None if tensor is None else tuple(tensor.shape)
        kind = "missing" if tensor is None else "extra" if wanted is None else "misshapen"
        found, valid = format_shape(shape), format_shape(wanted)
        if tensor is not None and shape == wanted:
            kind, valid = "unusable", "finite float32, float16, ..."
            found = str(tensor.dtype).removeprefix("torch.")
            if tensor.dtype in WEIGHTS:
                found = "" if tensor.isfinite().all() else "NaN or infinity"
        if found:
            problems.append(Mismatch(f"{kind} tensor", f"{file}: {name}", found, valid))
    return sorted(problems, key=lambda it: KINDS.index(it.kind.partition(" ")[0]))


def compare_tied(
    copies: Mapping[str, Tensor], tied: Mapping[str, str], tensors: Mapping[str, Tensor], file: str
) -> list[Mismatch]:
    """Copies of tied tensors that differ from the originals that `tied` names."""
    problems = []
    for name, tensor in copies.items():
        original = tensors.get(tied[name])
        equal = original is not None and tensor.dtype == original.dtype
        if original is None or not equal or not torch.equal(tensor, original):
            where, required = f"{file}: {name}", f"as {tied[name]}"
            problems.append(Mismatch("untied tensor", where, "others", required))
    return problems


def format_shape(shape: Shape | None) -> str:
    """A shape as text, such as 768 x 768; a dash for None."""
    return "-" if shape is None else " x ".join(map(str, shape)) or "one number"


ALPHAS = "dwa_modules.alphas"
PAIRS = ("in_proj_qk", "in_proj_vg")
"""Maps of two results, of which each has half of the rows."""


def unpack(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One tensor for each map, such as in_proj_q and in_proj_k, and one for all weighted sums.

    The gate of feed-forward networks comes first, and the table of offsets has a row before its
    first, which no offset uses. Tensors of unknown shapes keep their names.
    """
    found, alphas = dict(saved), dict[int, Tensor]()
    for name, tensor in saved.items():
        owner, _, kind = name.rpartition(".")
        if kind == "position_indices":  # a buffer of old files
            del found[name]
        elif owner == ALPHAS and kind.isdecimal():
            alphas[int(kind)] = tensor
        elif not tensor.dim() or (len(tensor) % 2 and kind != "relative_embedding"):
            continue
        elif owner.endswith(PAIRS):
            both = zip(owner[-2:], found.pop(name).chunk(2), strict=True)
            found |= {f"{owner[:-2]}{letter}.{kind}": part for letter, part in both}
        elif owner.endswith("mlp.1"):
            found[name] = swap_halves(tensor)
        elif kind == "relative_embedding" and tensor.dim() == 2:
            found[name] = F.pad(tensor, (0, 0, 1, 0))
    if alphas and all(alphas.get(i, torch.empty(0)).shape == (i + 2,) for i in range(len(alphas))):
        rows = [F.pad(alphas[i], (0, len(alphas) - i - 1)) for i in range(len(alphas))]
        found = {name: it for name, it in found.items() if not name.startswith(f"{ALPHAS}.")}
        found[ALPHAS] = torch.stack(rows)
    return found


def pack(found: Mapping[str, Tensor], tied: Mapping[str, str]) -> dict[str, Tensor]:
    """The published tensors, with the copies of those that are tied: what `unpack` reads."""
    saved = dict(found)
    for name, tensor in found.items():
        owner, _, kind = name.rpartition(".")
        for pair in PAIRS:
            second = f"{owner[:-1]}{pair[-1]}.{kind}"
            if owner.endswith(pair[:-1]) and second in found:
                saved[f"{owner}{pair[-1]}.{kind}"] = torch.cat([saved.pop(name), saved.pop(second)])
        if owner.endswith("mlp.1"):
            saved[name] = swap_halves(tensor)
        elif kind == "relative_embedding":
            saved[name] = tensor[1:].contiguous()
        elif name.endswith(ALPHAS):
            saved |= {f"{name}.{i}": row[: i + 2].clone() for i, row in enumerate(saved.pop(name))}
    for copy, original in tied.items():
        if any(name.endswith(copy.rpartition(".")[0] + ".bias") for name in found):
            saved[copy] = next(it for name, it in found.items() if name.endswith(original)).clone()
    return saved


def swap_halves(tensor: Tensor) -> Tensor:
    """The second half of the rows, then the first."""
    return torch.cat(tensor.chunk(2)[::-1])
