"""toolkit-generate: apply a trained model to lines of text or to the items of data folders.

Its mode score compares translations with references: BLEU, chrF and TER by sacreBLEU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from toolkit.commands.text_io import load_requests, open_input, open_writers
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.generate import (
    FillMaskConfig,
    GenerationOptions,
    OrderConfig,
    ScoreConfig,
    SurprisalConfig,
    TextGenerationConfig,
)
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.tokenizer import MASK
from toolkit.distributed import World, launch
from toolkit.generation.generate import (
    GenerationRequest,
    answer_lines,
    batch_by_length,
    request_lengths,
)
from toolkit.generation.output import (
    FillMaskOutput,
    GeneratedText,
    GenerationOutput,
    SurprisalOutput,
)
from toolkit.metrics.translation import ALL_METRICS, corpus_scores
from toolkit.optim.update import DTYPES, resolve_precision
from toolkit.reporting.console import Output, Progress, TextStream
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.completions.surprisal import SurprisalReader
from toolkit.tasks.learner import Learner
from toolkit.tasks.pretraining.hybrid import Hybrid
from toolkit.tasks.pretraining.mlm import encode_masked
from toolkit.tasks.pretraining.mpm import check_orderable, encode_hidden_words
from toolkit.tasks.task import (
    FillsMasks,
    OrdersWords,
    ScoresContinuations,
    ScoresTargets,
    Task,
    wrong_training_error,
)
from toolkit.tasks.text_generation import TextGenerator


def generate(c: TextGenerationConfig | FillMaskConfig | SurprisalConfig) -> None:
    """Write one output per line of the input, or item of the data folders, in order."""
    with launch(c.device) as world, Output(c.json if world.is_main else None) as output:
        learners = list[Learner]()
        for path in c.path:
            learners.append(load_checkpoint(path, weights=c.weights))
            check_mode(c, path, learners[-1].task)
        if isinstance(c, TextGenerationConfig):
            generate_text(c, learners, world, output)
        elif world.is_main:
            predict_lines(c, learners[0].to(world.device), output)


def predict_lines(c: FillMaskConfig | SurprisalConfig, learner: Learner, output: Output) -> None:
    """Fill masks, order or measure words; report on stderr how many lines were skipped."""
    started, total, noted = perf_counter(), 0, 0
    hint = "Type one sentence per line"
    record: type[Any] = SurprisalOutput
    answer: Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
    count: Callable[[str], int]
    if isinstance(c, SurprisalConfig):
        reader = SurprisalReader(learner, c, max_tokens=c.max_tokens)
        answer, count = reader.answer, reader.count_tokens
    else:
        hint, record = f"{hint}, {MASK} for a missing token", FillMaskOutput
        answer, count = partial(fill_sentences, c, learner), partial(count_tokens, c, learner)
    with (
        open_input(c.input, hint) as lines,
        open_writers(c, output, record.to_tsv, record.to_console) as writers,
        Progress("predicting", None, "lines", quiet=sys.stdout.isatty()) as progress,
    ):
        size = 1 if lines.isatty() else c.buffer_size
        outputs = answer_lines(
            *(lines, record, answer, count), buffer_size=size, max_tokens=c.max_tokens
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


MODES: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "translate": ((), "translation or denoising"),
    "continue": ((Hybrid,), "language_modeling or hybrid"),
    "fill-mask": ((FillsMasks,), "mlm, mpm or rtd"),
    "surprisal": (
        (ScoresTargets, ScoresContinuations),
        "mlm, mpm, language_modeling, translation or denoising",
    ),
    "order": ((OrdersWords,), "mpm"),
}
"""Mode -> classes of the tasks that have it, besides those whose `generation_mode` it is; names."""


def check_mode(c: GenerationOptions, path: str, task: Task[Any, Any, Any]) -> None:
    """Raise if models of this task cannot be used in the mode, or have not the task of --task."""
    classes, tasks = MODES[c.word]
    if task.generation_mode != c.word and not isinstance(task, classes):
        what, given = f"toolkit-generate {c.word}", f"--task {TASKS.find_name(type(task))}"
        raise wrong_training_error(what, f"--task {tasks}", given, path)
    wanted = TASKS[c.task].factory if c.task else type(task)
    if isinstance(wanted, type) and not isinstance(task, wanted):
        raise ToolkitError(
            f"--task {c.task} does not match the checkpoint: {path} was trained with "
            f"--task {TASKS.find_name(type(task))}. Omit --task."
        )


def fill_sentences(
    c: FillMaskConfig, learner: Learner, sentences: Sequence[str]
) -> list[dict[str, Any]]:
    """The most probable tokens for the masks of some sentences, or their most probable order."""
    if isinstance(c, OrderConfig):
        ordered = [learner.order_words(sentence, top=c.top) for sentence in sentences]
        return [{"masks": masks, "sentence": sentence} for sentence, masks in ordered]
    predictions = learner.fill_mask(list(sentences), top=c.top, batch_size=len(sentences))
    return [{"masks": masks} for masks in predictions]


def count_tokens(c: FillMaskConfig, learner: Learner, text: str) -> int:
    """Number of tokens of a sentence; raises a ToolkitError if there is nothing to predict."""
    limit = learner.encoder.max_positions
    if isinstance(c, OrderConfig):
        ids, hidden = encode_hidden_words(learner.tokenizer, text)
        if len(hidden) < 2:
            raise ToolkitError("fewer than two words to order")
        check_orderable(text, ids, hidden, limit)
        return len(ids)
    if MASK not in text:
        raise ToolkitError(f"no {MASK}" if text.strip() else "empty")
    return len(encode_masked(learner.tokenizer, text, limit))


def generate_text(
    c: TextGenerationConfig, learners: Sequence[Learner], world: World, output: Output
) -> None:
    """Generate text for every request, in order, and report the speed."""
    keep_freed_memory()
    dtype = DTYPES.get(resolve_precision(c.precision, world.device), torch.float32)
    generator = TextGenerator([learner.to(world.device, dtype) for learner in learners], c)
    for model in generator.models:
        model.pack()
    started, summary = perf_counter(), GenerationSummary()
    with ExitStack() as stack:
        requests, size, total = stack.enter_context(load_requests(c, generator, world))
        to_tsv = partial(GenerationOutput.to_tsv, scores=c.nbest > 1 or c.score_reference)
        formats = (to_tsv, GenerationOutput.to_console, GenerationOutput.to_fairseq)
        writers = stack.enter_context(open_writers(c, output, *formats)) if world.is_main else []
        quiet = not world.is_main or sys.stdout.isatty()
        progress = stack.enter_context(Progress("generating", total, "sentences", quiet=quiet))
        for outputs in generate_outputs(requests, generator, size, world, progress.advance):
            for write in writers:
                write(outputs)
            summary.update(outputs)
    if world.is_main:
        pair = generator.tokenizer.language_pair
        summary.report(
            *(c, output, perf_counter() - started),
            language=pair[1] if pair else "",
            tokenize=c.eval_bleu_tokenize,
            lowercase=generator.target.lowercase,
        )


class GenerationSummary:
    """Counts and scores that the command reports at its end."""

    def __init__(self) -> None:
        self.count = self.noted = self.tokens = 0
        self.total, self.first_note = 0.0, ""  # sum of the log-probabilities of all tokens
        self.hypotheses: list[str] = []
        self.references: list[str | None] = []

    def update(self, outputs: Sequence[GenerationOutput]) -> None:
        for output in outputs:
            self.count += 1
            self.noted += bool(output.note)
            if output.note and not self.first_note:
                self.first_note = f"line {output.number} ({output.note})"
            if output.hypotheses:
                log_probabilities = output.hypotheses[0].log_probabilities
                self.tokens += len(log_probabilities)
                self.total += sum(log_probabilities)
            self.hypotheses.append(output.best)
            self.references.append(output.reference)

    def report(
        self, c: TextGenerationConfig, output: Output, seconds: float, **scoring: Any
    ) -> None:
        """Counts and speed; scores with the options `scoring` if every line has a reference."""
        rate, tokens = self.count / max(seconds, 1e-9), self.tokens / max(seconds, 1e-9)
        counts = {"lines": self.count, "noted": self.noted, "seconds": seconds}
        output.write("end", {**counts, "lines_per_second": rate, "tokens_per_second": tokens})
        if c.dirs or c.input != "-" or not sys.stdin.isatty():
            speed = f"{rate:.1f} sentences/s, {tokens:.0f} tokens/s"
            plural = "s" * (self.count != 1)
            print(f"{self.count} sentence{plural} in {seconds:.1f} s: {speed}.", file=sys.stderr)
        if self.noted:
            first = "s skipped, first " if self.noted > 1 else " skipped: "
            print(f"{self.noted} line{first}{self.first_note}.", file=sys.stderr)
        references = [text for text in self.references if text is not None]
        if c.score_reference and self.tokens:
            mean = self.total / self.tokens
            metrics = {"log_probability": mean, "ppl": float(np.exp(-mean))}
            output.write("score", metrics)
            scored = f"{self.count - self.noted} of {self.count}" if self.noted else "the"
            print(f"Perplexity of {scored} references: {metrics['ppl']:.2f}.", file=sys.stderr)
        elif references and len(references) == self.count and not c.score_reference:
            print_scores(self.hypotheses, references, output, sys.stderr, **scoring)


def generate_outputs(
    requests: Iterator[GenerationRequest],
    generator: TextGenerator,
    size: int,
    world: World,
    advance: Callable[[int], object],
) -> Iterator[list[GenerationOutput]]:
    """Lists of outputs, in order, for `size` requests each; each rank generates its batches."""
    c = generator.c
    while buffer := list(islice(requests, size)):
        batches = batch_by_length(
            [request for request in buffer if not request.note],
            request_lengths,
            c.max_tokens,
            batch_size=c.batch_size,
            same_first=generator.decoder_only,
        )
        outputs = [
            GenerationOutput(it.number, it.text, [], it.reference, it.note)
            for it in buffer
            if it.note
        ]
        of_rank: list[GenerationOutput] = []
        for batch in list(batches)[world.rank :: world.size]:
            of_rank += generator.generate(batch)
            advance(len(batch) * world.size)
        if world.size > 1:
            of_rank = [
                GenerationOutput(number, source, [GeneratedText(*it) for it in texts], *rest)
                for gathered in world.all_gather(json.dumps(of_rank))
                for number, source, texts, *rest in json.loads(gathered)
            ]
        outputs += of_rank
        by_number = {output.number: output for output in outputs}
        assert len(by_number) == len(buffer), "every request has one output"
        yield [by_number[request.number] for request in buffer]


LABELS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}


def score(config: ScoreConfig) -> None:
    """Run toolkit-generate score."""
    files = config.files
    with Output(config.json) as output:
        translations, references = map(read_sentences, files)
        if len(translations) != len(references):
            raise ToolkitError(
                f"{files[0]} has {len(translations)} lines, but {files[1]} has {len(references)}. "
                f"Every translation needs a reference on the same line."
            )
        if not references:
            raise ToolkitError(f"No lines to score: {files[0]} is empty.")
        options = {"language": config.target_lang, "tokenize": config.eval_bleu_tokenize}
        print_scores(translations, references, output, output.text_stream, **options)


def read_sentences(file: str) -> list[str]:
    """Lines of a text file without their ends, LF or CRLF."""
    lines = read_text(Path(file), may_be_empty=True, allow_pipe=True).split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def print_scores(
    translations: Sequence[str],
    references: Sequence[str],
    output: Output,
    stream: TextStream,
    **options: Any,
) -> None:
    """Print BLEU, chrF and TER with sacreBLEU's signatures; `options` as in `corpus_scores`."""
    for it in corpus_scores(translations, references, names=ALL_METRICS, **options):
        detail = f" {it.detail}" if it.detail else ""
        print(f"{LABELS[it.name]} {it.value:.2f}{detail}  {it.signature}", file=stream)
        output.write("score", {"name": it.name, "value": it.value, "signature": it.signature})
