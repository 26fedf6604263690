"""A preprocessed data folder: meta.json, the codec, and the columns of every split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.data.codec import Codec
from toolkit.data.columns import Column, Part
from toolkit.data.vocabulary import Vocabulary

META_FILE = "meta.json"
FORMAT, VERSION = "toolkit data folder", 1


def digest(meta: Mapping[str, Any]) -> str:
    """sha256 of everything meta.json says except the digest itself."""
    said = {key: value for key, value in meta.items() if key != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json, checked: kind of file, version, digest."""
    path = folder / META_FILE
    if not folder.is_dir():
        raise ToolkitError(
            f"{folder} must be a folder that toolkit-preprocess wrote, but there is none. "
            f"Run toolkit-preprocess first, or correct the path."
        )
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
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
    if meta.get("digest") != digest(meta):
        raise ToolkitError(
            f"{path} must match its own digest, but was damaged or edited. "
            f"Run toolkit-preprocess again."
        )
    return meta


@dataclass(frozen=True)
class Split:
    """Columns of one split, with equal item counts."""

    name: str
    columns: Mapping[str, Column]

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise ToolkitError(
                f"split {self.name!r} must have a column {name!r}, but has only "
                f"{', '.join(self.columns)}. This data is of another kind."
            )
        return self.columns[name]

    @property
    def items(self) -> int:
        return next(iter(self.columns.values())).items


class DataFolder:
    """One folder, or several of one vocabulary read as one. Opening reads no token."""

    def __init__(self, paths: Sequence[Path], metas: Sequence[Mapping[str, Any]]) -> None:
        self._paths, self._metas = list(paths), list(metas)
        self.path, self.kind = self._paths[0], str(metas[0]["kind"])
        self.fingerprint: str = (
            str(metas[0]["digest"])
            if len(metas) == 1
            else hashlib.sha256(" ".join(meta["digest"] for meta in metas).encode()).hexdigest()
        )
        self._opened = {name: self._open_split(name) for name in self.splits}

    @classmethod
    def open(cls, *paths: Path | str) -> DataFolder:
        """Check meta.json and every header and size; several folders must share a vocabulary."""
        if not paths:
            raise ToolkitError("a data folder must be given, but none is. Name one or more.")
        folders = [Path(path) for path in paths]
        metas = [read_meta(folder) for folder in folders]
        for folder, meta in zip(folders, metas, strict=True):
            for key in ("kind", "vocabulary"):
                if meta[key] != metas[0][key]:
                    raise ToolkitError(
                        f"data folders must agree on their {key}, but {folder} differs from "
                        f"{folders[0]}. Preprocess both with one --sentencepiece-model."
                    )
            for name, expected in meta["files"].items():
                _check_file(folder / name, expected)
        return cls(folders, metas)

    @property
    def splits(self) -> list[str]:
        return list(dict.fromkeys(name for meta in self._metas for name in meta["splits"]))

    @cached_property
    def codec(self) -> Codec:
        codec = Codec.load(self.path)
        if codec.vocabulary.fingerprint != self._metas[0]["vocabulary"]["fingerprint"]:
            raise ToolkitError(
                f"the vocabulary in {self.path} must be the one its data was written with, but is "
                f"another. Run toolkit-preprocess again."
            )
        return codec

    @property
    def vocabulary(self) -> Vocabulary:
        return self.codec.vocabulary

    def split(self, name: str) -> Split:
        if name not in self._opened:
            raise ToolkitError(
                f"no split of {self.path} is called {name!r}. Known: {', '.join(self.splits)}."
            )
        return self._opened[name]

    def _open_split(self, name: str) -> Split:
        parts: dict[str, list[Part]] = {}
        for folder, meta in zip(self._paths, self._metas, strict=True):
            for column, entry in meta["splits"].get(name, {}).get("columns", {}).items():
                parts.setdefault(column, []).extend(
                    _open_part(folder, name, column, part, meta) for part in entry["parts"]
                )
        columns = {column: Column(column, found) for column, found in parts.items()}
        counts = {column.items for column in columns.values()}
        if len(counts) != 1 or 0 in counts:
            raise ToolkitError(
                f"the columns of split {name!r} must have equal item counts above 0, but have "
                f"{sorted(counts)}. Run toolkit-preprocess again."
            )
        return Split(name, columns)


def _open_part(
    folder: Path, split: str, column: str, entry: Mapping[str, Any], meta: Mapping[str, Any]
) -> Part:
    part = Part(folder / Path(entry["stem"]).name, split, column)
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
    if part.header.fingerprint not in ("0" * 64, meta["vocabulary"]["fingerprint"]):
        raise ToolkitError(
            f"{part.stem}.bin must be written with the vocabulary beside it, but was written with "
            f"another one. Run toolkit-preprocess again."
        )
    return part


def _check_file(path: Path, expected: str) -> None:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error.strerror}. Copy the folder again."
        ) from error
    if found != expected:
        raise ToolkitError(
            f"{path} must match its digest in {META_FILE}, but was damaged or replaced. "
            f"Copy the folder again, or run toolkit-preprocess again."
        )
