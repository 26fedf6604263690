"""config.json of a checkpoint, and the default values from it.

A run that resumes keeps the options of its checkpoint. --finetune-from and others give the default
architecture alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from toolkit.common.json_files import JsonObject, convert, read_json
from toolkit.common.plugins import PluginRecord
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import CHECKPOINT_LINKS, MANIFEST, RUN, FindSavedRun
from toolkit.config.sections import CheckpointConfig
from toolkit.config.values import OptionValue, OptionValues, flatten_sections

CONFIG = "config.json"
Size = Annotated[int, Meta(ge=0, le=1 << 31)]
"""Number of rows of a table."""
FINETUNE_OPTION = "checkpoint.finetune_from"
SAVE_DIR, RESTORE_FILE = "checkpoint.save_dir", "checkpoint.restore_file"
START_OPTIONS = (SAVE_DIR, RESTORE_FILE, FINETUNE_OPTION)
"""Options that name a checkpoint with the defaults of others."""
ALTERNATIVES = (
    ("training.max_update", "training.max_epoch"),
    ("training.update_freq", "training.micro_batches_per_update"),
    ("training.precision", "training.fp16", "training.bf16"),
    ("lr_scheduler.warmup_updates", "lr_scheduler.warmup_fraction"),
)
"""Options of one choice. If a run resumes with one of them, it does not keep the others' values."""


class Named(TypedDict):
    """The section of a component."""

    name: str


class Data(TypedDict, total=False):
    """The section of the data."""

    dirs: list[str]


class Components(TypedDict):
    """Sections that every run has."""

    arch: Named
    task: Named
    optimizer: Named
    lr_scheduler: Named


class Sections(Components, total=False):
    """What is checked before the options are known."""

    data: Data


@dataclass(frozen=True, kw_only=True)
class SavedConfig:
    """The contents of config.json."""

    run: dict[str, JsonObject]
    """Section -> options, as `to_dict` gives them."""
    sizes: dict[str, Size]
    plugins: list[PluginRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        convert(self.run, Sections)
        if not self.sizes.get("tokens"):
            raise ValueError("sizes.tokens: expected a number above 0")


def read_saved_config(folder: Path) -> SavedConfig:
    """The configuration of a verified checkpoint."""
    return read_json(folder / CONFIG, SavedConfig, "Use another checkpoint.", non_finite=True)


def saved_values(given: OptionValues, find: FindSavedRun) -> OptionValues:
    """The values that the checkpoint's run had, except of components that are another one now.

    Where a run writes to is not taken over from another run.
    """
    paths = (SAVE_DIR, CheckpointConfig.save_dir), (RESTORE_FILE, "")
    folder, file = (given[path].value if path in given else default for path, default in paths)
    saved = find(str(folder), str(file or ""))
    if saved is None:
        return {}
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
    arch = read_saved_config(folder).run["arch"]
    return {
        f"arch.{name}": OptionValue(value, f"--finetune-from {folder}")
        for name, value in arch.items()
    }


def resolve_checkpoint_dir(folder: Path, file: str) -> Path:
    """The folder itself if it has the file; else the best checkpoint in it, or the last."""
    if (folder / file).exists():
        return folder
    return next((folder / name for name in CHECKPOINT_LINKS if (folder / name).exists()), folder)
