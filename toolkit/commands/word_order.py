"""toolkit-inspect --word-order: what checkpoints lose if the words of a text are shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.analysis.word_order import (
    ORIGINAL,
    OrderLoss,
    SentenceSample,
    count_read_tokens,
    measure_word_order,
)
from toolkit.checkpoints.load import check_data_matches_checkpoint
from toolkit.checkpoints.save_folder import LAST
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.commands.checkpoints import InspectConfig
from toolkit.config.values import locate_checkpoint
from toolkit.data.formats.text.format import encode_raw_texts
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import SHARD_SEPARATOR, Corpora, DataFolder
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.data.text_files import read_text
from toolkit.distributed.world import select_device
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.capabilities import HasTokensPerSample, wrong_training_error
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets

VALID = "valid"
"""Split of a data folder that is read."""


def show_word_order(config: InspectConfig, output: Output) -> None:
    """Measure each checkpoint; print a table for each, and one that compares them."""
    results = {path: measure_checkpoint(path, config, output) for path in config.paths}
    if len(results) > 1:
        heads = ["loss", *(order_name(it.window) for it in next(iter(results.values()))[1:])]
        Table(
            columns=("checkpoint", *heads),
            rows=[
                [name, losses[0].loss, *(it.increase for it in losses[1:])]
                for name, losses in zip(short_names([*results]), results.values(), strict=True)
            ],
            shared_precision=heads,
            caption="loss in the original order, and its increase in shuffled windows",
        ).print(output.console)


def measure_checkpoint(path: str, config: InspectConfig, output: Output) -> list[OrderLoss]:
    """The losses of one checkpoint, which are printed and written."""
    assert config.word_order is not None, "the option chooses this mode"
    learner = load_checkpoint(locate_checkpoint(Path(path), LAST) or path)
    if not isinstance(learner.task, ScoresTargets):
        task, options = TASKS.find_name(type(learner.task)), "--task mlm, mpm or language_modeling"
        raise wrong_training_error("--word-order", options, task, path)
    learner = learner.to(select_device(config.device))
    folder, split = open_sentences(config.word_order, learner, path)
    column = TokenColumn(folder.split(split).column("tokens"))
    sample = SentenceSample(learner, column, limit=config.limit, length=max_tokens(learner))
    total = count_read_tokens(sample, config.shuffles)
    with Progress(f"word order of {path}", total, "tokens") as progress:
        losses = measure_word_order(
            learner, sample, shuffles=config.shuffles, on_tokens=progress.advance
        )
    for each in losses:
        shuffles = 1 if each.window == ORIGINAL else config.shuffles
        source = {"checkpoint": path, "text": config.word_order, "shuffles": shuffles}
        ratio = {"perplexity_ratio": each.perplexity_ratio}
        output.write("word_order", {**source, **vars(each), **ratio})
    loss_table(path, losses, sample).print(output.console)
    return losses


def open_sentences(text: str, learner: Learner, path: str) -> tuple[DataFolder, str]:
    """The sentences of a text file or of a data folder, and the name of their split."""
    parts = [Path(part) for part in text.split(SHARD_SEPARATOR)]
    if not parts[0].is_dir():
        if not (lines := [line for line in read_text(Path(text)).split("\n") if line.strip()]):
            raise ToolkitError(f"--word-order {text} must have a sentence per line, but is blank.")
        return encode_raw_texts(learner.tokenizer, lines, None), SPLIT
    corpora = Corpora.open(text)
    check_data_matches_checkpoint(corpora.tokenizer, text, learner.tokenizer, path)
    return corpora.with_split(VALID), VALID


def max_tokens(learner: Learner) -> int:
    """Maximum number of tokens of a sentence: that of the checkpoint's training."""
    config = learner.task.resolve_for(learner.require_origin().task.config, learner.encoder)
    assert isinstance(config, HasTokensPerSample), "tasks that predict tokens have a length"
    limit = learner.encoder.max_positions
    return min(config.tokens_per_sample, limit) if limit else config.tokens_per_sample


def loss_table(path: str, losses: Sequence[OrderLoss], sample: SentenceSample) -> Table:
    """One row per order."""
    rows: list[list[Cell]] = []
    for it in losses:
        difference = [it.increase, it.standard_error, it.perplexity_ratio]
        compared = [None] * 3 if it.window == ORIGINAL else difference
        rows.append([order_name(it.window), it.loss, *compared, it.accuracy])
    cut = f", {sample.truncated:,} of them cut" if sample.truncated else ""
    return Table(
        columns=("order", "loss", "increase", "standard error", "perplexity ratio", "accuracy"),
        rows=rows,
        shared_precision=("loss", "increase", "standard error"),
        caption=f"{path}: {losses[0].targets:,} tokens of {len(sample.ids):,} sentences{cut}",
    )


def order_name(window: int | None) -> str:
    """Name of an order in tables."""
    if window == ORIGINAL:
        return "original"
    return "whole sentence" if window is None else f"windows of {window}"
