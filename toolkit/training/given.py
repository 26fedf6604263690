"""What toolkit-generate is given to answer: lines of text, or the items of a folder's splits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from toolkit.common.errors import ToolkitError
from toolkit.config.generate import GenerateConfig
from toolkit.data.folder import DataFolder
from toolkit.data.pairs import TextColumn
from toolkit.data.parallel.split import ParallelSplit
from toolkit.data.shards import Corpora
from toolkit.distributed import World
from toolkit.generation.items import Item, read_line
from toolkit.tasks.sentences import Sentences
from toolkit.training.lines import opened
from toolkit.training.suiting import refuse_unsuited


@contextmanager
def given_items(
    c: GenerateConfig, sentences: Sentences, world: World
) -> Iterator[tuple[Iterator[Item], int, int | None]]:
    """What is to be answered, how much of it to read at once, and how much there is if known."""
    if c.folders:
        corpora = Corpora.open(*c.folders)
        names = [name.strip() for name in c.gen_subset.split(",") if name.strip()]
        splits = [items_of(corpora.having(name), name, sentences) for name in names]
        every = [item for split in splits for item in split]
        yield iter(renumbered(every)), c.buffer_size, len(every)
        return
    what = "to write on" if sentences.alone else "to translate"
    with opened(c.input, f"One sentence {what} a line") as lines:
        typed = world.first and world.size == 1 and lines.isatty()
        yield read(lines, sentences, world, c.buffer_size), 1 if typed else c.buffer_size, None


def read(lines: Iterable[bytes], sentences: Sentences, world: World, size: int) -> Iterator[Item]:
    """Items of lines, which the first rank reads for all."""
    if world.size == 1:
        for number, line in enumerate(lines, 1):
            yield read_line(number, line, sentences.code)
        return
    first = 1
    while True:
        mine = list(islice(lines, size)) if world.first else []
        hexed = json.loads(world.broadcast(json.dumps([line.hex() for line in mine])))
        for number, line in enumerate(hexed, first):
            yield read_line(number, bytes.fromhex(line), sentences.code)
        first += len(hexed)
        if not hexed:
            return


def renumbered(items: Sequence[Item]) -> list[Item]:
    return [item._replace(number=number) for number, item in enumerate(items, 1)]


def items_of(folder: DataFolder, name: str, sentences: Sentences) -> list[Item]:
    """The items of a split: sources with references, or texts to write on."""
    refuse_unsuited(folder.codec, str(folder.path), sentences.codec)
    return (
        texts_of(folder, name, sentences) if sentences.alone else pairs_of(folder, name, sentences)
    )


def pairs_of(folder: DataFolder, name: str, sentences: Sentences) -> list[Item]:
    split, c = ParallelSplit(folder, name), sentences.c
    sources, targets = tokens_of(split.source), tokens_of(split.target)
    wanted = split.references(np.arange(len(split)))
    found = []
    for source, target, reference in zip(sources, targets, wanted, strict=True):
        text = split.codec.decode(source)
        begin = target if c.score_reference else target[: c.prefix_size]
        found.append(checked(Item(0, text, source, begin, reference), sentences))
    return found


def texts_of(folder: DataFolder, name: str, sentences: Sentences) -> list[Item]:
    """Each item of a text: its first `prefix_size` tokens are written on, or the whole is told."""
    c, column = sentences.c, TextColumn(folder.split(name).column("tokens"))
    found = []
    for tokens in tokens_of(column):
        prompt = tokens[: c.prefix_size or len(tokens)]
        source, target = ([], tokens) if c.score_reference else (prompt, [])
        text = sentences.codec.decode(tokens if c.score_reference else prompt)
        found.append(checked(Item(0, text, source, target), sentences))
    return found


def tokens_of(column: TextColumn) -> list[list[int]]:
    text = column.take(np.arange(len(column.lengths)), column.lengths)
    return [row.tolist() for row in np.split(text.ids, np.cumsum(text.lengths)[:-1])]


def checked(item: Item, sentences: Sentences) -> Item:
    """With a note where the models cannot answer."""
    try:
        if not (item.source or (sentences.alone and item.target)):
            raise ToolkitError("empty")
        sentences.check(item.source, item.target)
    except ToolkitError as error:
        return item._replace(source=[], target=[], note=str(error))
    return item
