"""Which files the splits of questions are read from."""

from __future__ import annotations

from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.preprocess_formats import SQUAD
from toolkit.data.formats.classification.files import FileNames, SplitFiles, list_table_files

SQUAD_FILES: FileNames = {
    "train": ("train-v1.1.json", "train-v2.0.json", "train.json"),
    "valid": ("dev-v1.1.json", "dev-v2.0.json", "dev.json"),
    "test": ("test-v1.1.json", "test-v2.0.json", "test.json"),
}
SWAG_FILES: FileNames = {
    "train": ("train.csv", "train_full.csv"),
    "valid": ("val.csv", "val_full.csv"),
    "test": ("test.csv",),
}
RACE_FOLDERS = {"train": "train", "valid": "dev", "test": "test"}


def list_question_files(config: PreprocessConfig) -> SplitFiles:
    """Split -> its files; of RACE, its folders."""
    if config.format == SQUAD:
        return list_table_files(config, SQUAD_FILES)
    if config.format == "swag":
        return list_table_files(config, SWAG_FILES)
    given = {name: getattr(config, f"{name}pref") for name in RACE_FOLDERS}
    whole = Path(config.trainpref)
    if config.trainpref and not (config.validpref or config.testpref):
        parts = {split: whole / name for split, name in RACE_FOLDERS.items()}
        if parts["train"].is_dir():
            return {split: [part] for split, part in parts.items() if part.is_dir()}
    return {
        split: [check_exists(split, Path(name)) for name in names.split(",") if name]
        for split, names in given.items()
        if names
    }


def check_exists(split: str, path: Path) -> Path:
    if not path.exists():
        raise ToolkitError(
            f"{split}pref must name folders of passages, but {path} is not there. Correct the path "
            f"(several are separated by commas, without spaces)."
        )
    return path
