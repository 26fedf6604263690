"""The `checkpoint` section of a run: what it saves and resumes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.declared import NonNegativeInt, Options, PositiveInt
from toolkit.config.options import ADVANCED


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig(Options, section="checkpoint", title="checkpoints"):
    """The section `checkpoint`."""

    save_dir: str = "checkpoints"
    """Folder for checkpoints, log and result. A run resumes from the latest checkpoint in it, and
    keeps its options unless they are given."""
    restore_file: str | None = None
    """Checkpoint to resume from, or a save folder, whose latest checkpoint is used. One outside
    --save-dir is used only while --save-dir has no checkpoints, so that the same command resumes
    the run after an interruption."""
    finetune_from: str | None = None
    """Fine-tuning: checkpoint whose weights initialize the model. Its architecture is used unless
    --arch is given; nothing else is loaded from it."""
    save_interval_updates: NonNegativeInt = 0
    """Save every N updates, in addition to the end of each epoch (0: only there)."""
    keep_last_epochs: NonNegativeInt = 0
    """Keep only the last N end-of-epoch checkpoints (0: all). The last and the best always stay."""
    keep_interval_updates: NonNegativeInt = field(default=1, metadata=ADVANCED)
    """Keep only the last N checkpoints saved between epochs (0: all)."""
    keep_interval_updates_pattern: NonNegativeInt = field(default=0, metadata=ADVANCED)
    """Also keep the checkpoints between epochs whose update is a multiple of N (0: none)."""
    keep_best_checkpoints: NonNegativeInt = field(default=0, metadata=ADVANCED)
    """Also keep the N best checkpoints by --best-metric (0: only checkpoint_best)."""
    max_failed_saves: PositiveInt = field(default=3, metadata=ADVANCED)
    """Number of consecutive failed saves that stops the run. Earlier failures are logged."""
    no_save: bool = False
    """Save no checkpoints, only the log and the result."""
