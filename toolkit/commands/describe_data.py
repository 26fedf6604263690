"""Description of data folders: facts, a table of splits, and sample items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from toolkit.common.json_files import JsonObject
from toolkit.data.formats.parallel import KIND as PARALLEL, ParallelSplit
from toolkit.data.formats.tagging.split import KIND as TAGGING, TaggedSplit
from toolkit.data.storage.column_files import WORDS, FolderSource
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.data.tokenizers.tokenizer import TARGET
from toolkit.reporting.tables import Table

TEXT = "tokens"


def describe_data(
    argument: str, *, verify: bool = False, examples: int = 0
) -> tuple[dict[str, object], list[JsonObject], dict[str, str]]:
    """Facts about a folder, or shards a:b:c, a record for each column, and split and item -> text.

    With `verify` every byte is checked.
    """
    corpora = Corpora.open(argument)
    sources = [source for shards in corpora.corpora for source in shards]
    facts = collect_facts(corpora, sources)
    if verify:
        total = 0
        for source in sources:
            for split in source.splits:
                for part in chain.from_iterable(source.parts(split).values()):
                    part.check_all()
                    total += sum(file.stat().st_size for file in part.files)
        complete = all(source.checksums for source in sources)
        result = "all checksums match" if complete else "all offsets and ids are valid"
        facts["verified"] = f"{total:,} bytes read, {result}"
    records, items = list[JsonObject](), dict[str, str]()
    for source in sources:
        for split in source.splits:
            name = f"{source.path}/{split}" if len(sources) > 1 else split
            records += split_records(source, split, name)
            items |= {f"{name} {n}": text for n, text in example_items(source, split, examples)}
    return facts, records, items


def collect_facts(corpora: Corpora, sources: Sequence[FolderSource]) -> dict[str, object]:
    """Name -> value of the facts above the table."""
    folders = [folder for s in sources for folder in (s.path, s.path / TARGET) if folder.is_dir()]
    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    own, target = (
        f"{len(words):,} symbols, fingerprint {words.fingerprint[:16]}"
        for words in (corpora.all.tokenizer.vocabulary, corpora.all.tokenizer.target.vocabulary)
    )
    return {
        "kind": sources[0].kind,
        "shards": len(sources) if len(sources) > 1 else None,
        **sources[0].facts,
        "size": f"{format_bytes(sum(file.stat().st_size for file in files))} in {len(files)} files",
        "tokenizer": corpora.all.tokenizer.settings(),
        "vocabulary": own if own == target else f"{own}; target {target}",
        "fingerprint": corpora.all.fingerprint,
    }


def to_text(value: object) -> str:
    """A value of a record in words, as `width 64, lowercase`; empty for what is not there.

    Ids of special tokens are left out.
    """
    if isinstance(value, Mapping):
        parts = {str(name): it for name, it in value.items() if name != "special"}
        texts = [name if it is True else f"{name} {to_text(it)}" for name, it in parts.items()]
        return ", ".join(it for it in texts if not it.endswith((" ", " False")))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(to_text, value))
    return "" if value is None else str(value)


def split_records(source: FolderSource, split: str, name: str) -> Iterator[JsonObject]:
    """A record for each column of a split: counts, lengths and unknown tokens."""
    folder = DataFolder([source])
    for column in folder.split(split).columns.values():
        if column.name == WORDS:
            continue
        is_text = column.name == TEXT
        counts = source.counts(split) if is_text else {}
        sizes = np.quantile(column.lengths, (0.5, 0.9, 1.0), method="inverted_cdf").tolist()
        unknown = counts["unknown"] / column.elements if "unknown" in counts else None
        yield {
            "name": name if is_text else f"{name}.{column.name}",
            "path": str(source.path),
            "split": split,
            "column": column.name,
            "documents": column.documents,
            "items": column.items,
            "tokens": column.elements,
            "words": counts.get(WORDS, 0),
            "mean": column.elements / max(1, column.items),
            **dict(zip(("median", "ninety_percent", "longest"), sizes, strict=True)),
            "unknown_rate": unknown,
            "overlength": counts.get("overlength", 0),
            "lost_tokens": counts.get("lost_tokens", 0),
            "parts": len(column.parts),
            "bytes": sum(file.stat().st_size for part in column.parts for file in part.files),
        }


def format_table(records: Sequence[JsonObject]) -> str:
    """A row for each record, without the columns that are empty."""
    hidden = ("path", "split", "column")
    heads = [name for name in records[0] if name not in hidden and any(it[name] for it in records)]
    rows = [[it[name] for name in heads] for it in records]
    return Table(columns=heads, rows=rows).text().rstrip()


def example_items(source: FolderSource, split: str, count: int) -> Iterator[tuple[int, str]]:
    """Evenly spaced items of a split with their numbers, as text.

    Tagged sentences are word/TAG; tags unknown in training are omitted.
    """
    folder = DataFolder([source])
    if folder.kind == TAGGING:
        tagged = TaggedSplit(folder, split)
        ends, tags = np.cumsum(tagged.lengths), [*tagged.tables.tags, ""]
        for number in spread_indices(len(ends), count):
            positions = range(ends[number] - tagged.lengths[number], ends[number])
            words = (f"{tagged.words[tagged.types[p]]}/{tags[tagged.tags[p]]}" for p in positions)
            yield number, " ".join(words)
    elif folder.kind == PARALLEL:
        pairs = ParallelSplit(folder, split)
        for number in spread_indices(len(pairs), count):
            ids = np.array([number])
            text = pairs.tokenizer.decode(
                pairs.source.take(ids, pairs.source.lengths[ids]).ids.tolist()
            )
            yield number, f"{text} -> {pairs.references(ids)[0]}"
    elif column := folder.split(split).columns.get(TEXT):
        for number in spread_indices(column.items, count):
            start = int(column.item_starts[number])
            ids = column.read(start, start + int(column.lengths[number]))
            yield number, folder.tokenizer.decode(ids.tolist())


def spread_indices(total: int, count: int) -> list[int]:
    """At most `count` evenly spaced indices below `total`."""
    indices: list[int] = np.unique(np.linspace(0, total - 1, count, dtype=np.int64)).tolist()
    return indices if total else []


def format_bytes(count: int) -> str:
    """Bytes, kB, MB or GB with three digits."""
    power = min((len(str(count)) - 1) // 3, 4)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    return f"{count / 1000**power:.3g} {unit}" if power else f"{count} bytes"
