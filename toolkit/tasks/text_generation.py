"""Text generation with one or several learners, from text to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import cast

import numpy as np
import torch

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TextGenerationConfig, TranslateConfig
from toolkit.data.records import decode_line
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.generation.generate import GenerationRequest, fit_length, generate
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.generation.step_scorer import CausalReader, compute_alignments, score_references
from toolkit.models.encoder_decoder import EncoderDecoder, GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import to_device
from toolkit.tasks.learner import Learner
from toolkit.tasks.pretraining.denoising import Denoising
from toolkit.tasks.pretraining.hybrid import Hybrid
from toolkit.tasks.translation import to_source_inputs

Alignment = list[list[int]] | list[list[float]]
"""Pairs (source token, target token), or one row of attention weights per target token."""


class TextGenerator:
    """Generates text with learners of one task and tokenizer."""

    def __init__(self, learners: Sequence[Learner], c: TextGenerationConfig) -> None:
        self.models = [
            CausalReader(it.encoder, it.task.head, it.tokenizer.vocabulary)
            if isinstance(it.task, Hybrid)
            else cast(GenerativeModel, it.encoder)
            for it in learners
        ]
        if c.score_reference and isinstance(self.models[0], CausalReader):
            raise ToolkitError(
                "--score-reference requires a model that predicts end symbols, which task hybrid "
                "does not. Use toolkit-generate surprisal."
            )
        self.c, self.tokenizer = c, learners[0].tokenizer
        self.print_alignment = c.print_alignment if isinstance(c, TranslateConfig) else "none"
        self.decoder_only = self.models[0].decoder_only
        """Whether they continue a prompt instead of reading a source."""
        fills, read = isinstance(learners[0].task, Denoising), self.tokenizer
        self.encode = read.encode_parsing_special if fills else read.encode
        self.target = self.tokenizer if self.decoder_only else self.tokenizer.target
        self.special_tokens = SpecialTokens.from_vocabulary(self.target.vocabulary)
        self.max_positions = min(
            (m.max_positions for m in self.models if m.max_positions), default=None
        )
        for learner in learners[1:]:
            difference = self.tokenizer.describe_difference(learner.tokenizer)
            if type(learner.task) is not type(learners[0].task):
                difference = "their tasks differ"
            if difference:
                raise ToolkitError(
                    f"checkpoints that generate together must have one task and one tokenizer, but "
                    f"{difference}. Leave one of them out of --path."
                )
        symbols = len(self.target.vocabulary) - len(self.special_tokens.forbidden)
        if c.beam > symbols:
            raise ToolkitError(
                f"beam must be at most the number of symbols that can be generated, {symbols}, "
                f"but is {c.beam}. Lower --beam."
            )

    def read_line(self, number: int, line: bytes) -> GenerationRequest:
        """A line as a request, with a note if it cannot be processed."""
        text, note = decode_line(number, line)
        try:
            if not note:
                return self.encode_line(text)._replace(number=number)
        except ToolkitError as error:
            note = str(error)
        return GenerationRequest(number, text, note=note)

    def encode_line(self, line: str) -> GenerationRequest:
        """A line as a request; raises a ToolkitError if it cannot be processed."""
        paired = self.c.prefixes or (self.c.score_reference and not self.decoder_only)
        text, tab, target_text = line.partition("\t") if paired else (line, "", "")
        if paired and not tab:
            raise ToolkitError("no tab followed by text")
        source = self.encode(text) if text.strip() else []
        if not source and not (self.decoder_only and paired):
            raise ToolkitError("empty")
        target = self.target.encode(target_text) if paired else []
        if self.decoder_only and self.c.score_reference:
            source, target = [], source
        self.check_lengths(source, target)
        reference = target_text if paired and self.c.score_reference else None
        return GenerationRequest(0, text, source, target, reference)

    def check_lengths(self, source: list[int], target: list[int]) -> None:
        """Raise a ToolkitError if they are too long for the models."""
        scores, limit = self.c.score_reference, self.max_positions
        tokens = 1 + max(len(source), len(target) if scores else 0)
        if tokens > self.c.max_tokens:
            raise ToolkitError(f"{tokens} tokens, more than --max-tokens {self.c.max_tokens}")
        if limit and tokens > limit:
            raise ToolkitError(f"{tokens} tokens, more than the model's {limit} positions")
        if not scores and len(target) > (most := self.max_new_tokens(len(source))):
            raise ToolkitError(f"a prefix of {len(target)} tokens, more than the maximum of {most}")

    def max_new_tokens(self, source_length: int) -> int:
        """Maximum number of tokens to generate."""
        prompt_length = source_length if self.decoder_only else 0
        return fit_length(self.max_positions, self.c.max_length(source_length), prompt_length)

    def to_inputs(self, requests: Sequence[GenerationRequest]) -> Inputs | None:
        """One batch of sources."""
        if self.decoder_only:
            return None
        vocabulary, device = self.tokenizer.vocabulary, self.models[0].token_embedding.weight.device
        ids = np.concatenate([np.array(request.source, np.int64) for request in requests])
        texts = TokenTexts(ids, np.array([len(request.source) for request in requests]))
        return to_device(to_source_inputs(texts, vocabulary.sep, vocabulary.pad), device)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[GenerationOutput]:
        """Hypotheses for a batch, or the scores of its references."""
        inputs, c = self.to_inputs(requests), self.c
        if c.score_reference:
            references, eos = [request.target for request in requests], self.special_tokens.eos
            scored = score_references(self.models, inputs, references, eos, c.lenpen)
            hypotheses = [[reference] for reference in scored]
        else:
            prompts = []
            for it in requests:
                most = self.max_new_tokens(len(it.source))
                prompt, shortest = it.source if self.decoder_only else (), min(c.min_len, most)
                prompts.append(DecodingPrompt(most, it.target, prompt, shortest, it.number))
            best_first = generate(self.models, inputs, prompts, self.special_tokens, c)
            hypotheses = [each[: c.nbest] for each in best_first]
        alignments = self.align(inputs, hypotheses)
        outputs = []
        for it, each in zip(requests, hypotheses, strict=True):
            texts = [
                GeneratedText(self.decode(it, h), h.score, h.log_probabilities, next(alignments))
                for h in each
            ]
            outputs.append(GenerationOutput(it.number, it.text, texts, it.reference))
        return outputs

    def decode(self, request: GenerationRequest, hypothesis: Hypothesis) -> str:
        """The generated text; after a prompt it starts with a space unless it continues a word."""
        decode, tokens = self.target.decode, hypothesis.tokens
        prompt = request.source if self.decoder_only else []
        before, whole = decode(prompt), decode([*prompt, *tokens])
        return whole[len(before) :] if whole.startswith(before) else decode(tokens)

    def align(
        self, inputs: Inputs | None, hypotheses: list[list[Hypothesis]]
    ) -> Iterator[Alignment]:
        """The alignment of each hypothesis; empty if alignments are not requested."""
        if inputs is None or self.print_alignment == "none":
            return repeat([])
        rows = torch.tensor([n for n, each in enumerate(hypotheses) for _ in each])
        rows = rows.to(inputs.tokens.device)
        padding = None if inputs.padding is None else inputs.padding[rows]
        sources = Inputs(inputs.tokens[rows], padding=padding)
        targets = [h.tokens for each in hypotheses for h in each]
        models = cast(list[EncoderDecoder], self.models)  # those with sources
        weights = compute_alignments(models, sources, targets, self.special_tokens.eos)
        if self.print_alignment == "hard":
            best = (row.argmax(1).tolist() for row in weights)
            return ([[i, j] for j, i in enumerate(row)] for row in best)
        return (row.tolist() for row in weights)
