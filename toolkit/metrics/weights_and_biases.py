"""Figures of a run to Weights & Biases, where that is installed and asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.metrics.records import Record, Values, read_records, scalars
from toolkit.metrics.runs import LOG

IDENTITY = "wandb.json"  # in the save folder: which run there its figures go to


class WeightsAndBiases:
    """Numbers as train/loss, valid/loss, ... over `update`.

    A run that goes on from a checkpoint goes on there too. W&B forgets nothing, so what the log
    says was reported beyond the checkpoint is not sent again: make this before the log is cut.
    """

    def __init__(
        self, project: str, folder: Path, options: Mapping[str, Any], *, resumed_at: int = 0
    ) -> None:
        before = identity(folder, project) if resumed_at else None
        self.sent = reported(folder / LOG, after=resumed_at) if before else set()
        self.run = started(project, folder, options, before)
        self.run.define_metric("update")
        self.run.define_metric("*", step_metric="update")
        remember(folder, project, self.run.id)

    def write(self, event: str, values: Values) -> None:
        if event not in ("train", "valid") or place(event, values) in self.sent:
            return
        self.run.log({"update": values.get("update"), **scalars(event, values)})

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()
        self.run = None


def started(project: str, folder: Path, options: Mapping[str, Any], before: str | None) -> Any:
    """The run there, new or the one with this id."""
    try:
        import wandb
    except ImportError as error:
        raise ToolkitError(
            "logging.wandb_project needs wandb, but that is not installed. "
            "Run pip install 'toolkit-seq[wandb]', or leave the option out."
        ) from error
    try:
        return wandb.init(
            project=project,
            name=folder.name,
            dir=str(folder),
            config=dict(options),
            id=before,
            resume="allow" if before else None,
            settings=wandb.Settings(console="off"),  # the progress bar stays where it is
        )
    except wandb.Error as error:
        raise ToolkitError(
            f"logging.wandb_project must be open to you, but W&B says: {error}. Run wandb login, "
            f"or set WANDB_MODE=offline."
        ) from error


def identity(folder: Path, project: str) -> str | None:
    """The id under which the save folder's run was reported, if to the same project."""
    try:
        found = json.loads((folder / IDENTITY).read_text(encoding="utf-8"))
        return str(found["run"]) if found["project"] == project else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(folder: Path, project: str, run: str) -> None:
    try:
        text = json.dumps({"project": project, "run": run}) + "\n"
        (folder / IDENTITY).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolkitError(
            f"{folder / IDENTITY} must be writable, but is not: {error.strerror}. "
            f"Choose another --save-dir."
        ) from error


def reported(log: Path, *, after: int) -> set[tuple[str, Any, Any]]:
    """What the earlier run reported of later updates."""
    records: list[Record] = read_records(log) if log.exists() else []
    return {place(r.get("event"), r) for r in records if r.get("update", 0) > after}


def place(event: Any, values: Values) -> tuple[str, Any, Any]:
    return str(event), values.get("subset"), values.get("update")
