"""Sentences in, sentences out: each line or item answered once and in its place, over all ranks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console as Terminal

from toolkit.common.errors import ToolkitError
from toolkit.common.memory import keep_freed_memory
from toolkit.config.generate import GenerateConfig
from toolkit.distributed import World
from toolkit.generation.items import Item, batches, share
from toolkit.generation.replies import (
    Aligned,
    Dialogue,
    JsonReplies,
    Lines,
    Reply,
    ReplyEvents,
    ReplyWriter,
    Text,
)
from toolkit.metrics.output import STDOUT, Output
from toolkit.metrics.progress import Work
from toolkit.optim.precision import DTYPES, resolve
from toolkit.tasks.sentences import Sentences
from toolkit.tasks.task import Learner
from toolkit.training.given import given_items
from toolkit.training.lines import refuse_input, writable
from toolkit.training.score import print_scores


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
