"""What a run that starts from a checkpoint's weights need not be told again: their architecture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.config.values import OptionValue, OptionValues

FINETUNE_OPTION = "checkpoint.finetune_from"
CHECKPOINT_LINKS = ("checkpoint_best", "checkpoint_last")
MANIFEST, CONFIG = "manifest.json", "config.json"


def default_architecture(values: Mapping[str, OptionValue]) -> OptionValues:
    """The architecture of the checkpoint that --finetune-from names, where none is named.

    Its options are the weakest ones: files and flags change them.
    """
    if "arch.name" in values or FINETUNE_OPTION not in values or not values[FINETUNE_OPTION].value:
        return {}
    folder = resolve_checkpoint_dir(Path(str(values[FINETUNE_OPTION].value)), MANIFEST)
    arch: Any = None
    try:
        saved = read_json(folder / CONFIG)
        arch = saved["run"]["arch"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ToolkitError(
            f"--finetune-from must name a checkpoint with a {CONFIG} that tells its architecture, "
            f"but {folder} is none ({error}). Check the path, or name one with --arch."
        ) from error
    if not isinstance(arch, dict) or not isinstance(arch.get("name"), str):
        raise ToolkitError(
            f"{folder / CONFIG} must tell the architecture of its checkpoint, but does not. Name "
            f"it with --arch."
        )
    return {
        f"arch.{name}": OptionValue(value, f"--finetune-from {folder}")
        for name, value in arch.items()
    }


def resolve_checkpoint_dir(folder: Path, file: str) -> Path:
    """The folder itself where it has the file; else the best checkpoint in it, or the last."""
    if (folder / file).exists():
        return folder
    return next((folder / name for name in CHECKPOINT_LINKS if (folder / name).exists()), folder)
