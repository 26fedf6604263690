"""Which checkpoints a run no longer needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.common import strict_json
from toolkit.common.bounded import read_text
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import CheckpointConfig
from toolkit.training import manifest
from toolkit.training.checkpoint import STATE
from toolkit.training.save_folder import update_of
from toolkit.training.validation import improves


def superfluous(folders: Sequence[Path], c: CheckpointConfig, metric: str) -> list[Path]:
    """Of checkpoints, newest first, those that no option keeps.

    What cannot be read is not ours to judge, and stays.
    """
    ends: list[Path] = []
    others: list[Path] = []
    for folder in folders:
        reasons = reasons_of(folder)
        if reasons is not None:
            (ends if "epoch" in reasons else others).append(folder)
    kept = {*(ends[: c.keep_last_epochs] if c.keep_last_epochs else ends)}
    kept |= {*(others[: c.keep_interval_updates] if c.keep_interval_updates else others)}
    if pattern := c.keep_interval_updates_pattern:
        kept |= {folder for folder in others if update_of(folder) % pattern == 0}
    if c.keep_best_checkpoints:
        kept |= {*best(folders, metric, c.keep_best_checkpoints)}
    return [folder for folder in (*ends, *others) if folder not in kept]


def reasons_of(folder: Path) -> Sequence[str] | None:
    """Why a checkpoint was saved; None where it does not say."""
    try:
        return list(manifest.read(folder).get("reasons", []))
    except (ToolkitError, OSError):
        return None


def best(folders: Sequence[Path], metric: str, most: int) -> list[Path]:
    """So many of the best by the validation that went before them; of equal ones the newer."""
    found: list[tuple[float, Path]] = []
    for folder in folders:
        value = figure_of(folder, metric)
        if value is not None:
            place = sum(not improves(metric, value, other) for other, _ in found)
            found.insert(place, (value, folder))
    return [folder for _, folder in found[:most]]


def figure_of(folder: Path, metric: str) -> float | None:
    """The figure of the first validation subset at a checkpoint's update, where there is one."""
    try:
        validation: Any = strict_json.loads(read_text(folder / STATE))["observers"]["validation"]
        figures: Any = next(iter(validation["latest"].values()), None)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    fresh = validation.get("validated_at") == update_of(folder)
    value = figures.get(metric) if fresh and isinstance(figures, dict) else None
    return float(value) if isinstance(value, int | float) and value == value else None
