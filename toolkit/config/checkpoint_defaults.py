"""Default values from a checkpoint.

A run that resumes keeps the options of its checkpoint. --finetune-from and others give the default
architecture alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import RUN, FindSavedRun
from toolkit.config.sections import CheckpointConfig
from toolkit.config.values import OptionValue, OptionValues

FINETUNE_OPTION = "checkpoint.finetune_from"
SAVE_DIR, RESTORE_FILE = "checkpoint.save_dir", "checkpoint.restore_file"
START_OPTIONS = (SAVE_DIR, RESTORE_FILE, FINETUNE_OPTION)
"""Options that name a checkpoint with the defaults of others."""
CHECKPOINT_LINKS = ("checkpoint_best", "checkpoint_last")
MANIFEST, CONFIG = "manifest.json", "config.json"
ALTERNATIVES = (
    ("training.max_update", "training.max_epoch"),
    ("training.update_freq", "training.micro_batches_per_update"),
    ("training.precision", "training.fp16", "training.bf16"),
    ("lr_scheduler.warmup_updates", "lr_scheduler.warmup_fraction"),
)
"""Options of one choice. If a run resumes with one of them, it does not keep the others' values."""


def saved_values(given: OptionValues, find: FindSavedRun) -> OptionValues:
    """The values that the checkpoint's run had, except of components that are another one now.

    Where a run writes to is not taken over from another run.
    """
    paths = (SAVE_DIR, CheckpointConfig.save_dir), (RESTORE_FILE, "")
    folder, file = (given[path].value if path in given else default for path, default in paths)
    saved = find(str(folder), str(file or ""))
    if saved is None:
        return {}
    from toolkit.config.sources import flatten_sections  # PyYAML is slow to import

    values = flatten_sections(saved.options, RUN, saved.checkpoint)
    own = () if saved.in_save_dir else ("checkpoint.", "logging.")
    names = {section: f"{section}.name" for section in COMPONENTS}
    others = [
        f"{section}."
        for section, name in names.items()
        if name in given and name in values and given[name].value != values[name].value
    ]
    left_out = (SAVE_DIR, RESTORE_FILE, *own, *others)
    return {path: value for path, value in values.items() if not path.startswith(left_out)}


def conflicting_options(given: Iterable[str]) -> set[str]:
    """The options that are not given, but are alternatives of one that is."""
    given = set(given)
    return {path for group in ALTERNATIVES if given & {*group} for path in group} - given


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
