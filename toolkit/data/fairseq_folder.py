"""A folder that fairseq-preprocess --only-source wrote, read as it is."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.data.codec import CODEC_FILE
from toolkit.data.columns import Part
from toolkit.data.dictionary import Dictionary
from toolkit.data.fairseq_part import FairseqPart
from toolkit.data.own_folder import META_FILE
from toolkit.data.source import Source

COLUMN, DICTIONARY = "tokens", "dict.txt"
SAMPLES, SAMPLE_BYTES = 64, 4096


def is_fairseq(folder: Path) -> bool:
    """Whether it holds fairseq's files; one of our own has meta.json, or has lost it."""
    own = any((folder / name).exists() for name in (META_FILE, CODEC_FILE))
    return not own and folder.is_dir() and any(folder.glob("*.idx"))


class FairseqFolder(Source):
    """SPLIT.bin, SPLIT.idx and dict.txt. train, train1, train2, ... are one split, as in fairseq.

    The files have no checksums: `digest` is of the dictionary, of the files' sizes and of 64
    pieces of 4 KiB from each, so that a change that misses all of these is not noticed.
    """

    kind = "text"
    checksums = False

    def __init__(self, path: Path) -> None:
        self.path = path
        names = sorted(file.stem for file in path.glob("*.idx"))
        suffixed = [name for name in names if "." in name]
        if suffixed:
            raise ToolkitError(
                f"{path} must hold text in one language, such as train.idx, but holds "
                f"{suffixed[0]}.idx: parallel data cannot be read yet. Run fairseq-preprocess "
                f"with --only-source."
            )
        if not (path / DICTIONARY).exists():
            raise ToolkitError(
                f"{path} must hold fairseq's {DICTIONARY} beside its .idx files, but does not. "
                f"Copy it there."
            )
        self._stems: dict[str, list[str]] = {}
        for name in sorted(names, key=_by_number):
            split = "train" if re.fullmatch(r"train\d+", name) else name
            self._stems.setdefault(split, []).append(name)
        self.splits = sorted(self._stems, key=lambda name: (name != "train", name != "valid", name))
        self._dictionary = Dictionary.read(path / DICTIONARY)
        self.vocabulary = self._dictionary.vocabulary.fingerprint

    @cached_property
    def digest(self) -> str:
        found = hashlib.sha256(self.vocabulary.encode())
        for split in self.splits:
            for name in self._stems[split]:
                for ending in ("idx", "bin"):
                    found.update(f"{name}.{ending} ".encode())
                    found.update(_sampled(self.path / f"{name}.{ending}"))
        return found.hexdigest()

    def parts(self, split: str) -> dict[str, list[Part]]:
        words = self._dictionary.vocabulary
        return {
            COLUMN: [
                FairseqPart(self.path / name, split, symbols=len(words), sep=words.sep)
                for name in self._stems[split]
            ]
        }

    @property
    def facts(self) -> dict[str, str]:
        return {"written by": "fairseq-preprocess, without checksums"}

    def codec(self) -> Dictionary:
        return self._dictionary


def _by_number(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)


def _sampled(path: Path) -> bytes:
    """Digest of the size and of evenly spread pieces, the first and the last among them."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in np.linspace(0, max(0, size - SAMPLE_BYTES), SAMPLES, dtype=np.int64).tolist():
            file.seek(place)
            found.update(file.read(SAMPLE_BYTES))
    return found.digest()
