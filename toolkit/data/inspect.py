"""What a data folder holds, as rows for toolkit-inspect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit.data.columns import Column
from toolkit.data.folder import DataFolder
from toolkit.data.own_folder import read_meta


def describe(path: Path | str, verify: bool = False) -> Mapping[str, Any]:
    """Name -> fact; with `verify` every block is read and compared with its checksum."""
    folder, meta = DataFolder.open(path), read_meta(Path(path))
    words = folder.vocabulary
    facts: dict[str, Any] = {
        "kind": folder.kind,
        "format": meta["version"],
        "fingerprint": folder.fingerprint,
        "vocabulary": f"{len(words):,} symbols, fingerprint {words.fingerprint[:16]}",
        "settings": ", ".join(f"{name} {value}" for name, value in meta["settings"].items()),
    }
    for name in folder.splits:
        for column in folder.split(name).columns.values():
            facts[f"{name}.{column.name}"] = _row(column)
            if verify:
                for part in column.parts:
                    part.check_all()
    if verify:
        facts["verified"] = f"{sum(_sizes(folder)):,} bytes, all checksums match"
    return facts


def _row(column: Column) -> str:
    return (
        f"{column.documents:,} documents, {column.items:,} items, {column.elements:,} values of "
        f"{column.dtype}, {len(column.parts)} part{'s' if len(column.parts) > 1 else ''}"
    )


def _sizes(folder: DataFolder) -> Iterator[int]:
    for name in folder.splits:
        for column in folder.split(name).columns.values():
            for part in column.parts:
                yield sum(path.stat().st_size for path in part.files)
