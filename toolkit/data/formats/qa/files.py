"""Files that the splits of questions are read from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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


def list_race_folders(inputs: Mapping[str, str]) -> SplitFiles:
    """Split -> its folders; trainpref alone may name the folder that has them all."""
    if set(inputs) == {"train"}:
        folders = {split: Path(inputs["train"]) / name for split, name in RACE_FOLDERS.items()}
        if folders["train"].is_dir():
            return {split: [folder] for split, folder in folders.items() if folder.is_dir()}
    return {
        split: [check_exists(f"{split}pref", Path(name)) for name in names.split(",") if name]
        for split, names in inputs.items()
    }
