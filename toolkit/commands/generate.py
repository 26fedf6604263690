"""toolkit-generate: apply a trained model to lines of text or to the items of data folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from toolkit.commands.generate_text import generate_text
from toolkit.commands.text_io import open_input, open_writers
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.commands.generate import (
    FillMaskConfig,
    GenerationOptions,
    OrderConfig,
    TextGenerationConfig,
)
from toolkit.data.tokenizers.tokenizer import MASK
from toolkit.distributed import launch
from toolkit.generation.fill_mask import FilledSentence, fill_lines
from toolkit.generation.output import FillMaskOutput
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.capabilities import wrong_training_error
from toolkit.tasks.learner import Learner
from toolkit.tasks.load import load_checkpoint
from toolkit.tasks.pretraining.fill_mask import encode_masked
from toolkit.tasks.pretraining.order_words import check_orderable, encode_hidden_words
from toolkit.tasks.task import Task


def generate(c: TextGenerationConfig | FillMaskConfig) -> None:
    """Write one output per line of the input, or item of the data folders, in order."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        learners = [load_learner(path, c) for path in c.path]
        if isinstance(c, TextGenerationConfig):
            generate_text(c, learners, world, output)
        elif world.is_main:
            fill_masks(c, learners[0].to(world.device), output)


def fill_masks(c: FillMaskConfig, learner: Learner, output: Output) -> None:
    """Fill masks or order words; report on stderr how many lines had nothing to predict."""
    started, total, noted = perf_counter(), 0, 0
    predict, count_tokens = fill_sentences, count_masked_tokens
    if isinstance(c, OrderConfig):
        predict, count_tokens = order_sentences, count_ordered_tokens
    display = learner.tokenizer.vocabulary.display_symbol
    with (
        open_input(c.input, f"Type one sentence per line, {MASK} for a missing token") as lines,
        open_writers(
            c, output, FillMaskOutput.to_tsv, lambda record: record.to_console(display)
        ) as writers,
        Progress("predicting", None, "lines", quiet=sys.stdout.isatty()) as progress,
    ):
        size = 1 if lines.isatty() else c.buffer_size
        outputs = fill_lines(
            lines,
            partial(predict, learner, c.top),
            partial(count_tokens, learner),
            buffer_size=size,
            max_tokens=c.max_tokens,
        )
        while records := list(islice(outputs, size)):
            for write in writers:
                write(records)
            progress.advance(len(records))
            total, noted = total + len(records), noted + sum(bool(it.note) for it in records)
    seconds = perf_counter() - started
    counts = {"lines": total, "noted": noted, "seconds": seconds}
    output.write("end", {**counts, "lines_per_second": total / max(seconds, 1e-9)})
    if noted:
        print(f"{noted} of {total} lines skipped; their notes say why.", file=sys.stderr)


def check_mode(c: GenerationOptions, path: str, task: Task[Any, Any, Any]) -> None:
    """Raise if models of this task cannot be used in the mode."""
    supported, tasks = task.generation_mode == c.mode, "translation"
    if c.mode == "continue":
        tasks = "language_modeling"
    elif c.mode == "fill-mask":
        supported, tasks = type(task).fill_mask is not Task.fill_mask, "mlm, mpm or rtd"
    elif c.mode == "order":
        supported, tasks = type(task).order_words is not Task.order_words, "mpm"
    if not supported:
        what, given = f"toolkit-generate {c.mode}", f"--task {TASKS.find_name(type(task))}"
        raise wrong_training_error(what, f"--task {tasks}", given, path)


def fill_sentences(learner: Learner, top: int, sentences: Sequence[str]) -> list[FilledSentence]:
    """The most probable tokens for the masks of some sentences."""
    predictions = learner.fill_mask(list(sentences), top=top, batch_size=len(sentences))
    return [FilledSentence(masks) for masks in predictions]


def order_sentences(learner: Learner, top: int, sentences: Sequence[str]) -> list[FilledSentence]:
    """Some sentences in their most probable order."""
    ordered = [learner.order_words(sentence, top=top) for sentence in sentences]
    return [FilledSentence(masks, sentence) for sentence, masks in ordered]


def load_learner(path: str, c: GenerationOptions) -> Learner:
    """The learner of a checkpoint; raises a ToolkitError if it has no such mode or task."""
    learner = load_checkpoint(path, weights=c.weights)
    check_mode(c, path, learner.task)
    task_class = TASKS[c.task].factory if c.task else type(learner.task)
    if isinstance(task_class, type) and not isinstance(learner.task, task_class):
        raise ToolkitError(
            f"--task {c.task} does not match the checkpoint: {path} was trained with "
            f"--task {TASKS.find_name(type(learner.task))}. Omit --task."
        )
    return learner


def count_masked_tokens(learner: Learner, text: str) -> int:
    """Number of tokens of a sentence; raises a ToolkitError if it has no mask."""
    if MASK not in text:
        raise ToolkitError(f"no {MASK}" if text.strip() else "empty")
    return len(encode_masked(learner.tokenizer, text, learner.encoder.max_positions))


def count_ordered_tokens(learner: Learner, text: str) -> int:
    """Number of tokens of a sentence; raises a ToolkitError if there is nothing to order."""
    ids, hidden = encode_hidden_words(learner.tokenizer, text)
    if sum(hidden) < 2:
        raise ToolkitError("fewer than two tokens to order")
    check_orderable(text, hidden, learner.encoder.max_positions)
    return len(ids)
