"""The result of a run: `result.json` in its save folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolkit.common import json_files
from toolkit.common.atomic import atomic_file
from toolkit.common.digest import sha256
from toolkit.common.errors import ToolkitError
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.training.step import Metrics


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The contents of `result.json`."""

    updates: int
    epochs: int
    """Completed epochs."""
    seconds: float
    """Training time without validation and saving, including that before resuming."""
    train: Metrics
    """The latest training metrics."""
    valid: Mapping[str, Metrics]
    """Split -> metrics of its latest validation."""
    best: Mapping[str, Any] | None
    """metric, value and update of the best validation, and its metrics by split as `valid`."""
    parameters: int
    """Number of trained parameters."""
    frozen_parameters: int = 0
    """Number of parameters that are not trained."""
    flops_per_token: float | None = None
    """FLOPs of an update per token of a batch; None if nothing was left to train."""
    signal: int | None = None
    """Number of the signal that stopped the run early; None if none did."""
    out_of_time: bool = False
    """Whether `stop_time_hours` ended the run early."""

    @property
    def exit_code(self) -> int:
        """0, or 128 + the signal's number."""
        return 128 + self.signal if self.signal else 0

    def write(self, folder: Path, config: RunConfig) -> None:
        """Write it next to the checkpoints, atomically."""
        run = to_dict(config)
        values = {**asdict(self), "config": run, "config_digest": config_digest(run)}
        write_results(folder / "result.json", json_files.dumps(values, indent=1) + "\n")


def write_results(path: Path, text: str) -> None:
    """Write or replace a file of results in one step."""
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(text, "utf-8")
    except OSError as error:
        raise ToolkitError(
            f"{path} could not be written: {error.strerror}. Make room, and run the same "
            f"command again: it will write the file."
        ) from error


def config_digest(run: Mapping[str, object]) -> str:
    """SHA-256 of a config, which identifies a run."""
    return sha256(json_files.dumps(run))
