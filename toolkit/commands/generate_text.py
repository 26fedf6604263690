"""What toolkit-generate is given to answer: lines of text, or the items of a folder's splits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console

from toolkit.checkpoints.compatibility import check_data_matches_checkpoint
from toolkit.commands.score import print_scores
from toolkit.commands.text_io import check_results_path, open_input, open_results
from toolkit.common.errors import ToolkitError
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.generate import GenerateConfig
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.generation.output import (
    ConsoleWriter,
    EventWriter,
    FairseqWriter,
    GeneratedText,
    GenerationOutput,
    JsonWriter,
    LineWriter,
    OutputWriter,
)
from toolkit.generation.requests import (
    GenerationRequest,
    batch_requests,
    parse_line,
    select_rank_batches,
)
from toolkit.optim.precision import DTYPES, resolve_precision
from toolkit.reporting.json_output import STDOUT, Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.task import Learner
from toolkit.tasks.text_generation import TextGenerator


@contextmanager
def load_requests(
    c: GenerateConfig, sentences: TextGenerator, world: World
) -> Iterator[tuple[Iterator[GenerationRequest], int, int | None]]:
    """What is to be answered, how much of it to read at once, and how much there is if known."""
    if c.dirs:
        corpora = Corpora.open(*c.dirs)
        names = [name.strip() for name in c.gen_subset.split(",") if name.strip()]
        splits = [split_requests(corpora.with_split(name), name, sentences) for name in names]
        every = [item for split in splits for item in split]
        yield iter(renumber(every)), c.buffer_size, len(every)
        return
    what = "to write on" if sentences.decoder_only else "to translate"
    with open_input(c.input, f"One sentence {what} a line") as lines:
        typed = world.is_main and world.size == 1 and lines.isatty()
        yield (
            read_requests(lines, sentences, world, c.buffer_size),
            1 if typed else c.buffer_size,
            None,
        )


def read_requests(
    lines: Iterable[bytes], sentences: TextGenerator, world: World, size: int
) -> Iterator[GenerationRequest]:
    """Items of lines, which the first rank reads for all."""
    if world.size == 1:
        for number, line in enumerate(lines, 1):
            yield parse_line(number, line, sentences.encode_line)
        return
    first = 1
    while True:
        mine = list(islice(lines, size)) if world.is_main else []
        hexed = json.loads(world.broadcast(json.dumps([line.hex() for line in mine])))
        for number, line in enumerate(hexed, first):
            yield parse_line(number, bytes.fromhex(line), sentences.encode_line)
        first += len(hexed)
        if not hexed:
            return


def renumber(items: Sequence[GenerationRequest]) -> list[GenerationRequest]:
    return [item._replace(number=number) for number, item in enumerate(items, 1)]


def split_requests(
    folder: DataFolder, name: str, sentences: TextGenerator
) -> list[GenerationRequest]:
    """The items of a split: sources with references, or texts to write on."""
    check_data_matches_checkpoint(folder.tokenizer, str(folder.path), sentences.tokenizer)
    return (
        text_requests(folder, name, sentences)
        if sentences.decoder_only
        else pair_requests(folder, name, sentences)
    )


def pair_requests(
    folder: DataFolder, name: str, sentences: TextGenerator
) -> list[GenerationRequest]:
    split, c = ParallelSplit(folder, name), sentences.c
    sources, targets = list_tokens(split.source), list_tokens(split.target)
    wanted = split.references(np.arange(len(split)))
    found = []
    for source, target, reference in zip(sources, targets, wanted, strict=True):
        text = split.tokenizer.decode(source)
        begin = target if c.score_reference else target[: c.prefix_size]
        found.append(check_request(GenerationRequest(0, text, source, begin, reference), sentences))
    return found


def text_requests(
    folder: DataFolder, name: str, sentences: TextGenerator
) -> list[GenerationRequest]:
    """Each item of a text: its first `prefix_size` tokens are written on, or the whole is told."""
    c, column = sentences.c, TokenColumn(folder.split(name).column("tokens"))
    found = []
    for tokens in list_tokens(column):
        prompt = tokens[: c.prefix_size or len(tokens)]
        source, target = ([], tokens) if c.score_reference else (prompt, [])
        text = sentences.tokenizer.decode(tokens if c.score_reference else prompt)
        found.append(check_request(GenerationRequest(0, text, source, target), sentences))
    return found


def list_tokens(column: TokenColumn) -> list[list[int]]:
    text = column.take(np.arange(len(column.lengths)), column.lengths)
    return [row.tolist() for row in np.split(text.ids, np.cumsum(text.lengths)[:-1])]


def check_request(item: GenerationRequest, sentences: TextGenerator) -> GenerationRequest:
    """With a note where the models cannot answer."""
    try:
        if not (item.source or (sentences.decoder_only and item.target)):
            raise ToolkitError("empty")
        sentences.check_lengths(item.source, item.target)
    except ToolkitError as error:
        return item._replace(source=[], target=[], note=str(error))
    return item


def generate_text(
    c: GenerateConfig, learners: Sequence[Learner], world: World, output: Output
) -> None:
    """Answer the lines of the input, or the items of the folders' splits."""
    keep_freed_memory()
    dtype = DTYPES.get(resolve_precision(c.precision, world.device), torch.float32)
    sentences = TextGenerator([learner.to(world.device, dtype) for learner in learners], c)
    for model in sentences.models:
        model.pack()
    begun = perf_counter()
    with ExitStack() as stack:
        items, size, total = stack.enter_context(load_requests(c, sentences, world))
        writers = stack.enter_context(open_writers(c, output)) if world.is_main else []
        quiet = not world.is_main or sys.stdout.isatty()
        work = stack.enter_context(Progress("writing", total, "sentences", quiet=quiet))
        tally = GenerationSummary()
        for some in generate_outputs(items, sentences, size, world, work.advance):
            for writer in writers:
                writer.write(some)
            tally.update(some)
    if world.is_main:
        tally.report(c, output, perf_counter() - begun, lowercase=sentences.target.lowercase)


