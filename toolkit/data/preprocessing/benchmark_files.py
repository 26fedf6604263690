"""Files of a benchmark, found by their published names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import COMPRESSION_SUFFIXES, check_exists

SplitFiles = dict[str, list[Path]]
FileNames = Mapping[str, tuple[str, ...]]
"""Split -> what its file may be called in the benchmark's folder."""
MISMATCHED = "_mismatched"
_VERSION = re.compile(r"-v\d+(\.\d+)?")


def list_benchmark_files(inputs: Mapping[str, str], known: FileNames) -> SplitFiles:
    """Split -> its files, from the names that options give.

    A folder stands for the benchmark's own names in it. A folder given as trainpref alone stands
    for its files of all splits, of which only the training file is required.
    """
    required = set(inputs)
    if required == {"train"} and Path(inputs["train"]).is_dir():
        inputs = dict.fromkeys(("train", "valid", "test"), inputs["train"])
    files: SplitFiles = {}
    for option, names in inputs.items():
        for name in filter(None, names.split(",")):
            path = check_exists(f"{option}pref", Path(name))
            found = [(detect_split(path, option, known), path)]
            if path.is_dir():
                found = find_in_folder(path, option, known, required=option in required)
            for split, file in found:
                files.setdefault(split, []).append(file)
    return files


def find_in_folder(
    folder: Path, option: str, known: FileNames, *, required: bool
) -> list[tuple[str, Path]]:
    """The files of train, valid or test; matched and mismatched genres are two splits."""
    found, names = list[tuple[str, Path]](), list[str]()
    for split, split_names in known.items():
        if split.removesuffix(MISMATCHED) == option:
            names += split_names
            paths = [folder / (name + s) for name in split_names for s in COMPRESSION_SUFFIXES]
            present = [path for path in paths if path.is_file()]
            check_one_version(f"{option}pref folder {folder}", present)
            found += [(split, path) for path in present[:1]]
    if required and not found:
        listed = " or ".join(names) or "a file of that split, which this task does not have"
        raise ToolkitError(
            f"{option}pref folder {folder} must hold {listed}, but does not. Name the file itself."
        )
    return found


def check_one_version(where: str, paths: Sequence[Path]) -> None:
    """Raise if a split has files of several versions of a data set, such as SQuAD's."""
    versions = {match[0]: path.name for path in paths if (match := _VERSION.search(path.name))}
    if len(versions) > 1:
        found = " and ".join(versions.values())
        raise ToolkitError(
            f"{where} must hold one version of the data, but holds {found}. Name the file itself."
        )


def detect_split(path: Path, option: str, known: FileNames) -> str:
    """The split of a file; mismatched genres have a separate split if the task has one."""
    mismatched = option + MISMATCHED
    return mismatched if mismatched in known and "mismatched" in path.name else option
