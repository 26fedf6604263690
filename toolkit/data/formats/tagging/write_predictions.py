"""The files of a split with predicted tags; everything else stays byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import TaggedSplit, read_column
from toolkit.data.formats.tagging.tag_fields import TAG_COLUMNS, set_feature
from toolkit.data.storage.columns import Column
from toolkit.data.storage.meta import read_meta
from toolkit.data.text_files import strip_compression_suffix


def write_predictions(split: TaggedSplit, tags: Sequence[str], path: Path) -> None:
    """One file as `path`; of several, each under its own name in the folder `path`."""
    files = render_files(split, tags)
    names = [name for name, _ in files]
    if len(files) > 1 and len(set(names)) < len(names):
        raise ToolkitError(
            f"predictions for several files need distinct file names, but {split.name} was made of "
            f"several of one name. Preprocess them separately."
        )
    try:
        if len(files) == 1:
            path.write_bytes(files[0][1])
            return
        path.mkdir(parents=True, exist_ok=True)
        for name, data in files:
            (path / name).write_bytes(data)
    except OSError as error:
        raise ToolkitError(
            f"predictions must go where files can be written, but {path} cannot: "
            f"{error.strerror}. Choose another --predictions."
        ) from error


def render_files(split: TaggedSplit, tags: Sequence[str]) -> list[tuple[str, bytes]]:
    """Name and contents of every file of the split, in order."""
    found, word = [], 0
    for source in split.folder.sources:
        if split.name not in source.splits:
            continue
        meta = read_meta(source.path)
        setting = meta["settings"]
        feature = setting["tag"] if setting["format"] == "conllu" else ""
        feature = "" if feature in TAG_COLUMNS else feature
        alternatives = setting["format"] == "ptb"
        [text], [fields] = (source.parts(split.name)[name] for name in ("source", "fields"))
        texts, places = (
            ColumnItems(part.offsets, read_column(Column("", [part]))) for part in (text, fields)
        )
        names = [strip_compression_suffix(name) for name in meta["splits"][split.name]["files"]]
        edges = [*text.document_starts[:].tolist(), text.items]
        for name, (first, last) in zip(names, pairwise(edges), strict=True):
            edge, lengths = places.slice(first, last)
            own = tags[word : word + sum(lengths) // 2]
            become = partial(new_field, feature=feature, alternatives=alternatives)
            data = replace_tags(*texts.slice(first, last), edge, lengths, own, become)
            found.append((name, data))
            word += len(own)
    return found


class ColumnItems(NamedTuple):
    """A column read once for all files."""

    offsets: Any
    values: Any

    def slice(self, first: int, last: int) -> tuple[Any, list[int]]:
        """The values of some items back to back, and how many each has."""
        offsets = self.offsets[first : last + 1]
        return self.values[offsets[0] : offsets[-1]], (offsets[1:] - offsets[:-1]).tolist()


def replace_tags(
    text: Any,
    sizes: list[int],
    places: Any,
    lengths: list[int],
    tags: Sequence[str],
    become: Callable[[str, str], str],
) -> bytes:
    """One file: `places` say where each tag begins and ends in its sentence."""
    data, found, reached = text.astype("u1").tobytes(), [], 0
    edges = iter(places.reshape(-1, 2).tolist())
    word = begin = 0
    for size, length in zip(sizes, lengths, strict=True):
        for _ in range(length // 2):
            first, last = (begin + edge for edge in next(edges))
            own, tag = data[first:last].decode(), tags[word]
            found += [data[reached:first], become(own, tag).encode()]
            reached, word = last, word + 1
        begin += size
    return b"".join([*found, data[reached:]])


def new_field(own: str, tag: str, *, feature: str, alternatives: bool) -> str:
    """What a field becomes; of alternatives, as JJ|NN, the first is the tag that was read."""
    if feature:
        return set_feature(own, feature, tag)
    return own if alternatives and own.split("|")[0] == tag else tag
