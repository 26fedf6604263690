"""Folders of Hugging Face datasets, saved by save_to_disk or downloaded from the Hub."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FileName, read_json
from toolkit.data.records import FOLDER_SUFFIXES
from toolkit.data.text_files import check_exists, list_files

SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
"""Split -> what datasets call it."""
_SHARD = re.compile(r"(\w+)-\d{5}-of-\d{5}\b")


class DataFile(TypedDict):
    """A file of a dataset."""

    filename: FileName


class SavedDataset(TypedDict):
    """state.json of a dataset."""

    _data_files: list[DataFile]


def list_row_files(split: str, names: str) -> list[Path]:
    """The files of rows that a comma-separated option names, or those of a split in its folders."""
    files: list[Path] = []
    for name in filter(None, names.split(",")):
        path = check_exists(f"{split}pref", Path(name))
        if (path / "dataset_dict.json").is_file():
            splits = {folder.name: folder for folder in path.iterdir() if folder.is_dir()}
            path = find_split(path, split, splits)
        if (path / "state.json").is_file():
            files += list_saved_files(path)
            continue
        listed = list_files(f"{split}pref", str(path), FOLDER_SUFFIXES)
        files += select_shards(path, split, listed) if path.is_dir() else listed
    return files


def find_split(folder: Path, split: str, found: Mapping[str, Any]) -> Any:
    """What was found for a split under one of its names."""
    for name in SPLIT_NAMES[split]:
        if name in found:
            return found[name]
    raise ToolkitError(
        f"{split}pref {folder} has no split {' or '.join(SPLIT_NAMES[split])}, but has "
        f"{', '.join(sorted(found))}. Name the files of one of them."
    )


def list_saved_files(folder: Path) -> list[Path]:
    """The files of a saved dataset in order; others in its folder are caches."""
    state = read_json(folder / "state.json", SavedDataset, "Name the files themselves.")
    files = [folder / file["filename"] for file in state["_data_files"]]
    return [check_exists(str(folder / "state.json"), file) for file in files]


def select_shards(folder: Path, split: str, files: Sequence[Path]) -> Sequence[Path]:
    """Those of the split if all are shards, such as train-00000-of-00002.parquet, of several."""
    shards = dict[str, list[Path]]()
    for file in files:
        match = _SHARD.match(file.name)
        if match is None:
            return files
        shards.setdefault(match[1], []).append(file)
    selected: Sequence[Path] = find_split(folder, split, shards) if len(shards) > 1 else files
    return selected
