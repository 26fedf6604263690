"""Requests of toolkit-generate, from lines of text or from the items of data folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np

from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.commands.text_io import open_input
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TextGenerationConfig
from toolkit.data.formats.parallel.files import ParallelSplit
from toolkit.data.ragged import split_rows
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.generation.requests import GenerationRequest, parse_line
from toolkit.tasks.text_generation import TextGenerator


@contextmanager
def load_requests(
    c: TextGenerationConfig, generator: TextGenerator, world: World
) -> Iterator[tuple[Iterator[GenerationRequest], int, int | None]]:
    """The requests, how many to read at a time, and their number if it is known."""
    if c.dirs:
        corpora = Corpora.open(*c.dirs, languages=generator.tokenizer.language_pair)
        names = [name.strip() for name in c.gen_subset.split(",") if name.strip()]
        splits = [split_requests(corpora.with_split(name), name, generator) for name in names]
        listed = [request for split in splits for request in split]
        requests = (request._replace(number=n) for n, request in enumerate(listed, 1))
        yield requests, c.buffer_size, len(listed)
        return
    unit = "text to continue" if generator.decoder_only else "sentence to translate"
    with open_input(c.input, f"Type one {unit} per line") as lines:
        interactive = world.is_main and world.size == 1 and lines.isatty()
        size = 1 if interactive else c.buffer_size
        yield read_requests(lines, generator, world, c.buffer_size), size, None


def read_requests(
    lines: Iterable[bytes], generator: TextGenerator, world: World, size: int
) -> Iterator[GenerationRequest]:
    """One request per line; the first rank reads for all."""
    if world.size == 1:
        for number, line in enumerate(lines, 1):
            yield parse_line(number, line, generator.encode_line)
        return
    start = 1
    while True:
        buffer = list(islice(lines, size)) if world.is_main else []
        hex_lines = json.loads(world.broadcast(json.dumps([line.hex() for line in buffer])))
        for number, line in enumerate(hex_lines, start):
            yield parse_line(number, bytes.fromhex(line), generator.encode_line)
        start += len(hex_lines)
        if not hex_lines:
            return


def split_requests(
    folder: DataFolder, name: str, generator: TextGenerator
) -> list[GenerationRequest]:
    """The items of a split: sources with references, or texts to continue."""
    check_data_matches_checkpoint(folder.tokenizer, str(folder.path), generator.tokenizer)
    build = text_requests if generator.decoder_only else pair_requests
    return [check_request(request, generator) for request in build(folder, name, generator)]


def pair_requests(
    folder: DataFolder, name: str, generator: TextGenerator
) -> Iterator[GenerationRequest]:
    """Requests for the sources of a split of parallel text."""
    split, c = ParallelSplit(folder, name), generator.c
    sources, targets = list_tokens(split.source), list_tokens(split.target)
    references = split.references(np.arange(len(split)))
    for source, target, reference in zip(sources, targets, references, strict=True):
        prefix = target if c.score_reference else target[: c.prefix_size]
        yield GenerationRequest(0, split.tokenizer.decode(source), source, prefix, reference)


def text_requests(
    folder: DataFolder, name: str, generator: TextGenerator
) -> Iterator[GenerationRequest]:
    """Items of a text: the first `prefix_size` tokens as a prompt, or all of them to score."""
    c, column = generator.c, TokenColumn(folder.split(name).column("tokens"))
    for tokens in list_tokens(column):
        prompt = tokens[: c.prefix_size or len(tokens)]
        source, target = ([], tokens) if c.score_reference else (prompt, [])
        yield GenerationRequest(0, generator.tokenizer.decode(source or target), source, target)


def list_tokens(column: TokenColumn) -> list[list[int]]:
    """The token ids of every item of a column."""
    text = column.take(np.arange(len(column.lengths)), column.lengths)
    return [row.tolist() for row in split_rows(*text)]


def check_request(request: GenerationRequest, generator: TextGenerator) -> GenerationRequest:
    """The request, or an empty one with a note if the models cannot process it."""
    try:
        if not (request.source or (generator.decoder_only and request.target)):
            raise ToolkitError("empty")
        generator.check_lengths(request.source, request.target)
    except ToolkitError as error:
        return request._replace(source=[], target=[], note=str(error))
    return request
