"""Input lines, requests and output files of toolkit-generate and toolkit-predict."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.common.arrays import split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.files import check_distinct_files, open_output
from toolkit.config.commands.generate import GenerationOptions, TextGenerationConfig
from toolkit.data.formats.parallel import ParallelSplit
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.data.text_files import open_text
from toolkit.distributed import World
from toolkit.generation.generate import GenerationRequest
from toolkit.generation.output import (
    R,
    Writer,
    print_rows,
    to_json_line,
    write_events,
    write_lines,
)
from toolkit.reporting.console import Console, Output
from toolkit.tasks.text_generation import TextGenerator

STDIN = ("-", "/dev/stdin")


@contextmanager
def open_input(path: str, hint: str) -> Iterator[BinaryIO]:
    """The input as decompressed bytes, so that invalid UTF-8 invalidates only its line.

    `hint` is printed if the input is a terminal.
    """
    if path in STDIN:
        if sys.stdin.isatty():
            print(f"{hint}; end with Ctrl-D.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    with open_text(Path(path), allow_pipe=True) as lines:
        yield lines


@contextmanager
def open_writers(
    c: GenerationOptions,
    output: Output,
    to_tsv: Callable[[R], str],
    to_console: Callable[[R], list[str]],
    to_text: Callable[[R], str] | None = None,
) -> Iterator[list[Writer[R]]]:
    """Writers to stdout and to the requested files.

    --results-path gets JSON lines, and with `to_text` also a text file of the same name.
    """
    console = Console()
    to_stdout = (
        partial(print_rows, console, to_console)
        if console.is_interactive
        else partial(write_lines, sys.stdout, to_tsv)
    )
    writers: list[Writer[R]] = [partial(write_events, output)] if c.json else []
    writers += [] if output.to_stdout else [to_stdout]
    if c.results_path is None:
        yield writers
        return
    path = Path(c.results_path)
    if not path.name:
        raise ToolkitError(
            f"--results-path must name a file, such as out.jsonl, but is {c.results_path!r}."
        )
    formats: dict[Path, Callable[[R], str]] = {path: to_json_line}
    if to_text:
        text_path = path.with_suffix(".txt")
        records_path = path.with_suffix(".jsonl") if path == text_path else path
        formats = {records_path: to_json_line, text_path: to_text}
    for file in formats:
        check_distinct_files({"--json": c.json, "--results-path": file})
        if c.input not in STDIN and file.exists() and file.samefile(c.input):
            raise ToolkitError(
                f"--results-path would overwrite the input {file}. Choose another name."
            )
    with ExitStack() as stack:
        for name, to_line in formats.items():
            opened = stack.enter_context(open_output(name))
            writers.append(partial(write_lines, opened, to_line))
        yield writers


@contextmanager
def load_requests(
    c: TextGenerationConfig, generator: TextGenerator, world: World
) -> Iterator[tuple[Iterator[GenerationRequest], int, int | None]]:
    """The requests, how many to read at a time, and their number if it is known."""
    if c.dirs:
        corpora = Corpora.open(*c.dirs, languages=generator.tokenizer.language_pair)
        names = [name.strip() for name in c.gen_subset.split(",") if name.strip()]
        build = text_requests if generator.decoder_only else pair_requests
        listed = list[GenerationRequest]()
        for name in names:
            folder = corpora.with_split(name)
            check_data_matches_checkpoint(folder.tokenizer, str(folder.path), generator.tokenizer)
            listed += [check_request(it, generator) for it in build(folder, name, generator)]
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
            yield generator.read_line(number, line)
        return
    start = 1
    while True:
        buffer = list(islice(lines, size)) if world.is_main else []
        hex_lines = json.loads(world.broadcast(json.dumps([line.hex() for line in buffer])))
        for number, line in enumerate(hex_lines, start):
            yield generator.read_line(number, bytes.fromhex(line))
        start += len(hex_lines)
        if not hex_lines:
            return


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
