"""The files that options name: those of a benchmark, of a Hugging Face dataset, and streams.

Files of a benchmark are found by their published names. Datasets are folders that save_to_disk
wrote, or that were downloaded from the Hub. Standard input and pipes can be read only once: they
are stored until the end of the run.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import FileName, read_json
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.records import FOLDER_SUFFIXES
from toolkit.data.text_files import COMPRESSION_SUFFIXES, check_exists, list_files

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


STDIN = "-"


@contextmanager
def store_streams(config: PreprocessConfig, folder: Path) -> Iterator[PreprocessConfig]:
    """The config with files in the folder in place of standard input and pipes.

    Errors name the streams, not these files. The files are deleted at the end of the block.
    """
    names = [name for names in config.inputs.values() for name in names.split(",")]
    if not any(map(is_stream, names)):
        yield config
        return
    if names.count(STDIN) > 1:
        raise ToolkitError("standard input (-) can be given only once, because it is read once.")
    with TemporaryDirectory(prefix="streams-", dir=folder) as temporary:
        files = {name: store(name, Path(temporary)) for name in names if is_stream(name)}
        inputs: dict[str, Any] = {
            f"{split}pref": ",".join(str(files.get(name, name)) for name in names.split(","))
            for split, names in config.inputs.items()
        }
        try:
            yield replace(config, **inputs)
        except ToolkitError as error:
            message = str(error)
            for name, file in files.items():
                message = message.replace(str(file), "standard input" if name == STDIN else name)
            raise ToolkitError(message) from error


def is_stream(name: str) -> bool:
    """Whether a name is standard input or a named pipe."""
    return name == STDIN or Path(name).is_fifo()


def store(name: str, folder: Path) -> Path:
    """Copy a stream to a file with its ending, if it has one."""
    file = folder / ("standard-input" if name == STDIN else Path(name).name)
    with file.open("xb") as output:
        if name != STDIN:
            with open_regular(Path(name), allow_pipe=True) as pipe:
                shutil.copyfileobj(pipe, output)
            return file
        if sys.stdin.isatty():
            print("Reading text from standard input; end with Ctrl-D.", file=sys.stderr)
        shutil.copyfileobj(sys.stdin.buffer, output)
    return file
