"""Files that the splits of questions are read from."""

from __future__ import annotations

from pathlib import Path

from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.benchmark_files import FileNames, SplitFiles
from toolkit.data.text_files import check_exists

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


def list_race_folders(config: PreprocessConfig) -> SplitFiles:
    """Split -> its folders; trainpref alone may name the folder that has them all."""
    whole = Path(config.trainpref)
    if config.trainpref and not (config.validpref or config.testpref):
        parts = {split: whole / name for split, name in RACE_FOLDERS.items()}
        if parts["train"].is_dir():
            return {split: [part] for split, part in parts.items() if part.is_dir()}
    given = {split: getattr(config, f"{split}pref") for split in RACE_FOLDERS}
    return {
        split: [check_exists(f"{split}pref", Path(name)) for name in names.split(",") if name]
        for split, names in given.items()
        if names
    }
