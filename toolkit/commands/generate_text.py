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
from rich.console import Console as Terminal

from toolkit.checkpoints.compatibility import refuse_unsuited
from toolkit.commands.score import print_scores
from toolkit.commands.text_io import opened, refuse_input, writable
from toolkit.common.errors import ToolkitError
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.generate import GenerateConfig
from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.samples.sequence_pairs import TextColumn
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.generation.output import (
    Aligned,
    Dialogue,
    JsonReplies,
    Lines,
    Reply,
    ReplyEvents,
    ReplyWriter,
    Text,
)
from toolkit.generation.requests import Item, batches, read_line, share
from toolkit.optim.precision import DTYPES, resolve
from toolkit.reporting.json_output import STDOUT, Output
from toolkit.reporting.progress import Work
from toolkit.tasks.task import Learner
from toolkit.tasks.text_generation import Sentences


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


def write(c: GenerateConfig, learners: Sequence[Learner], world: World, output: Output) -> None:
    """Answer the lines of the input, or the items of the folders' splits."""
    keep_freed_memory()
    dtype = DTYPES.get(resolve(c.precision, world.device), torch.float32)
    sentences = Sentences([learner.to(world.device, dtype) for learner in learners], c)
    for model in sentences.models:
        model.pack()
    begun = perf_counter()
    with ExitStack() as stack:
        items, size, total = stack.enter_context(given_items(c, sentences, world))
        writers = stack.enter_context(written(c, output)) if world.first else []
        quiet = not world.first or sys.stdout.isatty()
        work = stack.enter_context(Work("writing", total, "sentences", quiet=quiet))
        tally = Tally()
        for some in replies_of(items, sentences, size, world, work.advance):
            for writer in writers:
                writer.write(some)
            tally.hear(some)
    if world.first:
        tally.tell(c, output, perf_counter() - begun, lowercase=sentences.target.lowercase)


class Tally:
    """What the command tells at its end."""

    def __init__(self) -> None:
        self.count = self.noted = self.symbols = 0
        self.total, self.first_note = 0.0, ""
        self.hypotheses: list[str] = []
        self.references: list[str | None] = []

    def hear(self, replies: Sequence[Reply]) -> None:
        self.count += len(replies)
        self.noted += sum(bool(reply.note) for reply in replies)
        for reply in replies:
            if reply.note and not self.first_note:
                self.first_note = f"line {reply.number} ({reply.note})"
            each = reply.texts[0].log_probabilities if reply.texts else []
            self.symbols, self.total = self.symbols + len(each), self.total + sum(each)
            self.hypotheses.append(reply.best)
            self.references.append(reply.reference)

    def tell(self, c: GenerateConfig, output: Output, seconds: float, *, lowercase: bool) -> None:
        """Counts and speed; the scores against references where all have one.

        With `lowercase`, where the vocabulary knows nothing else, they are counted so.
        """
        rate, symbols = self.count / max(seconds, 1e-9), self.symbols / max(seconds, 1e-9)
        found = {"lines": self.count, "noted": self.noted, "seconds": seconds}
        output.write("end", {**found, "lines_per_second": rate, "symbols_per_second": symbols})
        if c.folders or c.input != "-" or not sys.stdin.isatty():
            speed = f"{rate:.1f} sentences/s, {symbols:.0f} symbols/s"
            plural = "s" * (self.count != 1)
            print(f"{self.count} sentence{plural} in {seconds:.1f} s: {speed}.", file=sys.stderr)
        if self.noted:
            first = ", first " if self.noted > 1 else ": "
            print(f"{self.noted} had no answer{first}{self.first_note}.", file=sys.stderr)
        if c.score_reference:
            self.tell_perplexity(output)
        elif self.references and None not in self.references:
            known = [text for text in self.references if text is not None]
            print_scores(self.hypotheses, known, output, sys.stderr, lowercase=lowercase)

    def tell_perplexity(self, output: Output) -> None:
        """Of the references that could be scored, if any."""
        if not self.symbols:
            return
        mean = self.total / self.symbols
        figures = {"log_probability": mean, "ppl": float(np.exp(-mean))}
        output.write("score", figures)
        of = f"{self.count - self.noted} of {self.count}" if self.noted else "the"
        print(f"Perplexity of {of} references {figures['ppl']:.2f}.", file=sys.stderr)


def replies_of(
    items: Iterator[Item], sentences: Sentences, size: int, world: World, told: Callable[[int], Any]
) -> Iterator[list[Reply]]:
    """The answers to each buffer, in order; every rank writes its share of the batches."""
    c = sentences.c
    while some := list(islice(items, size)):
        ready = [item for item in some if not item.note]
        bounds = {"max_tokens": c.max_tokens, "batch_size": c.batch_size}
        groups = share(
            list(batches(ready, **bounds, alike=sentences.alone)), world.rank, world.size
        )
        mine: list[Reply] = []
        for group in groups:
            mine += sentences.replies(group)
            told(len(group) * world.size)
        done = {item.number: unanswered(item) for item in some if item.note}
        done |= {reply.number: reply for reply in gathered(mine, world)}
        assert len(done) == len(some), "every sentence is answered once"
        yield [done[item.number] for item in some]


def unanswered(item: Item) -> Reply:
    return Reply(item.number, item.text, [], item.reference, item.note)


def gathered(mine: list[Reply], world: World) -> list[Reply]:
    """The answers of all ranks."""
    if world.size == 1:
        return mine
    found = []
    for text in world.gather(json.dumps(mine)):
        for number, source, texts, reference, note in json.loads(text):
            found.append(Reply(number, source, [Text(*t) for t in texts], reference, note))
    return found


@contextmanager
def written(c: GenerateConfig, output: Output) -> Iterator[list[ReplyWriter]]:
    """To stdout, and to the files that were asked for."""
    terminal, scores = Terminal(), c.nbest > 1 or c.score_reference
    shown = Dialogue(terminal) if terminal.is_terminal else Lines(sys.stdout, scores=scores)
    writers: list[ReplyWriter] = [ReplyEvents(output)] if c.json else []
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
    refuse_input(c.input, path, beside, json=c.json)
    with ExitStack() as stack:
        one, two = (stack.enter_context(writable(name)) for name in (path, beside))
        records, texts = (two, one) if path.suffix == ".txt" else (one, two)
        yield [*writers, JsonReplies(records), Aligned(texts)]
