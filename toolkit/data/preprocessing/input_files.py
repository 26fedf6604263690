"""The files that options name, and their division into parts and items.

Datasets are folders that save_to_disk wrote, or that were downloaded from the Hub. Text is divided
into parts, whatever the number of workers, and these into lines, paragraphs or sentences.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict

from msgspec import Meta

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FileName, read_json
from toolkit.data.records import FOLDER_SUFFIXES, find_cut, find_suffix, read_row_lines
from toolkit.data.text_files import (
    CHUNK_BYTES,
    COMPRESSION_SUFFIXES,
    FileChunk,
    LineChunk,
    check_exists,
    is_compressed,
    list_files,
    read_lines,
    whole_file,
)

SplitFiles = dict[str, list[Path]]
FileNames = Mapping[str, tuple[str, ...]]
"""Split -> what its file may be called in the benchmark's folder."""
MISMATCHED, _VERSION = "_mismatched", re.compile(r"-v\d+(\.\d+)?")


class SavedDataset(TypedDict):
    """STATE of a dataset, whose files have nothing but a name."""

    _data_files: list[Annotated[dict[Literal["filename"], FileName], Meta(min_length=1)]]


def list_benchmark_files(inputs: Mapping[str, str], known: FileNames) -> SplitFiles:
    """Split -> its files, from the names that options give.

    A folder stands for the benchmark's own names in it. A folder given as trainpref alone stands
    for its files of all splits, of which only the training file is required.
    """
    required = set(inputs)
    if required == {"train"} and Path(inputs["train"]).is_dir():
        inputs = dict.fromkeys(("train", "valid", "test"), inputs["train"])
    files: SplitFiles = {}
    for option, names in inputs.items():
        for name in filter(None, names.split(",")):
            path = check_exists(f"{option}pref", Path(name))
            split = option + MISMATCHED  # a separate split, if the task has one
            if split not in known or "mismatched" not in path.name:
                split = option
            found = [(split, path)]
            if path.is_dir():
                found = find_in_folder(path, option, known, required=option in required)
            for split, file in found:
                files.setdefault(split, []).append(file)
    return files


def find_in_folder(
    folder: Path, option: str, known: FileNames, *, required: bool
) -> list[tuple[str, Path]]:
    """The files of train, valid or test; matched and mismatched genres are two splits."""
    found, names = list[tuple[str, Path]](), list[str]()
    for split, split_names in known.items():
        if split.removesuffix(MISMATCHED) == option:
            names += split_names
            paths = [folder / (name + s) for name in split_names for s in COMPRESSION_SUFFIXES]
            present = [path for path in paths if path.is_file()]
            # of several versions of a data set, such as SQuAD's
            versions = {it[0]: path.name for path in present if (it := _VERSION.search(path.name))}
            if len(versions) > 1:
                raise ToolkitError(
                    f"{option}pref folder {folder} must hold one version of the data, but holds "
                    f"{' and '.join(versions.values())}. Name the file itself."
                )
            found += [(split, path) for path in present[:1]]
    if required and not found:
        listed = " or ".join(names) or "a file of that split, which this task does not have"
        raise ToolkitError(
            f"{option}pref folder {folder} must hold {listed}, but does not. Name the file itself."
        )
    return found


SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}
"""Split -> what datasets call it."""
STATE = "state.json"
"""What a saved dataset consists of."""
_SHARD = re.compile(r"(\w+)-\d{5}-of-\d{5}\b")


def list_row_splits(inputs: Mapping[str, str]) -> SplitFiles:
    """Split -> its files of rows; a dataset with splits that is trainpref alone has all of them."""
    folder = Path(inputs.get("train", ""))
    if set(inputs) == {"train"} and folder.is_dir() and (found := find_splits(folder)):
        others = [split for split in SPLIT_NAMES if not found.keys().isdisjoint(SPLIT_NAMES[split])]
        inputs = dict.fromkeys(["train", *others], str(folder))
    return {split: list_row_files(split, names) for split, names in inputs.items()}


def list_row_files(split: str, names: str) -> list[Path]:
    """The files of rows that a comma-separated option names, or those of a split in its folders."""
    files, option = list[Path](), f"{split}pref"
    for name in filter(None, names.split(",")):
        folder = check_exists(option, Path(name))
        found = find_splits(folder)
        for path in find_split(folder, split, found) if found else [folder]:
            if (path / STATE).is_file():
                files += list_saved_files(path)
            else:
                files += list_files(option, str(path), FOLDER_SUFFIXES)
    return files


