"""Names of the files in fairseq's folders, and its .idx file, version 1 (Ott et al. 2019)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.data.tokenizers.tokenizer import LanguagePair

MAGIC, OLD_MAGIC = b"MMIDIDX\0\0", b"TNTIDX\0\0"
HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the values' type, items
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
ITEM_BYTES = 4 + 8  # int32 length in values, int64 offset in bytes
CHUNK = 1 << 22

_REMEDY = "Copy it again, or run fairseq-preprocess again with --dataset-impl mmap."


@dataclass(frozen=True)
class FairseqIndex:
    """The contents of the header, checked against the sizes of both files."""

    path: Path
    dtype: np.dtype[Any]
    items: int
    elements: int

    def sizes(self) -> IntArray:
        """Values per item; checked not to be negative, and that items lie back to back."""
        lengths = np.memmap(self.path, "<i4", "r", HEADER.size, (self.items,))
        offsets = np.memmap(self.path, "<i8", "r", HEADER.size + 4 * self.items, (self.items,))
        sizes, end = np.empty(self.items, np.int64), 0
        for first in range(0, self.items, CHUNK):
            chunk = slice(first, first + CHUNK)
            sizes[chunk] = lengths[chunk]
            ends = end + np.cumsum(sizes[chunk])
            expected = (ends - sizes[chunk]) * self.dtype.itemsize
            wrong = np.flatnonzero((sizes[chunk] < 0) | (offsets[chunk] != expected))
            if len(wrong):
                item = first + int(wrong[0])
                raise ToolkitError(
                    f"{self.path} must list items back to back, but item {item} has "
                    f"{lengths[item]} values and starts at byte {offsets[item]}. {_REMEDY}"
                )
            end = int(ends[-1])
        if end != self.elements:
            raise ToolkitError(
                f"{self.path} must list the {self.elements} values of its .bin file, but lists "
                f"{end}. {_REMEDY}"
            )
        return sizes


def read_index(path: Path) -> FairseqIndex:
    """Reads 26 bytes, the last item's entries and the sizes of both files."""
    values = path.with_suffix(".bin")
    try:
        open_regular(values).close()
        with open_regular(path) as file:
            head = file.read(HEADER.size)
        size, value_bytes = path.stat().st_size, values.stat().st_size
    except OSError as error:
        raise ToolkitError(
            f"{error.filename} must be readable, but is not: {error.strerror}. Copy it again."
        ) from error
    if head.startswith(OLD_MAGIC):
        raise ToolkitError(
            f"{path} must be written by fairseq-preprocess --dataset-impl mmap, but is in the "
            f"older format of lazy or cached. Run fairseq-preprocess again."
        )
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise ToolkitError(
            f"{path} must start like fairseq's index, but is damaged or another program's. "
            f"{_REMEDY}"
        )
    _, version, code, items = HEADER.unpack(head)
    if version != 1 or code not in DTYPES:
        raise ToolkitError(
            f"{path} must have version 1 and integers (type {', '.join(map(str, DTYPES))}), but "
            f"has version {version} and type {code}. {_REMEDY}"
        )
    dtype = np.dtype(DTYPES[code])
    _check_sizes(path, size, items, value_bytes, dtype.itemsize)
    return FairseqIndex(path, dtype, items, value_bytes // dtype.itemsize)


def _check_sizes(path: Path, size: int, items: int, value_bytes: int, value_size: int) -> None:
    """In Python's integers, which do not overflow, and before anything is allocated."""
    if size != HEADER.size + ITEM_BYTES * items:
        raise ToolkitError(
            f"{path} must have {HEADER.size + ITEM_BYTES * items} bytes for its {items} items, but "
            f"has {size}: it is truncated or another program's (Megatron's start alike). {_REMEDY}"
        )
    if items == 0:
        raise ToolkitError(f"{path} must list items, but lists none. Give fairseq-preprocess text.")
    if value_bytes % value_size:
        raise ToolkitError(
            f"{path.with_suffix('.bin')} must hold values of {value_size} bytes, but has "
            f"{value_bytes} bytes: it is truncated. {_REMEDY}"
        )
    with path.open("rb") as file:
        file.seek(HEADER.size + 4 * (items - 1))
        (last,) = struct.unpack("<i", file.read(4))
        file.seek(-8, 2)
        (start,) = struct.unpack("<q", file.read(8))
    if last < 0 or start < 0 or start + last * value_size != value_bytes:
        raise ToolkitError(
            f"{path} must end where {path.with_suffix('.bin').name} does, but its last item has "
            f"{last} values from byte {start} on and that file {value_bytes} bytes. {_REMEDY}"
        )


NAME = re.compile(r"(?P<split>[^.]+)(?:\.(?P<pair>[^.]+)\.(?P<language>[^.]+))?")
"""`train.idx`, or `train.de-en.de.idx` for the German side of German to English."""


def find_languages(folder: Path, preferred: LanguagePair | None) -> tuple[str, tuple[str, ...]]:
    """The language pair as in the file names, and its source and target; or one language.

    A monolingual folder has none in its file names, or one in the pair LANG-None. The preferred
    pair is used if the folder has it, in this direction or the other; else the only one.
    """
    languages: dict[str, set[str]] = {}
    for match in match_names(folder):
        languages.setdefault(match["pair"] or "", set()).add(match["language"] or "")
    directions = {pair: found for pair in languages if (found := split_pair(pair, languages[pair]))}
    if preferred:
        for direction in (preferred, preferred[::-1]):
            if direction in directions.values():
                return "-".join(direction), preferred
    if len(languages) == 1:
        pair, own = next(iter(languages.items()))
        if len(own) == 1 and pair in ("", f"{min(own)}-None"):
            return pair, tuple(own)
        if pair in directions:
            return pair, directions[pair]
    raise languages_error(folder, [*directions] if directions.keys() == languages.keys() else [])


def split_pair(pair: str, languages: set[str]) -> LanguagePair | None:
    """Source and target of a pair that has files in both."""
    both = permutations(sorted(languages), 2) if len(languages) == 2 else ()
    return next((names for names in both if "-".join(names) == pair), None)


def languages_error(folder: Path, pairs: list[str]) -> ToolkitError:
    """The error for a folder without exactly one language pair."""
    if pairs:
        return ToolkitError(
            f"{folder} holds several language pairs: {', '.join(sorted(pairs))}. Choose one with "
            f"--source-lang and --target-lang of toolkit-train."
        )
    names = ", ".join(f"{match[0]}.idx" for match in match_names(folder)[:6])
    return ToolkitError(
        f"{folder} must hold text in one language, or both sides of language pairs, such as "
        f"train.de-en.de.idx and train.de-en.en.idx, but holds {names}. Give each pair its own "
        f"folder."
    )


def list_splits(folder: Path, pair: str) -> list[str]:
    """The splits of a pair, train10 after train9."""
    matches = [match for match in match_names(folder) if (match["pair"] or "") == pair]
    return sorted({match["split"] for match in matches}, key=by_number)


def match_names(folder: Path) -> list[re.Match[str]]:
    """The parts of the names of all index files; other names are an error."""
    matches = {path.name: NAME.fullmatch(path.stem) for path in sorted(folder.glob("*.idx"))}
    for name, match in matches.items():
        if match is None:
            raise ToolkitError(
                f"{folder / name} must be named like train.idx or train.de-en.de.idx, but is not. "
                f"Take it out of the folder."
            )
    return [match for match in matches.values() if match]


def by_number(name: str) -> tuple[str, int]:
    """Sort key that orders numbered names by number."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
