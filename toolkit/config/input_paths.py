"""Files and folders that are given where a command expects something else, and what to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from glob import escape
from itertools import islice, takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.checkpoint_defaults import CHECKPOINT_LINKS, MANIFEST
from toolkit.config.command import Command
from toolkit.config.flags import missing_dashes_error

COMPRESSION = (".gz", ".xz", ".zst")
ROWS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow")
CHECKPOINT_FILES = (MANIFEST, *CHECKPOINT_LINKS)
DATASET_FILES = ("dataset_info.json", "dataset_dict.json", "state.json")
TEXT_FIELD = " --text-field FIELD"
PREPROCESS_OPTIONS = {
    ".conllu": " --format conllu",
    ".mrg": " --format ptb",
    **dict.fromkeys(ROWS, TEXT_FIELD),
}
"""Ending of a file -> options of toolkit-preprocess that read it."""
MAX_LISTED_FILES, INSPECTED_BYTES = 1000, 4096


class InputPath(NamedTuple):
    """A path that is no data folder."""

    kind: Literal["raw", "checkpoint", "config", "transformers"]
    description: str
    """Such as "a text file"."""
    paths: tuple[str, ...]
    options: str = ""
    """Options of toolkit-preprocess that read it, with a leading space."""

    def remedy(self, remedies: Mapping[str, str] | None = None) -> str:
        """What to do; `remedies` are those of a command, by kind."""
        text = {**REMEDIES, **(remedies or {})}[self.kind]
        return text.format(path=shlex.quote(",".join(self.paths)), options=self.options)


REMEDIES = {
    "raw": "Run toolkit-preprocess --trainpref {path}{options} --destdir data.",
    "checkpoint": "Give the folder of toolkit-preprocess.",
    "config": "Write --config {path}.",
    "transformers": "Run toolkit-convert import {path} converted.",
}
"""Kind -> what to do if the command has no option for it."""


def identify_path(text: str) -> InputPath | None:
    """What a path holds; None for data folders and what is not recognized."""
    path = Path(text)
    try:
        if path.is_dir():
            return identify_folder(path)
        return identify_file(path) if path.is_file() else identify_prefix(path)
    except OSError:  # the path is too long or unreadable
        return None


def identify_folder(path: Path) -> InputPath | None:
    """The kind of a folder by the names of its files; None for data folders and unknown ones."""
    names = {file.name for file in islice(path.iterdir(), MAX_LISTED_FILES)}
    if "meta.json" in names or any(name.endswith(".idx") for name in names):
        return None
    text = str(path)
    if names & {*CHECKPOINT_FILES}:
        one = "a checkpoint" if MANIFEST in names else "a save folder"
        return InputPath("checkpoint", one, (text,))
    if "config.json" in names and any(n.endswith((".safetensors", ".bin")) for n in names):
        return InputPath("transformers", "a model of Transformers", (text,))
    if "tokenizer_config.json" in names:  # a data folder without its meta.json
        return None
    if names & {*DATASET_FILES}:
        return InputPath("raw", "a Hugging Face dataset", (text,), TEXT_FIELD)
    if "train.tsv" in names:
        return InputPath("raw", "a folder of tables", (text,), " --format glue --glue-task TASK")
    files = [name for name in names if (path / name).is_file() and not name.startswith(".")]
    files.sort(key=lambda name: (Path(name).suffix not in PREPROCESS_OPTIONS, name))
    found = identify_file(path / files[0]) if files else None
    if found is None or found.kind != "raw":
        return None
    return found._replace(description=f"a folder of {found.description[2:]}s", paths=(text,))


def identify_file(path: Path) -> InputPath | None:
    """The kind of a file by its ending and first bytes; None for unknown binary files."""
    ending = (path.with_suffix("") if path.suffix in COMPRESSION else path).suffix
    if ending in (".yaml", ".yml"):
        return InputPath("config", "a configuration file", (str(path),))
    with path.open("rb") as file:
        head = file.read(INSPECTED_BYTES)
    if ending in PREPROCESS_OPTIONS:
        options = " --format squad" if b'"paragraphs"' in head else PREPROCESS_OPTIONS[ending]
        return InputPath("raw", f"a {ending} file", (str(path),), options)
    is_text = path.suffix in COMPRESSION or b"\0" not in head
    return InputPath("raw", "a text file", (str(path),)) if is_text else None


def identify_prefix(path: Path) -> InputPath | None:
    """`corpus/train` of corpus/train.de and corpus/train.en."""
    siblings = path.parent.glob(f"{escape(path.name)}.??*") if path.name else []
    languages = sorted({file.name.removeprefix(f"{path.name}.").split(".")[0] for file in siblings})
    if len(languages) != 2:
        return None
    options = f" --source-lang {languages[0]} --target-lang {languages[1]}"
    return InputPath("raw", f"text in {' and '.join(languages)}", (str(path),), options)


def check_leading_words(argv: Sequence[str], command: Command) -> None:
    """Raise if words before the first flag name something else than the command expects."""
    words = [*takewhile(lambda word: not word.startswith("-"), argv)]
    if words and command.positional in ("", "data.dirs", "dirs"):
        found = identify_path(words[0])
        if found is not None:
            others = filter(None, map(identify_path, words[1:]))
            alike = [it.paths[0] for it in others if it._replace(paths=found.paths) == found]
            raise misplaced_path_error(found._replace(paths=(*found.paths, *alike)), command)


def misplaced_path_error(found: InputPath, command: Command) -> ToolkitError:
    """The error for a path that the command does not read, with a remedy."""
    remedy = found.remedy(command.misplaced_paths)
    if not command.positional:
        return ToolkitError(f"unexpected argument {found.paths[0]!r}. {remedy}")
    return ToolkitError(f"{found.paths[0]} is {found.description}, not a data folder. {remedy}")


def unexpected_word_error(word: str, command: Command) -> ToolkitError:
    """The error for a word of a command that takes none."""
    found = identify_path(word)
    return misplaced_path_error(found, command) if found else missing_dashes_error(word)