def list_saved_files(folder: Path) -> list[Path]:
    """The files of a saved dataset; others in its folder are caches."""
    listed = read_json(folder / STATE, SavedDataset, "Name the files themselves.")["_data_files"]
    return [check_exists(str(folder / STATE), folder / file["filename"]) for file in listed]


def find_splits(folder: Path) -> dict[str, list[Path]]:
    """Name of each split of a dataset -> its files, such as train-00000-of-00002.parquet or
    train.csv, or its folder; empty if there are no splits.
    """
    if (folder / "dataset_dict.json").is_file():
        return {path.name: [path] for path in folder.iterdir() if path.is_dir()}
    splits = dict[str, list[Path]]()
    if not folder.is_dir() or (folder / STATE).is_file():
        return splits
    for file in list_files(str(folder), str(folder), FOLDER_SUFFIXES):
        shard, name = _SHARD.match(file.name), file.name.partition(".")[0]
        if not (shard or any(name in names for names in SPLIT_NAMES.values())):
            return {}
        splits.setdefault(shard[1] if shard else name, []).append(file)
    return splits if len(splits) > 1 else {}


def find_split(folder: Path, split: str, found: Mapping[str, list[Path]]) -> list[Path]:
    """What was found for a split under one of its names."""
    for name in SPLIT_NAMES[split]:
        if name in found:
            return found[name]
    raise ToolkitError(
        f"{split}pref {folder} has no split {' or '.join(SPLIT_NAMES[split])}, but has "
        f"{', '.join(sorted(found))}. Name the files of one of them."
    )


# Their full stops do not end a sentence, nor do those of initials (J. Smith).
_TITLES = [
    *("Mr", "Mrs", "Ms", "Dr", "St", "Prof", "Rev", "Hon", "Capt", "Col", "Gen", "Lt", "Sgt"),
    *("Messrs", "Mme", "Mlle", "vs", "Vol", "No"),
]
_NOT_AFTER = "".join(rf"(?<!\b{title}\.)" for title in [*_TITLES, "[A-Z]"])
_CLOSING, _OPENING = "[\"'\u201d\u2019\u00bb)\\]]*", "[\"'\u201c\u2018\u00ab(\\[]*"
_SENTENCE_END = re.compile(  # one set of characters first: the search then skips all others
    "[.!?\u2026\u3002\uff01\uff1f](?:(?<=[\u3002\uff01\uff1f])|"
    rf"{_NOT_AFTER}{_CLOSING}\s+(?={_OPENING}([^\W_a-z])))"
)


class ItemBatch(NamedTuple):
    """Consecutive items of a file chunk."""

    items: list[str]
    documents: list[int]
    """Document of each item; 0 continues the document before the chunk."""
    lines: list[int]
    """Line or row of the chunk, counted from 0, where the item or its paragraph starts."""


def read_items(chunk: FileChunk, segment_by: str, max_line_bytes: int) -> Iterator[ItemBatch]:
    """The items of a chunk of a file."""
    whole, document = segment_by != "sentences", int(chunk.starts_document)
    if chunk.field:  # a row has its own limit
        lines = read_row_lines(chunk, max_line_bytes if whole else sys.maxsize)
    else:
        lines = read_lines(chunk, max_line_bytes, divide=not whole)
    if chunk.row_is_document:
        return _row_documents(lines, document, segment_by)
    if segment_by == "lines":
        return _lines(lines, document)
    return _paragraphs(lines, document, segment_by == "sentences")


def split_sentences(paragraph: str) -> list[str]:
    """Split after . ! ? (and closing quotes) unless the next word starts in lower case."""
    ends = []
    for match in _SENTENCE_END.finditer(paragraph):
        letter = match[1] or ""  # Georgian letters are lower case, but start sentences
        if not letter.islower() or letter.title() == letter:
            ends.append(match.end())
    edges = pairwise([0, *ends, len(paragraph)])
    return [sentence for start, end in edges if (sentence := paragraph[start:end].strip())]


def _row_documents(
    chunks: Iterable[LineChunk], document: int, segment_by: str
) -> Iterator[ItemBatch]:
    """Each row is a document, in which blank lines only end paragraphs."""
    for chunk in chunks:
        batch = ItemBatch([], [], [])
        numbered = zip(chunk.numbers, chunk.lines, strict=True)
        for number, row in groupby(numbered, key=itemgetter(0)):
            lines = [line for _, line in row]
            items = [line for line in lines if line]
            if segment_by != "lines":
                text = [LineChunk(lines, range(len(lines)))]
                found = _paragraphs(text, document, segment_by == "sentences")
                items = [item for part in found for item in part.items]
            batch.items.extend(items)
            batch.documents.extend([document] * len(items))
            batch.lines.extend([number] * len(items))
            document += 1
        yield batch


