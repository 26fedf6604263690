"""Writes the files of a split with predicted tags; all other bytes stay the same.

The predicted tags replace the true ones, or follow them as the script conlleval reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import report_write_errors, write_output
from toolkit.data.formats.tagging.sentence import TAG_COLUMNS, set_feature
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.storage.columns import Column
from toolkit.data.storage.meta import read_meta
from toolkit.data.text_files import strip_compression_suffix

OPTION = "--predictions"


def write_predictions(
    split: TaggedSplit, tags: Sequence[str], path: Path, *, for_conlleval: bool = False
) -> None:
    """Write one file to `path`, or several under their own names to the folder `path`.

    With `for_conlleval`, the predicted tags are an additional column of files of columns.
    """
    files = render_files(split, tags, for_conlleval=for_conlleval)
    names = [name for name, _ in files]
    if len(files) > 1 and len(set(names)) < len(names):
        raise ToolkitError(
            f"predictions for several files need distinct file names, but {split.name} has several "
            f"of one name. Preprocess them separately."
        )
    if len(files) == 1:
        write_output(OPTION, path, files[0][1])
        return
    with report_write_errors(OPTION, path):
        path.mkdir(parents=True, exist_ok=True)
    for name, data in files:
        write_output(OPTION, path / name, data)


def render_files(
    split: TaggedSplit, tags: Sequence[str], *, for_conlleval: bool = False
) -> list[tuple[str, bytes]]:
    """Name and contents of every file of the split, in order."""
    files, word = [], 0
    for source in split.folder.sources:
        if split.name not in source.splits:
            continue
        meta = read_meta(source.path)
        settings = meta.settings
        is_feature = settings.get("format") == "conllu" and settings.get("tag") not in TAG_COLUMNS
        adds_column = for_conlleval and settings.get("format") == "columns"
        render = partial(
            render_field,
            feature=str(settings.get("tag")) if is_feature else "",
            alternatives=settings.get("format") == "ptb",
        )
        [text], [fields] = (source.parts(split.name)[name] for name in ("source", "fields"))
        sources, spans = (
            ColumnItems(part.offsets, Column("", [part]).read_all()) for part in (text, fields)
        )
        names = [
            strip_compression_suffix(name) for name in meta.splits[split.name].get("files", [])
        ]
        edges = [*text.document_starts[:].tolist(), text.items]
        for name, (first, last) in zip(names, pairwise(edges), strict=True):
            file_spans, lengths = spans.slice(first, last)
            words = sum(lengths) // 2
            file_tags = tags[word : word + words]
            data, sizes = sources.slice(first, last)
            if adds_column:
                separator = chr(data[file_spans[0] - 1])
                render = partial(add_column, separator=separator)
            content = replace_tags(data, sizes, file_spans, lengths, file_tags, render)
            files.append((name, fill_document_starts(content) if adds_column else content))
            word += words
    return files


class ColumnItems(NamedTuple):
    """A column that is read once for all files."""

    offsets: IntArray
    values: IntArray

    def slice(self, first: int, last: int) -> tuple[IntArray, list[int]]:
        """The values of some items back to back, and the number per item."""
        offsets = self.offsets[first : last + 1]
        return self.values[offsets[0] : offsets[-1]], np.diff(offsets).tolist()


def replace_tags(
    text: IntArray,
    sizes: list[int],
    spans: IntArray,
    lengths: list[int],
    tags: Sequence[str],
    render: Callable[[str, str], str],
) -> bytes:
    """The bytes of one file; `spans` are those of the tags in their sentence."""
    data, parts, reached = text.astype("u1").tobytes(), list[bytes](), 0
    edges, new_tags = iter(spans.reshape(-1, 2).tolist()), iter(tags)
    start = 0
    for size, length in zip(sizes, lengths, strict=True):
        for _ in range(length // 2):
            first, last = (start + edge for edge in next(edges))
            field = render(data[first:last].decode(), next(new_tags))
            parts += [data[reached:first], field.encode()]
            reached = last
        start += size
    return b"".join([*parts, data[reached:]])


def add_column(field: str, tag: str, *, separator: str) -> str:
    """A field with a tag after it."""
    return f"{field}{separator}{tag}"


def fill_document_starts(content: bytes) -> bytes:
    """The file with O in the additional column of the lines that start a document."""
    line = rb"(?m)^(?:\xef\xbb\xbf)?-DOCSTART-([ \t])[^\r\n]*"
    return re.sub(line, rb"\g<0>\1O", content)


def render_field(field: str, tag: str, *, feature: str, alternatives: bool) -> str:
    """The field with another tag; of alternatives such as JJ|NN the first is the tag."""
    if feature:
        return set_feature(field, feature, tag)
    return field if alternatives and field.split("|")[0] == tag else tag
