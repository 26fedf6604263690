"""Data folders of toolkit-preprocess: meta.json, tokenizer files and columns with checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import (
    FileName,
    FilePath,
    JsonObject,
    check_digest,
    convert,
    read_json,
    sha256,
    sha256_file,
)
from toolkit.config.command import MANIFEST
from toolkit.data.storage.column_files import (
    WORDS,
    CheckedColumnPart,
    ColumnEntry,
    ColumnPart,
    FolderSource,
)
from toolkit.data.tokenizers.tokenizer import TARGET, Tokenizer

META_FILE = "meta.json"
FORMAT, VERSION = "toolkit data folder", 2

REMEDY = "Run toolkit-preprocess again."


@dataclass(frozen=True, kw_only=True)
class Meta:
    """The contents of meta.json."""

    version: int
    kind: str
    vocabulary: dict[str, int | str]
    files: dict[FilePath, str]
    """File -> its SHA-256."""
    settings: JsonObject
    """The options of toolkit-preprocess."""
    splits: dict[str, JsonObject]

    def __post_init__(self) -> None:
        convert(self.vocabulary.get("fingerprint"), str)
        columns = {split: entry.get("columns") for split, entry in self.splits.items()}
        convert(columns, dict[FileName, dict[FileName, ColumnEntry]])
        convert([entry.get("files", []) for entry in self.splits.values()], list[list[FileName]])


def build_meta(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    kind: str,
    settings: JsonObject,
    splits: JsonObject,
    more_files: Sequence[str] = (),
) -> JsonObject:
    """meta.json of a folder with a saved tokenizer."""
    vocabulary, names = tokenizer.vocabulary, (*tokenizer.files, *more_files)
    facts: JsonObject = {"symbols": len(vocabulary), "fingerprint": vocabulary.fingerprint}
    if target := tokenizer.vocabularies().get("targets"):
        facts |= {"target_symbols": len(target), "target": target.fingerprint}
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "vocabulary": facts,
        "files": {name: sha256_file(folder / name) for name in names},
        "settings": dict(settings),
        "splits": dict(splits),
    }


def read_meta(folder: Path) -> Meta:
    """meta.json, with format, version and digest checked."""
    path = folder / META_FILE
    if not folder.exists():
        raise ToolkitError(
            f"No such data folder: {folder}. Run toolkit-preprocess first, or correct the path."
        )
    if not path.exists():
        raise ToolkitError(
            f"{folder} must be a data folder, but has no {META_FILE}. Turn text into one: "
            f"toolkit-preprocess --trainpref {folder} --destdir data. Name a checkpoint by --path."
        )
    meta = read_json(path, JsonObject, REMEDY)
    found = (meta.get("format"), meta.get("version"))
    if found != (FORMAT, VERSION):
        raise ToolkitError(
            f"{path} must be that of a {FORMAT} of version {VERSION}, but is of "
            f"{' '.join(map(str, found))}. Run toolkit-preprocess again, or upgrade."
        )
    return check_digest(path, meta, Meta, REMEDY)


class ToolkitFolder(FolderSource):
    """Opening checks meta.json, the tokenizer files, and every header and size."""

    checksums = True

    def __init__(self, path: Path) -> None:
        self.path, self.meta = path, read_meta(path)
        self.kind = self.meta.kind
        self.vocabulary_fingerprint = str(self.meta.vocabulary["fingerprint"])
        self.splits = list(self.meta.splits)
        active = {n: it for n, it in self.meta.settings.items() if it not in (None, False, 0)}
        made_with = [name if it is True else f"{name} {it}" for name, it in active.items()]
        self.facts = {
            "written by": f"toolkit-preprocess, format {self.meta.version}",
            "made with": ", ".join(made_with),
        }
        for name, expected in self.meta.files.items():
            listed = Path(name)  # in the folder itself, or in its subfolder `target`
            inner = TARGET if listed.parent.name == TARGET else ""
            check_file(path / inner / listed.name, expected)

    @property
    def digest(self) -> str:
        """Digest of the vocabularies and columns, independent of counts and names of settings."""
        sizes = itemgetter("items", "elements", "documents", "checksums")
        splits = [
            (split, sorted([sizes(it)] for name, it in entry["columns"].items() if name != WORDS))
            for split, entry in self.meta.splits.items()
        ]
        vocabularies = [v for v in self.meta.vocabulary.values() if isinstance(v, str)]
        return sha256(repr((sorted(vocabularies), splits)))

    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        columns = self.meta.splits[split]["columns"]
        return {
            name: [CheckedColumnPart(self.path / f"{split}.{name}", entry)]
            for name, entry in columns.items()
        }

    def counts(self, split: str) -> Mapping[str, int]:
        return select_counts(self.meta.splits[split])

    def load_tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.path)


def select_counts(entry: JsonObject) -> dict[str, int]:
    """The counts among the values of a split's entry in meta.json."""
    return {name: value for name, value in entry.items() if isinstance(value, int)}


def check_file(path: Path, expected: str, listing: str = META_FILE) -> None:
    """Raise unless a file has this SHA-256."""
    if sha256(read_bytes(path)) != expected:
        raise ToolkitError(
            f"{path} must match its digest in {listing}, but was damaged or replaced. "
            f"Copy the folder again, or run toolkit-preprocess again."
        )


def load_checked_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a data folder or a checkpoint, with the digests that the folder lists."""
    tokenizer = Tokenizer.load(folder)
    for listing in filter(Path.exists, (folder / META_FILE, folder / MANIFEST)):
        digests = convert(read_json(listing, JsonObject, REMEDY).get("files"), dict[str, str])
        for name in digests.keys() & {*tokenizer.files}:
            check_file(folder / name, digests[name], listing.name)
    return tokenizer