def _lines(chunks: Iterable[LineChunk], document: int) -> Iterator[ItemBatch]:
    """A blank line ends a document."""
    inside = document == 0
    for chunk in chunks:
        items, documents, lines = [], [], []
        for number, line in zip(chunk.numbers, chunk.lines, strict=True):
            if line:
                items.append(line)
                documents.append(document)
                lines.append(number)
                inside = True
            elif inside:
                document, inside = document + 1, False
        yield ItemBatch(items, documents, lines)


PARAGRAPH_CHARACTERS = 1 << 19


def _paragraphs(chunks: Iterable[LineChunk], document: int, sentences: bool) -> Iterator[ItemBatch]:
    """A blank line ends a paragraph; the file is one document. Of a long paragraph only the last
    sentence waits for the next line, or nothing if this is long.
    """
    split = split_sentences if sentences else lambda paragraph: [paragraph]
    pending: list[str] = []
    first = size = 0
    for chunk in chunks:
        items: list[str] = []
        lines: list[int] = []
        for number, line in zip(chunk.numbers, chunk.lines, strict=True):
            if line:
                first = first if pending else number
                pending.append(line)
                size += len(line)
            if pending and (not line or (sentences and size > PARAGRAPH_CHARACTERS)):
                new = split(" ".join(pending))
                last = new.pop() if line and len(new[-1]) <= PARAGRAPH_CHARACTERS // 2 else ""
                items += new
                lines += [first] * len(new)
                pending, size = [last] if last else [], len(last)
        yield ItemBatch(items, [document] * len(items), lines)
    items = split(" ".join(pending)) if pending else []
    yield ItemBatch(items, [document] * len(items), [first] * len(items))


PART_BYTES = 2 << 20
MAX_PARTS = 1024
EXPANSION = 3  # estimated ratio of text to compressed text

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_FULL_LINE = re.compile(rb"[^\s][^\n]*\n")  # a line that is not blank


def plan_parts(
    files: Sequence[Path], segment_by: str, field: str = "", *, row_is_document: bool = False
) -> list[list[FileChunk]]:
    """Parts of about equal size, of files in order. Large files are cut at line ends, those of rows
    with a `field` only if each is a document.
    """
    total = sum(estimate_bytes(whole_file(path)) for path in files)
    part_bytes = max(PART_BYTES, -(-total // MAX_PARTS))
    parts, filled, row_is_document = list[list[FileChunk]]([[]]), 0, bool(field and row_is_document)
    for path in files:
        for chunk in _cut(path, part_bytes, segment_by, field, row_is_document):
            if filled >= part_bytes:
                parts.append([])
                filled = 0
            parts[-1].append(chunk)
            filled += estimate_bytes(chunk)
    return parts


def estimate_bytes(chunk: FileChunk) -> int:
    """Estimated number of bytes of text."""
    compressed = is_compressed(chunk.path) or chunk.path.suffix == ".parquet"
    return chunk.size * (EXPANSION if compressed else 1)


def _cut(
    path: Path, chunk_bytes: int, segment_by: str, field: str, row_is_document: bool
) -> list[FileChunk]:
    """Rows that are documents can be cut anywhere, other rows nowhere."""
    size = path.stat().st_size
    if field:
        find_suffix(path)  # raises for plain text
    is_whole = not row_is_document if field else is_compressed(path)
    if is_whole or size < 2 * chunk_bytes:
        return [FileChunk(path, 0, size, True, field, row_is_document)]
    chunks, start, starts_document = list[FileChunk](), 0, True
    while start < size:
        near, begins = start + chunk_bytes, starts_document
        if field:
            end = find_cut(path, min(near, size))
        else:
            end, starts_document = _find_cut(path, near, size, segment_by)
        chunks.append(FileChunk(path, start, end, begins, field, row_is_document))
        start = end
    return chunks


def _find_cut(path: Path, near: int, size: int, segment_by: str) -> tuple[int, bool]:
    """The first good cut at or after `near`, and whether a document starts there: after a blank
    line of the next MiB, else after any line, but within paragraphs never.
    """
    with path.open("rb") as file:
        while near < size:
            file.seek(near)
            window = file.read(CHUNK_BYTES)
            blank = _BLANK_LINE.search(window)
            if blank:
                return near + blank.end(), segment_by == "lines"
            ended = window.rfind(b"\n") + 1  # without it, the search takes quadratic time
            line = _FULL_LINE.search(window, 0, ended) if segment_by == "lines" else None
            if line:
                return near + line.end(), False
            near += max(1, len(window) - 64)  # two windows may share a blank line
    return size, True
