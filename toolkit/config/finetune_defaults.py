"""Default architecture of --finetune-from: that of the checkpoint."""

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
    """The architecture of the checkpoint that --finetune-from names, unless one is named.

    Files and flags override its options.
    """
    if "arch.name" in values or FINETUNE_OPTION not in values or not values[FINETUNE_OPTION].value:
        return {}
    folder = resolve_checkpoint_dir(Path(str(values[FINETUNE_OPTION].value)), MANIFEST)
    arch = read_component(folder, "arch", "--finetune-from")
    return {
        f"arch.{name}": OptionValue(value, f"--finetune-from {folder}")
        for name, value in arch.items()
    }


def read_component(folder: Path, section: str, option: str) -> dict[str, Any]:
    """Name and options of a component of the run that wrote a checkpoint folder."""
    try:
        component = read_json(folder / CONFIG)["run"][section]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ToolkitError(
            f"{option}: {folder} is not a checkpoint with a readable {CONFIG} ({error}). "
            f"Choose another checkpoint."
        ) from error
    if not isinstance(component, dict) or not isinstance(component.get("name"), str):
        raise ToolkitError(
            f"{option}: {folder / CONFIG} does not name the checkpoint's {section}. Choose another "
            f"checkpoint."
        )
    return component


def resolve_checkpoint_dir(folder: Path, file: str) -> Path:
    """The folder itself if it has the file; else the best checkpoint in it, or the last."""
    if (folder / file).exists():
        return folder
    return next((folder / name for name in CHECKPOINT_LINKS if (folder / name).exists()), folder)
