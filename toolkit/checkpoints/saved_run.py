"""The run that toolkit-train resumes, read before its options are known."""

from __future__ import annotations

from pathlib import Path

from toolkit.checkpoints import manifest
from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.config.checkpoint_defaults import CONFIG, read_saved_config
from toolkit.config.command import SavedRun


def find_saved_run(save_dir: str, restore_file: str) -> SavedRun | None:
    """The run of the checkpoint to resume from, with verified options; None if there is none.

    Damaged checkpoints are skipped here, and reported by the run.
    """
    save_folder = SaveFolder(Path(save_dir))
    named = save_folder.choose_restore_file(Path(restore_file)) if restore_file else None
    for folder in [named] if named else save_folder.resume_candidates():
        try:
            manifest.verify(folder, only=(CONFIG,))
            options = read_saved_config(folder).run
        except ToolkitError:
            continue
        return SavedRun(options, str(folder), in_save_dir=save_folder.contains(folder))
    return None
