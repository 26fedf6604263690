"""Text generation for lines or data folders: one output each, in order, over all ranks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np
import torch

from toolkit.commands.generation_requests import load_requests
from toolkit.commands.score import print_scores
from toolkit.commands.text_io import open_writers
from toolkit.common.system import keep_freed_memory
from toolkit.config.commands.generate import TextGenerationConfig
from toolkit.distributed import World
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.generation.requests import GenerationRequest, batch_requests, select_rank_batches
from toolkit.optim.precision import DTYPES, resolve_precision
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress
from toolkit.tasks.learner import Learner
from toolkit.tasks.text_generation import TextGenerator


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
        lowercase = generator.target.lowercase
        summary.report(c, output, perf_counter() - started, lowercase=lowercase)


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
        self, c: TextGenerationConfig, output: Output, seconds: float, *, lowercase: bool
    ) -> None:
        """Counts and speed; scores if every line has a reference, lowercased on request."""
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
        if c.score_reference:
            self.report_perplexity(output)
            return
        references = [text for text in self.references if text is not None]
        if references and len(references) == self.count:
            print_scores(self.hypotheses, references, output, sys.stderr, lowercase=lowercase)

    def report_perplexity(self, output: Output) -> None:
        """Perplexity of the references that could be scored."""
        if not self.tokens:
            return
        mean = self.total / self.tokens
        metrics = {"log_probability": mean, "ppl": float(np.exp(-mean))}
        output.write("score", metrics)
        scored = f"{self.count - self.noted} of {self.count}" if self.noted else "the"
        print(f"Perplexity of {scored} references: {metrics['ppl']:.2f}.", file=sys.stderr)


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
        batches = batch_requests(
            [request for request in buffer if not request.note],
            max_tokens=c.max_tokens,
            batch_size=c.batch_size,
            same_source_length=generator.decoder_only,
        )
        outputs = [empty_output(request) for request in buffer if request.note]
        of_rank: list[GenerationOutput] = []
        for batch in select_rank_batches(list(batches), world.rank, world.size):
            of_rank += generator.generate(batch)
            advance(len(batch) * world.size)
        outputs += gather_outputs(of_rank, world)
        by_number = {output.number: output for output in outputs}
        assert len(by_number) == len(buffer), "every request has one output"
        yield [by_number[request.number] for request in buffer]


def empty_output(request: GenerationRequest) -> GenerationOutput:
    """The output of a request that could not be processed, with its note."""
    return GenerationOutput(request.number, request.text, [], request.reference, request.note)


def gather_outputs(outputs: list[GenerationOutput], world: World) -> list[GenerationOutput]:
    """The outputs of all ranks."""
    if world.size == 1:
        return outputs
    return [
        GenerationOutput(number, source, [GeneratedText(*text) for text in texts], reference, note)
        for gathered in world.all_gather(json.dumps(outputs))
        for number, source, texts, reference, note in json.loads(gathered)
    ]
