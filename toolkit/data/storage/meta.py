"""A data folder of toolkit-preprocess: meta.json, the tokenizer's files, and checked columns."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.common.digest import sha256
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import open_untrusted, read_json
from toolkit.data.storage.column_reader import CheckedColumnPart
from toolkit.data.storage.columns import ColumnPart
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.tokenizer import Tokenizer

META_FILE = "meta.json"
TARGET = "target"
"""The folder inside that holds the tokenizer of the language that is written."""
FORMAT, VERSION = "toolkit data folder", 1


def digest_of_meta(meta: Mapping[str, Any]) -> str:
    """sha256 of everything meta.json says except the digest itself."""
    said = {key: value for key, value in meta.items() if key != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def build_meta(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    kind: str,
    settings: Mapping[str, Any],
    splits: Mapping[str, Any],
    target: Mapping[str, Any] | None = None,
    more_files: Sequence[str] = (),
) -> dict[str, Any]:
    """What meta.json says of a folder whose tokenizer is saved; `target` is of a second
    vocabulary."""
    words, names = tokenizer.vocabulary, (*tokenizer.files, *more_files)
    symbols = {"symbols": len(words), "fingerprint": words.fingerprint}
    meta: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "vocabulary": {**symbols, **(target or {})},
        "files": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names},
        "settings": dict(settings),
        "splits": dict(splits),
    }
    return {**meta, "digest": digest_of_meta(meta)}


def write_meta(path: Path, meta: Mapping[str, Any]) -> None:
    """The last file of a folder; it appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(meta, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json, checked: kind of file, version, digest."""
    path = folder / META_FILE
    if not folder.is_dir():
        raise ToolkitError(
            f"{folder} must be a folder that toolkit-preprocess wrote, but there is none. "
            f"Run toolkit-preprocess first, or correct the path."
        )
    try:
        meta = read_json(path)
    except FileNotFoundError as error:
        raise ToolkitError(
            f"{folder} must be a folder that toolkit-preprocess wrote, but has no {META_FILE}. "
            f"Run toolkit-preprocess to the end, or correct the path."
        ) from error
    except (OSError, ValueError) as error:
        raise ToolkitError(
            f"{path} must be readable JSON, but is not ({error}). Run toolkit-preprocess again."
        ) from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ToolkitError(f"{path} must be written by toolkit-preprocess, but is another file.")
    if meta.get("version") != VERSION:
        raise ToolkitError(
            f"{path} was written by format {meta.get('version')}, this toolkit reads {VERSION}. "
            f"Run toolkit-preprocess again, or upgrade."
        )
    if meta.get("digest") != digest_of_meta(meta):
        raise ToolkitError(
            f"{path} must match its own digest, but was damaged or edited. "
            f"Run toolkit-preprocess again."
        )
    return meta


class ToolkitFolder(FolderSource):
    """Opening checks meta.json, the tokenizer's files and every header and size; it reads no
    token."""

    checksums = True

    def __init__(self, path: Path) -> None:
        self.path, self.meta = path, read_meta(path)
        self.kind = str(self.meta["kind"])
        self.vocabulary = str(self.meta["vocabulary"]["fingerprint"])
        self.splits = list(self.meta["splits"])
        for name, expected in self.meta["files"].items():
            _check_file(resolve_listed_file(path, name), expected)

    @property
    def digest(self) -> str:
        """Digest of the vocabularies and columns; independent of how settings are called."""
        splits = [
            (split, sorted(part_facts(entry) for entry in facts["columns"].values()))
            for split, facts in self.meta["splits"].items()
        ]
        vocabularies = [v for v in self.meta["vocabulary"].values() if isinstance(v, str)]
        return hashlib.sha256(repr((sorted(vocabularies), splits)).encode()).hexdigest()

    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        """Column -> its parts, with equal item counts."""
        columns = self.meta["splits"][split]["columns"]
        found: dict[str, list[ColumnPart]] = {
            column: [_open_part(self.path, split, column, part, self.meta) for part in e["parts"]]
            for column, e in columns.items()
        }
        counts = {sum(part.items for part in parts) for parts in found.values()}
        if len(counts) != 1 or 0 in counts:
            raise ToolkitError(
                f"the columns of split {split!r} must have equal item counts above 0, but have "
                f"{sorted(counts)}. Run toolkit-preprocess again."
            )
        return found

    @property
    def facts(self) -> dict[str, str]:
        settings = self.meta["settings"].items()
        told = [n if v is True else f"{n} {v}" for n, v in settings if v not in (None, False, 0)]
        return {
            "written by": f"toolkit-preprocess, format {self.meta['version']}",
            "made with": ", ".join(told),
        }

    def counts(self, split: str) -> Mapping[str, int]:
        entry = self.meta["splits"][split]
        return {name: value for name, value in entry.items() if isinstance(value, int)}

    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.load(self.path)
        if tokenizer.vocabulary.fingerprint != self.vocabulary:
            raise ToolkitError(
                f"the vocabulary in {self.path} must be the one its data was written with, but is "
                f"another. Run toolkit-preprocess again."
            )
        return tokenizer


def _open_part(
    folder: Path, split: str, column: str, entry: Mapping[str, Any], meta: Mapping[str, Any]
) -> CheckedColumnPart:
    part = CheckedColumnPart(folder / Path(entry["stem"]).name, split, column)
    found = {
        "items": part.header.items,
        "elements": part.header.elements,
        "documents": part.header.documents,
        "checksums": list(part.checksums),
    }
    for name, value in found.items():
        if value != entry[name]:
            raise ToolkitError(
                f"{part.stem}.bin and .idx must be those that meta.json lists, but their {name} "
                f"are {value}, not {entry[name]}. They come from another run: preprocess again."
            )
    written = meta["vocabulary"]
    if part.header.fingerprint not in ("0" * 64, written["fingerprint"], written.get("target")):
        raise ToolkitError(
            f"{part.stem}.bin must be written with the vocabulary beside it, but was written with "
            f"another one. Run toolkit-preprocess again."
        )
    return part


def part_facts(column: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Sizes and checksums of the parts of a column."""
    names = ("items", "elements", "documents", "checksums")
    return [tuple(part[name] for name in names) for part in column["parts"]]


def resolve_listed_file(folder: Path, name: str) -> Path:
    """A file that meta.json lists: of the folder itself, or of the target language in it."""
    path = Path(name)
    return folder / TARGET / path.name if path.parent.name == TARGET else folder / path.name


def _check_file(path: Path, expected: str) -> None:
    try:
        with open_untrusted(path, max_bytes=None) as file:
            found = sha256(file.read())
    except OSError as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error.strerror}. Copy the folder again."
        ) from error
    if found != expected:
        raise ToolkitError(
            f"{path} must match its digest in {META_FILE}, but was damaged or replaced. "
            f"Copy the folder again, or run toolkit-preprocess again."
        )
