"""Records of the parts that one of several processes has written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, convert, read_json, write_json
from toolkit.data.formats.text.binarize import TOKENS, BinarizedPart, PartTask, binarize
from toolkit.data.formats.text.config import TextFormatConfig
from toolkit.data.storage.meta import PartEntry, open_listed_part


class PartCounts(TypedDict):
    """Counts of a part's items and tokens."""

    unknown: Count
    empty: Count
    overlength: Count
    lost_tokens: Count


@dataclass(frozen=True)
class WrittenPart:
    """What a record says of a split."""

    entry: JsonObject
    """The part's entry in meta.json."""
    counts: PartCounts

    def __post_init__(self) -> None:
        convert(self.entry, PartEntry)


@dataclass(frozen=True)
class PartRecord:
    """The contents of a record."""

    identity: dict[str, str]
    splits: dict[str, WrittenPart]


class PartRecords(NamedTuple):
    """One JSON file per part, written after the part's columns."""

    folder: Path
    columns: Path
    """Folder of the columns."""
    identity: Mapping[str, str]
    """Digests of the tokenizer, the options and the input that all parts must share."""

    def binarize(
        self, task: PartTask, *, folder: Path, options: TextFormatConfig, max_line_bytes: int
    ) -> dict[str, BinarizedPart]:
        """Write a part, and then its record."""
        parts = binarize(task, folder=folder, options=options, max_line_bytes=max_line_bytes)
        self.write(task, parts)
        return parts

    def write(self, task: PartTask, parts: Mapping[str, BinarizedPart]) -> None:
        splits = {split: {"entry": p.entry, "counts": p.counts} for split, p in parts.items()}
        record: JsonObject = {"identity": dict(self.identity), "splits": splits}
        write_json(self._path(task.split, task.number), record, sync=True)

    def read(self, split: str, number: int) -> dict[str, BinarizedPart]:
        """What `binarize` returned for a part. Raises ToolkitError unless it is finished."""
        part = f"part {number} of {split}"
        path = self._path(split, number)
        if not path.exists():
            raise ToolkitError(f"{part} has not been written")
        record = read_json(path, PartRecord, "Write the part again.")
        for what, digest in self.identity.items():
            if record.identity.get(what) != digest:
                raise ToolkitError(f"{part} was written with another {what}")
        parts = {
            name: BinarizedPart(found.entry, Counter(found.counts))
            for name, found in record.splits.items()
        }
        for name, found in parts.items():
            open_listed_part(self.columns, name, TOKENS, found.entry)
        return parts

    def is_finished(self, task: PartTask) -> bool:
        try:
            self.read(task.split, task.number)
        except ToolkitError:
            return False
        return True

    def _path(self, split: str, number: int) -> Path:
        return self.folder / f"{split}.{number}.json"
