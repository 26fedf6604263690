"""Description of data folders: facts, a table of splits, and sample items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.formats.parallel.split import KIND as PARALLEL
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.formats.tagging.split import KIND as TAGGING
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.storage.columns import Column
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.parallel import TARGET
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.tables import Table

TEXT = "tokens"
CHUNK = 1 << 22
SAMPLED, RUN = 1 << 20, 1 << 12  # tokens looked at for unknown ones, in runs of so many

Numbers = npt.NDArray[np.int64]


class DataDescription(NamedTuple):
    facts: Mapping[str, str]
    splits: str
    """A table."""
    items: Mapping[str, str]
    """Split and item number -> text."""
    records: Sequence[Mapping[str, Any]]
    """One JSON event per row of the table."""


def describe_data(argument: str, *, verify: bool = False, examples: int = 0) -> DataDescription:
    """Describe a folder, or shards a:b:c; with `verify` every byte is checked."""
    corpora = Corpora.open(argument)
    sources = [source for shards in corpora.corpora for source in shards]
    facts = {**_facts(corpora, sources), **({"verified": _verify(sources)} if verify else {})}
    figures = [f for source in sources for f in _figures(source, several=len(sources) > 1)]
    items = {
        f"{_split_name(source, split, len(sources) > 1)} {number}": text
        for source in sources
        for split in source.splits
        for number, text in example_items(source, split, examples)
    }
    return DataDescription(facts, _table([_row(f) for f in figures]), items, figures)


HEADS = [
    *("split", "documents", "items", "tokens", "mean", "median", "90 %", "longest", "unknown"),
    *("too long", "lost tokens", "parts", "size"),
]


def _facts(corpora: Corpora, sources: list[FolderSource]) -> dict[str, str]:
    words, settings = corpora.vocabulary, corpora.tokenizer.settings()
    apart = ("kind", "special", "inner")
    names = {name: value for name, value in settings.items() if name not in apart}
    folders = [folder for s in sources for folder in (s.path, s.path / TARGET) if folder.is_dir()]
    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    shards = {"shards": str(len(sources))} if len(sources) > 1 else {}
    own = f"{len(words):,} symbols, fingerprint {words.fingerprint[:16]}"
    return {
        "kind": sources[0].kind,
        **shards,
        **sources[0].facts,
        "size": f"{format_bytes(sum(map(_bytes, files)))} in {len(files)} files",
        "tokenizer": ", ".join([_kind(settings), *_describe_settings(names)]),
        "vocabulary": "; ".join([own, *_other(corpora.tokenizer)]),
        "fingerprint": corpora.fingerprint,
    }


def _kind(settings: Mapping[str, Any]) -> str:
    inner = settings.get("inner")
    beside = {"classification": " with labels", "parallel": ""}.get(settings["kind"], " with tags")
    return f"{inner['kind']}{beside}" if inner else str(settings["kind"])


def _other(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary of the target language, if it has its own."""
    words = tokenizer.target.vocabulary
    if words.fingerprint == tokenizer.vocabulary.fingerprint:
        return []
    return [f"target {len(words):,} symbols, fingerprint {words.fingerprint[:16]}"]


def _describe_settings(settings: Mapping[str, Any]) -> list[str]:
    """Enabled settings as text."""
    names = {name: value for name, value in settings.items() if value not in (False, None, 0, "")}
    return [n.replace("_", " ") + ("" if v is True else f" {v}") for n, v in names.items()]


def _figures(source: FolderSource, several: bool) -> Iterator[dict[str, Any]]:
    folder = DataFolder([source])
    for split in source.splits:
        for column in folder.split(split).columns.values():
            name = _split_name(source, split, several)
            name = name if column.name == TEXT else f"{name}.{column.name}"
            counts = source.counts(split) if column.name == TEXT else {}
            place = {"name": name, "path": str(source.path), "split": split}
            yield {**place, **_numbers(column, counts, folder.tokenizer)}


def _numbers(column: Column, counts: Mapping[str, int], tokenizer: Tokenizer) -> dict[str, Any]:
    lengths = count_lengths(column)
    unknown, estimated = _unknown(column, counts, tokenizer)
    return {
        "column": column.name,
        "documents": column.documents,
        "items": column.items,
        "tokens": column.elements,
        "mean": column.elements / max(1, column.items),
        "median": quantile(lengths, 0.5),
        "ninety_percent": quantile(lengths, 0.9),
        "longest": quantile(lengths, 1.0),
        "unknown_rate": unknown,
        "unknown_is_estimated": estimated,
        "overlength": counts.get("overlength", 0),
        "lost_tokens": counts.get("lost_tokens", 0),
        "parts": len(column.parts),
        "bytes": sum(_bytes(file) for part in column.parts for file in part.files),
    }


