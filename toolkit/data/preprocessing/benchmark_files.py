"""Files of a benchmark, found by their published names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.text_files import COMPRESSION_SUFFIXES, check_exists

SplitFiles = dict[str, list[Path]]
FileNames = Mapping[str, tuple[str, ...]]
"""Split -> what its file may be called in the benchmark's folder."""
MISMATCHED = "_mismatched"


def list_benchmark_files(config: PreprocessConfig, known: FileNames) -> SplitFiles:
    """Split -> its files. A folder stands for the benchmark's own names in it.

    A folder given as trainpref alone stands for its files of all splits.
    """
    given = {name: getattr(config, f"{name}pref") for name in ("train", "valid", "test")}
    only = config.trainpref and not config.validpref and not config.testpref
    if only and Path(config.trainpref).is_dir():
        options = dict.fromkeys(given, config.trainpref)
        return collect_files(options, known, needed="train")
    return collect_files(given, known)


def collect_files(given: dict[str, str], known: FileNames, needed: str = "") -> SplitFiles:
    """`needed` is the one split that a folder must have; without it, every one asked for."""
    found: SplitFiles = {}
    for kind, names in given.items():
        for name in filter(None, names.split(",")):
            path = check_exists(f"{kind}pref", Path(name))
            if path.is_dir():
                merge_files(found, find_in_folder(path, kind, known, must=needed in ("", kind)))
            else:
                merge_files(found, {detect_split(path, kind, known): [path]})
    return found


def merge_files(found: SplitFiles, more: SplitFiles) -> None:
    for split, paths in more.items():
        found.setdefault(split, []).extend(paths)


def find_in_folder(folder: Path, kind: str, known: FileNames, *, must: bool) -> SplitFiles:
    """Those of one kind; matched and mismatched ones are two splits."""
    found = {}
    wanted = {s: n for s, n in known.items() if s.removesuffix(MISMATCHED) == kind}
    for split, names in wanted.items():
        paths = (folder / f"{name}{packed}" for name in names for packed in COMPRESSION_SUFFIXES)
        if (path := next((path for path in paths if path.is_file()), None)) is not None:
            found[split] = [path]
    if must and not found:
        raise ToolkitError(
            f"{kind}pref folder {folder} must hold {format_names(wanted.values())}, but does not. "
            "Name the "
            f"file itself."
        )
    return found


def format_names(names: Iterable[Sequence[str]]) -> str:
    found = [name for group in names for name in group]
    return " or ".join(found) or "a file of that split, which this task does not have"


def detect_split(path: Path, kind: str, known: FileNames) -> str:
    """The split of a file; one of mismatched genres has its own split if the task has it."""
    other = kind + MISMATCHED
    return other if other in known and "mismatched" in path.name else kind
