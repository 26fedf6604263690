"""Checkpoints of a model without the state of a training run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from toolkit import __version__
from toolkit.checkpoints.load import MODEL, write_config
from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.checkpoints.tensor_files import write_tensors
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import RunConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes


def write_model(
    target: Path,
    tensors: Mapping[str, Tensor],
    *,
    run: RunConfig,
    sizes: Sizes,
    tokenizer: Tokenizer,
    facts: Mapping[str, object],
    write_more: Callable[[Path], object] = lambda folder: None,
) -> None:
    """Write a checkpoint without optimizer state; `write_more` adds files to its folder."""

    def fill(folder: Path) -> None:
        write_tensors(folder / MODEL, tensors)
        write_config(folder, run, sizes)
        tokenizer.save(folder)
        write_more(folder)

    versions = {"toolkit": __version__, "torch": torch.__version__}
    facts = {"update": 0, "epoch": 0, **facts, "versions": versions}
    SaveFolder(target.parent).write(target.name, fill, facts)


def check_metadata(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Raise unless JSON can hold the metadata."""
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ToolkitError(
            f"metadata must be a mapping of text, finite numbers, lists and mappings, but "
            f"{error}. Convert its values first."
        ) from None
    return metadata
