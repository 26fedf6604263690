"""What a trained model makes of new text: a checkpoint and lines in, answers out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from toolkit.checkpoints.load import load_checkpoint
from toolkit.commands.generate_text import generate_text as write_sentences
from toolkit.commands.score import score_files
from toolkit.commands.text_io import check_results_path, open_input, open_results
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.commands.generate import GenerateConfig, SearchConfig
from toolkit.config.names import to_dashes
from toolkit.distributed import launch
from toolkit.generation.fill_mask import FilledSentence, FillMaskOutput, fill_lines
from toolkit.generation.output import (
    FillMaskConsoleWriter,
    FillMaskEventWriter,
    FillMaskJsonWriter,
    FillMaskTsvWriter,
    FillMaskWriter,
)
from toolkit.reporting.json_output import STDOUT, Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.pretraining.fill_mask import MASK, encode_masked
from toolkit.tasks.pretraining.fill_order import check_orderable, encode_hidden_words
from toolkit.tasks.task import Learner, Task
from toolkit.tasks.text_generation import is_generative


def generate(c: GenerateConfig) -> None:
    """Answer every line of the input, or item of the folders, once and in order."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        if c.score:
            if world.is_main:
                score_files(c.score, output)
            return
        learners = [load_learner(path, c) for path in c.path]
        if is_generative(learners[0]):
            check_generative_options(c)
            write_sentences(c, learners, world, output)
        elif world.is_main:
            check_fill_mask_options(c, learners[0])
            fill(c, learners[0].to(world.device), output)


def fill(c: GenerateConfig, learner: Learner, output: Output) -> None:
    """Masks and orders; on stderr, how many lines had no answer."""
    begun = perf_counter()
    with (
        open_input(c.input, f"{MASK} for a missing token") as lines,
        open_fill_mask_writers(c, output, learner) as writers,
    ):
        size = 1 if lines.isatty() else c.buffer_size
        found = fill_lines(
            lines,
            partial(order_sentences if c.order else fill_sentences, learner, c.top),
            make_order_counter(learner) if c.order else make_token_counter(learner),
            buffer_size=size,
            max_tokens=c.max_tokens,
        )
        with Progress("answering", None, "lines", quiet=sys.stdout.isatty()) as work:
            total, noted = write_outputs(found, writers, size, work.advance)
        seconds = perf_counter() - begun
        rate = total / max(seconds, 1e-9)
        figures = {"lines": total, "noted": noted, "seconds": seconds, "lines_per_second": rate}
        output.write("end", figures)
    if noted:
        print(
            f"{noted} of {total} lines had nothing to fill in; their notes say why.",
            file=sys.stderr,
        )


def check_generative_options(c: GenerateConfig) -> None:
    if c.order:
        raise ToolkitError(
            "--order must be with a model that learned to order words, such as by mpm, but this "
            "one "
            "writes sentences. Leave it out."
        )
    if c.top != GenerateConfig(path=c.path).top:
        raise ToolkitError(
            "--top must be with a model that fills [MASK], but this one writes sentences. Give "
            "--nbest for several hypotheses."
        )


def check_fill_mask_options(c: GenerateConfig, learner: Learner) -> None:
    """What only models that write can do, and tasks that answer nothing here."""
    task = type(learner.task)
    if task.fill_mask is Task.fill_mask:
        raise ToolkitError(
            f"toolkit-generate must have a checkpoint that fills masks or writes sentences, but "
            f"{c.path[0]} was trained with {task.__name__}. Take one of mlm, mpm, rtd, translation "
            f"or language_modeling, or run toolkit-validate."
        )
    usual = GenerateConfig(path=c.path)
    own = [field.name for field in fields(SearchConfig)]
    own += ["dirs", "gen_subset", "prefixes", "prefix_size", "score_reference"]
    other = [name for name in [*own, "print_alignment"] if getattr(c, name) != getattr(usual, name)]
    if other or len(c.path) > 1:
        name = other[0] if other else ""
        unflagged = {"": "several checkpoints", "dirs": "a data folder"}
        what = unflagged.get(name, f"--{to_dashes(name)}")
        raise ToolkitError(
            f"{what} must be with models that write, by translation or language_modeling, but this "
            f"one was trained with {task.__name__}. Leave it out."
        )


def write_outputs(
    found: Iterator[FillMaskOutput],
    writers: list[FillMaskWriter],
    size: int,
    told: Callable[[int], None],
) -> tuple[int, int]:
    """Hand each buffer of answers to every writer; how many answers, how many with a note."""
    total = noted = 0
    while some := list(islice(found, size)):
        for writer in writers:
            writer.write(some)
        told(len(some))
        total, noted = total + len(some), noted + sum(bool(answer.note) for answer in some)
    return total, noted


def fill_sentences(learner: Learner, top: int, sentences: Sequence[str]) -> list[FilledSentence]:
    found = learner.fill_mask(list(sentences), top=top, batch_size=len(sentences))
    return [FilledSentence(gaps) for gaps in found]


def order_sentences(learner: Learner, top: int, sentences: Sequence[str]) -> list[FilledSentence]:
    found = [learner.order_words(sentence, top=top) for sentence in sentences]
    return [FilledSentence(gaps, sentence) for sentence, gaps in found]


def load_learner(path: str, c: GenerateConfig) -> Learner:
    learner = load_checkpoint(path, weights=c.weights)
    kind = TASKS[c.task].factory if c.task else type(learner.task)
    if isinstance(kind, type) and not isinstance(learner.task, kind):
        raise ToolkitError(
            f"--task must be the task of the checkpoint, but is {c.task!r} and {path} was "
            f"trained with {type(learner.task).__name__}. Leave --task out."
        )
    return learner


def make_token_counter(learner: Learner) -> Callable[[str], int]:
    """How many tokens a sentence has; a ToolkitError where it cannot be filled."""

    encoder: Any = learner.encoder

    def measure(text: str) -> int:
        if MASK not in text:
            raise ToolkitError(f"no {MASK}" if text.strip() else "empty")
        return len(encode_masked(learner.tokenizer, text, encoder.max_positions))

    return measure


def make_order_counter(learner: Learner) -> Callable[[str], int]:
    """How many tokens a sentence has; a ToolkitError where there is nothing to order."""
    encoder: Any = learner.encoder

    def measure(text: str) -> int:
        ids, hidden = encode_hidden_words(learner.tokenizer, text)
        if sum(hidden) < 2:
            raise ToolkitError("fewer than two tokens to order")
        check_orderable(text, ids, hidden, encoder.max_positions)
        return len(ids)

    return measure


@contextmanager
def open_fill_mask_writers(
    c: GenerateConfig, output: Output, learner: Learner
) -> Iterator[list[FillMaskWriter]]:
    """To stdout a table on a terminal, tab-separated lines elsewhere; JSON lines to files."""
    terminal = Console()
    people = FillMaskConsoleWriter(terminal, learner.tokenizer.vocabulary.display_symbol)
    shown = people if terminal.is_terminal else FillMaskTsvWriter(sys.stdout)
    writers: list[FillMaskWriter] = [FillMaskEventWriter(output)] if c.json else []
    writers += [] if c.json == STDOUT else [shown]
    if c.results_path is None:
        yield writers
        return
    path = Path(c.results_path)
    check_results_path(c.input, path, json=c.json)
    with open_results(path) as file:
        yield [*writers, FillMaskJsonWriter(file)]