def _row(f: Mapping[str, Any]) -> list[str]:
    unknown = "" if f["unknown_rate"] is None else f"{f['unknown_rate']:.3%}"
    return [
        f["name"],
        *(f"{f[key]:,}" for key in ("documents", "items", "tokens")),
        f"{f['mean']:.1f}",
        *(f"{f[key]:,}" for key in ("median", "ninety_percent", "longest")),
        "~" * f["unknown_is_estimated"] + unknown,
        *(f"{f[key]:,}" if f[key] else "" for key in ("overlength", "lost_tokens")),
        str(f["parts"]),
        format_bytes(f["bytes"]),
    ]


def _table(rows: list[list[str]]) -> str:
    """The table, without empty columns."""
    filled = [column for column in zip(HEADS, *rows, strict=True) if any(column[1:])]
    heads, *cells = zip(*filled, strict=True)
    return Table(columns=heads, rows=cells, right_align=heads[1:]).text().rstrip()


def _unknown(
    column: Column, counts: Mapping[str, int], tokenizer: Tokenizer
) -> tuple[float | None, bool]:
    """Share of unknown tokens, and whether it is estimated from a sample."""
    if column.name != TEXT or not column.elements:
        return None, False
    if "unknown" in counts:
        return counts["unknown"] / column.elements, False
    runs = max(1, min(SAMPLED, column.elements) // RUN)
    begins = np.linspace(0, max(0, column.elements - RUN), runs, dtype=np.int64)
    found = [column.read(b, min(b + RUN, column.elements)) for b in begins.tolist()]
    return float((np.concatenate(found) == tokenizer.vocabulary.unk).mean()), True


def count_lengths(column: Column) -> Counter[int]:
    """Length -> number of items, reading the index in chunks."""
    found: Counter[int] = Counter()
    for part in column.parts:
        for begin in range(0, part.items, CHUNK):
            lengths = np.diff(part.offsets[begin : begin + CHUNK + 1])
            values, counts = np.unique(lengths, return_counts=True)
            found.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return found


def quantile(lengths: Counter[int], share: float) -> int:
    """Minimum length that this share of items does not exceed; 0 without items."""
    wanted, seen = share * sum(lengths.values()), 0
    for length in sorted(lengths):
        seen += lengths[length]
        if seen >= wanted:
            return length
    return 0


def example_items(source: FolderSource, split: str, count: int) -> Iterator[tuple[int, str]]:
    """Evenly spaced items of a split with their numbers, as text."""
    folder = DataFolder([source])
    if folder.kind == TAGGING:
        yield from example_tagged_sentences(TaggedSplit(folder, split), count)
        return
    if folder.kind == PARALLEL:
        yield from example_pairs(ParallelSplit(folder, split), count)
        return
    column = folder.split(split).columns.get(TEXT)
    if column is None or not count or not column.items:
        return
    ends = np.cumsum([part.items for part in column.parts])
    for number in np.unique(np.linspace(0, column.items - 1, count, dtype=np.int64)).tolist():
        owner = int(np.searchsorted(ends, number, side="right"))
        part, local = column.parts[owner], number - int(ends[owner]) + column.parts[owner].items
        begin, end = part.offsets[local : local + 2] + column.part_offsets[owner]
        yield number, folder.tokenizer.decode(column.read(int(begin), int(end)).tolist())


def example_pairs(split: ParallelSplit, count: int) -> Iterator[tuple[int, str]]:
    """Evenly spaced sentence pairs."""
    for number in np.unique(np.linspace(0, len(split) - 1, count, dtype=np.int64)):
        ids = np.array([number])
        source = split.source.take(ids, split.source.lengths[ids])
        said = split.tokenizer.decode(source.ids.tolist())
        yield int(number), f"{said} -> {split.references(ids)[0]}"


def example_tagged_sentences(split: TaggedSplit, count: int) -> Iterator[tuple[int, str]]:
    """Evenly spaced sentences as word/TAG; tags unknown in training are omitted."""
    if count:
        ends, tags = np.cumsum(split.lengths), [*split.tables.tags, ""]
        for number in np.unique(np.linspace(0, len(ends) - 1, count, dtype=np.int64)).tolist():
            places = range(ends[number] - split.lengths[number], ends[number])
            words = (f"{split.words[split.types[p]]}/{tags[split.tags[p]]}" for p in places)
            yield number, " ".join(words)


def _verify(sources: list[FolderSource]) -> str:
    total, checked = 0, True
    for source in sources:
        for split in source.splits:
            for part in (part for parts in source.parts(split).values() for part in parts):
                part.check_all()
                total += sum(map(_bytes, part.files))
        checked = checked and source.checksums
    done = "all checksums match" if checked else "all offsets and ids are valid"
    return f"{total:,} bytes read, {done}"


def _split_name(source: FolderSource, split: str, several: bool) -> str:
    return f"{source.path}/{split}" if several else split


def _bytes(file: Path) -> int:
    return file.stat().st_size


def format_bytes(count: int) -> str:
    """Bytes, kB, MB or GB with three digits."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{value:.3g} {unit}"
