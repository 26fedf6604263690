"""state.json of a checkpoint: the state of a run except its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import STATE
from toolkit.common.json_files import Count, convert, read_json
from toolkit.optim.precision import LossScaleState
from toolkit.training.callbacks.validation import ValidationState
from toolkit.training.step import State, TrainingProgress


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """Digests of the examples of a run, and of their order in an epoch."""

    examples: str
    order: str


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """The contents of state.json."""

    progress: TrainingProgress
    callbacks: dict[str, State]
    """Name -> state of a callback."""
    loss_scale: LossScaleState | None = None
    precision: str
    ranks: Count = 1
    data: Fingerprints

    @property
    def validation(self) -> ValidationState | None:
        """The validation's state; None if the run has none."""
        state = self.callbacks.get("validation")
        return None if state is None else convert(state, ValidationState)

    def __post_init__(self) -> None:
        _ = self.validation


def require_state(folder: Path) -> SavedState:
    """The state in a verified checkpoint of a run."""
    return read_json(folder / STATE, SavedState, manifest.REMEDY, non_finite=True)


def read_state(folder: Path) -> SavedState | None:
    """The state in a verified checkpoint; None for an average or an import."""
    return require_state(folder) if (folder / STATE).exists() else None
