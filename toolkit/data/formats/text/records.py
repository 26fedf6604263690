"""Records of the parts that one of several processes has written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from toolkit.common.atomic import atomic_file
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, read_json
from toolkit.data.formats.text.binarize import TOKENS, BinarizedPart, PartTask, binarize
from toolkit.data.formats.text.config import TextFormatConfig
from toolkit.data.storage.meta import open_listed_part


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
        with atomic_file(self._path(task.split, task.number), sync=True) as temporary:
            temporary.write_text(json.dumps(record) + "\n", encoding="utf-8")

    def read(self, split: str, number: int) -> dict[str, BinarizedPart]:
        """What `binarize` returned for a part. Raises ToolkitError unless it is finished."""
        part = f"part {number} of {split}"
        try:
            record = read_json(self._path(split, number))
        except FileNotFoundError as error:
            raise ToolkitError(f"{part} has not been written") from error
        except (OSError, ValueError) as error:
            raise ToolkitError(f"the record of {part} cannot be read ({error})") from error
        for what, digest in self.identity.items():
            if record["identity"].get(what) != digest:
                raise ToolkitError(f"{part} was written with another {what}")
        parts = {
            name: BinarizedPart(found["entry"], Counter(found["counts"]))
            for name, found in record["splits"].items()
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
