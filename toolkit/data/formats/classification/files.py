"""Which files the splits of a table are read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig

Files = dict[str, list[Path]]
Names = Mapping[str, tuple[str, ...]]
"""Split -> what its file may be called in the benchmark's folder."""
OTHER = "_mismatched"
PACKED = ("", ".gz", ".xz")


def files_of(config: PreprocessConfig, known: Names) -> Files:
    """Split -> its files. A folder stands for the benchmark's own names in it.

    A folder given as trainpref alone stands for its files of all splits.
    """
    given = {name: getattr(config, f"{name}pref") for name in ("train", "valid", "test")}
    only = config.trainpref and not config.validpref and not config.testpref
    if only and Path(config.trainpref).is_dir():
        options = dict.fromkeys(given, config.trainpref)
        return gathered(options, known, needed="train")
    return gathered(given, known)


def gathered(given: dict[str, str], known: Names, needed: str = "") -> Files:
    """`needed` is the one split that a folder must have; without it, every one asked for."""
    found: Files = {}
    for kind, names in given.items():
        for name in filter(None, names.split(",")):
            path = Path(name)
            if path.is_dir():
                add(found, in_folder(path, kind, known, must=needed in ("", kind)))
            elif path.is_file():
                add(found, {split_of(path, kind, known): [path]})
            else:
                raise ToolkitError(
                    f"{kind}pref must name existing files, but {path} is not there. Correct the "
                    f"path (several are separated by commas, without spaces)."
                )
    return found


def add(found: Files, more: Files) -> None:
    for split, paths in more.items():
        found.setdefault(split, []).extend(paths)


def in_folder(folder: Path, kind: str, known: Names, *, must: bool) -> Files:
    """Those of one kind; matched and mismatched ones are two splits."""
    found = {}
    wanted = {s: n for s, n in known.items() if s.removesuffix(OTHER) == kind}
    for split, names in wanted.items():
        paths = (folder / f"{name}{packed}" for name in names for packed in PACKED)
        if (path := next((path for path in paths if path.is_file()), None)) is not None:
            found[split] = [path]
    if must and not found:
        raise ToolkitError(
            f"{kind}pref folder {folder} must hold {some(wanted.values())}, but does not. Name the "
            f"file itself."
        )
    return found


def some(names: Iterable[Sequence[str]]) -> str:
    found = [name for group in names for name in group]
    return " or ".join(found) or "a file of that split, which this task does not have"


def split_of(path: Path, kind: str, known: Names) -> str:
    """A file of mismatched genres is a split of its own, where the task has that."""
    other = kind + OTHER
    return other if other in known and "mismatched" in path.name else kind