class GenerationSummary:
    """What the command tells at its end."""

    def __init__(self) -> None:
        self.count = self.noted = self.symbols = 0
        self.total, self.first_note = 0.0, ""
        self.hypotheses: list[str] = []
        self.references: list[str | None] = []

    def update(self, replies: Sequence[GenerationOutput]) -> None:
        self.count += len(replies)
        self.noted += sum(bool(reply.note) for reply in replies)
        for reply in replies:
            if reply.note and not self.first_note:
                self.first_note = f"line {reply.number} ({reply.note})"
            each = reply.hypotheses[0].log_probabilities if reply.hypotheses else []
            self.symbols, self.total = self.symbols + len(each), self.total + sum(each)
            self.hypotheses.append(reply.best)
            self.references.append(reply.reference)

    def report(self, c: GenerateConfig, output: Output, seconds: float, *, lowercase: bool) -> None:
        """Counts and speed; the scores against references where all have one.

        With `lowercase`, where the vocabulary knows nothing else, they are counted so.
        """
        rate, symbols = self.count / max(seconds, 1e-9), self.symbols / max(seconds, 1e-9)
        found = {"lines": self.count, "noted": self.noted, "seconds": seconds}
        output.write("end", {**found, "lines_per_second": rate, "symbols_per_second": symbols})
        if c.dirs or c.input != "-" or not sys.stdin.isatty():
            speed = f"{rate:.1f} sentences/s, {symbols:.0f} symbols/s"
            plural = "s" * (self.count != 1)
            print(f"{self.count} sentence{plural} in {seconds:.1f} s: {speed}.", file=sys.stderr)
        if self.noted:
            first = ", first " if self.noted > 1 else ": "
            print(f"{self.noted} had no answer{first}{self.first_note}.", file=sys.stderr)
        if c.score_reference:
            self.report_perplexity(output)
        elif self.references and None not in self.references:
            known = [text for text in self.references if text is not None]
            print_scores(self.hypotheses, known, output, sys.stderr, lowercase=lowercase)

    def report_perplexity(self, output: Output) -> None:
        """Of the references that could be scored, if any."""
        if not self.symbols:
            return
        mean = self.total / self.symbols
        figures = {"log_probability": mean, "ppl": float(np.exp(-mean))}
        output.write("score", figures)
        of = f"{self.count - self.noted} of {self.count}" if self.noted else "the"
        print(f"Perplexity of {of} references {figures['ppl']:.2f}.", file=sys.stderr)


def generate_outputs(
    items: Iterator[GenerationRequest],
    sentences: TextGenerator,
    size: int,
    world: World,
    told: Callable[[int], Any],
) -> Iterator[list[GenerationOutput]]:
    """The answers to each buffer, in order; every rank writes its share of the batches."""
    c = sentences.c
    while some := list(islice(items, size)):
        ready = [item for item in some if not item.note]
        bounds = {"max_tokens": c.max_tokens, "batch_size": c.batch_size}
        groups = select_rank_batches(
            list(batch_requests(ready, **bounds, same_source_length=sentences.decoder_only)),
            world.rank,
            world.size,
        )
        mine: list[GenerationOutput] = []
        for group in groups:
            mine += sentences.generate(group)
            told(len(group) * world.size)
        done = {item.number: empty_output(item) for item in some if item.note}
        done |= {reply.number: reply for reply in gather_outputs(mine, world)}
        assert len(done) == len(some), "every sentence is answered once"
        yield [done[item.number] for item in some]


def empty_output(item: GenerationRequest) -> GenerationOutput:
    return GenerationOutput(item.number, item.text, [], item.reference, item.note)


def gather_outputs(mine: list[GenerationOutput], world: World) -> list[GenerationOutput]:
    """The answers of all ranks."""
    if world.size == 1:
        return mine
    found = []
    for text in world.all_gather(json.dumps(mine)):
        for number, source, texts, reference, note in json.loads(text):
            found.append(
                GenerationOutput(
                    number, source, [GeneratedText(*t) for t in texts], reference, note
                )
            )
    return found


@contextmanager
def open_writers(c: GenerateConfig, output: Output) -> Iterator[list[OutputWriter]]:
    """To stdout, and to the files that were asked for."""
    terminal, scores = Console(), c.nbest > 1 or c.score_reference
    shown = (
        ConsoleWriter(terminal) if terminal.is_terminal else LineWriter(sys.stdout, scores=scores)
    )
    writers: list[OutputWriter] = [EventWriter(output)] if c.json else []
    writers += [] if c.json == STDOUT else [shown]
    if c.results_path is None:
        yield writers
        return
    path = Path(c.results_path)
    if not path.name:
        raise ToolkitError(
            f"--results-path must name a file, but is {c.results_path!r}. Give one, as out.jsonl."
        )
    beside = path.with_suffix(".jsonl" if path.suffix == ".txt" else ".txt")
    check_results_path(c.input, path, beside, json=c.json)
    with ExitStack() as stack:
        one, two = (stack.enter_context(open_results(name)) for name in (path, beside))
        records, texts = (two, one) if path.suffix == ".txt" else (one, two)
        yield [*writers, JsonWriter(records), FairseqWriter(texts)]
