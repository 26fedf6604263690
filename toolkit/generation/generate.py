"""Generate text for requests in batches of sources or prompts, and fill the masks of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import torch

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import SearchConfig
from toolkit.data.records import decode_line
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.output import FillMaskOutput, SurprisalOutput
from toolkit.generation.search import search
from toolkit.generation.step_scorer import CachedScorer, CausalReader, PrefixScorer, StepScorer
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs

T = TypeVar("T")
L = TypeVar("L", FillMaskOutput, SurprisalOutput)


@torch.no_grad()
def generate(
    models: Sequence[GenerativeModel],
    inputs: Inputs | None,
    prompts: Sequence[DecodingPrompt],
    special_tokens: SpecialTokens,
    c: SearchConfig,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; several models form an ensemble. `inputs` are
    the sources, None for language models.
    """
    scorers: list[StepScorer] = [
        PrefixScorer(model.next_scores)
        if isinstance(model, CausalReader)
        else CachedScorer(model, inputs, len(prompts))
        for model in models
    ]
    return search(scorers, prompts, special_tokens, c, models[0].token_embedding.weight.device)


def generate_best(
    model: GenerativeModel,
    inputs: Inputs,
    vocabulary: Vocabulary,
    *,
    beam: int = 1,
    lenpen: float = 1.0,
    max_length: int | Sequence[int] = 200,
) -> list[list[int]]:
    """The best hypothesis for each source, in order, without the end symbol.

    `vocabulary` is the target's; `max_length` limits the tokens of all, or of each.
    """
    limits = [max_length] * len(inputs.tokens) if isinstance(max_length, int) else max_length
    prompts = [
        DecodingPrompt(fit_length(model.max_positions, limit), min_length=1) for limit in limits
    ]
    c = SearchConfig(beam=beam, lenpen=lenpen)
    special_tokens = SpecialTokens.from_vocabulary(vocabulary)
    return [best.tokens for best, *_ in generate([model], inputs, prompts, special_tokens, c)]


def fit_length(max_positions: int | None, max_length: int, prompt: int = 0) -> int:
    """Tokens that fit after the start symbol and the prompt."""
    return max_length if max_positions is None else min(max_length, max_positions - 1 - prompt)


class GenerationRequest(NamedTuple):
    """One sentence to process."""

    number: int
    """Number of the line or item, from 1."""
    text: str
    source: list[int] = []  # noqa: RUF012
    """Tokens of the source, or of the prompt of a language model."""
    target: list[int] = []  # noqa: RUF012
    """Forced prefix of the hypotheses, or the whole reference to score."""
    reference: str | None = None
    note: str = ""
    """Why it cannot be processed; empty if it can."""


def request_lengths(request: GenerationRequest) -> tuple[int, int]:
    """Tokens of the source and of the target, each with its end symbol."""
    return len(request.source) + 1, len(request.target) + 1


def batch_by_length(
    items: Iterable[T],
    lengths: Callable[[T], tuple[int, ...]],
    max_tokens: int,
    *,
    batch_size: int | None = None,
    same_first: bool = False,
) -> Iterator[list[T]]:
    """Items of similar length together, longest first, within both limits, padding included.

    With `same_first`, only items of equal first length share a batch, as prompts must.
    """
    batch: list[T] = []
    width = 0
    for item in sorted(items, key=lengths, reverse=True):
        wider = max(width, *lengths(item))
        full = len(batch) == batch_size or wider * (len(batch) + 1) > max_tokens
        if batch and (full or (same_first and lengths(item)[0] != lengths(batch[0])[0])):
            yield batch
            batch, wider = [], max(lengths(item))
        batch.append(item)
        width = wider
    if batch:
        yield batch


def answer_lines(
    lines: Iterable[bytes],
    output: type[L],
    answer: Callable[[Sequence[str]], Iterable[Mapping[str, Any]]],
    count_tokens: Callable[[str], int],
    *,
    buffer_size: int,
    max_tokens: int,
) -> Iterator[L]:
    """One output per line, in order; `buffer_size` lines at a time are sorted by length.

    `answer` returns fields of the output of each sentence. A line with nothing to predict (empty,
    no mask, too long, not UTF-8) gets a note; `count_tokens` raises a ToolkitError that says why.
    """
    numbered = enumerate(lines, 1)
    while buffer := list(islice(numbered, buffer_size)):
        outputs: dict[int, L] = {}
        sized: list[tuple[int, L]] = []
        for number, line in buffer:
            text, note = decode_line(number, line)
            length = 0
            try:
                length = 0 if note else count_tokens(text)
            except ToolkitError as error:
                note = str(error)
            if length > max_tokens:
                note = f"{length} tokens, more than --max-tokens {max_tokens}"
            outputs[number] = output(number, text, note=note)
            sized += [] if note else [(length, outputs[number])]
        for batch in batch_by_length(sized, lambda it: it[:1], max_tokens):
            for (_, it), fields in zip(batch, answer([it.text for _, it in batch]), strict=True):
                outputs[it.number] = it._replace(**fields)
        yield from outputs.values()
