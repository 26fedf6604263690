"""Text generation with one or several learners, from text to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
import torch

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TextGenerationConfig, TranslateConfig
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.generation.generate import EncodedLine, GenerationRequest, fit_length, generate
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.generation.step_scorer import compute_alignments, score_references
from toolkit.models.encoder_decoder import EncoderDecoder, GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import to_device
from toolkit.tasks.learner import Learner
from toolkit.tasks.translation import to_source_inputs

Alignment = list[list[int]] | list[list[float]]
"""Pairs (source token, target token), or one row of attention weights per target token."""


class TextGenerator:
    """Generates text with learners of one task and tokenizer."""

    def __init__(self, learners: Sequence[Learner], c: TextGenerationConfig) -> None:
        encoders = [learner.encoder for learner in learners]
        self.models = [model for model in encoders if isinstance(model, GenerativeModel)]
        assert len(self.models) == len(learners), "their task is generative"
        self.c, self.tokenizer = c, learners[0].tokenizer
        self.print_alignment = c.print_alignment if isinstance(c, TranslateConfig) else "none"
        self.decoder_only = self.models[0].decoder_only
        """Whether they continue a prompt instead of reading a source."""
        self.target = self.tokenizer if self.decoder_only else self.tokenizer.target
        self.special_tokens = SpecialTokens.from_vocabulary(self.target.vocabulary)
        self.max_positions = min(
            (m.max_positions for m in self.models if m.max_positions), default=None
        )
        self.check_models(learners)

    def check_models(self, learners: Sequence[Learner]) -> None:
        """Raise a ToolkitError if these models cannot be combined or do not support the options."""
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
        if self.c.beam > symbols:
            raise ToolkitError(
                f"beam must be at most the number of symbols that can be generated, {symbols}, "
                f"but is {self.c.beam}. Lower --beam."
            )

    def encode_line(self, line: str) -> EncodedLine:
        """Encode a line; raises a ToolkitError if it cannot be processed."""
        text, tab, target_text = line.partition("\t")
        paired = self.c.prefixes or (self.c.score_reference and not self.decoder_only)
        if paired and not tab:
            raise ToolkitError("no tab followed by text")
        if not paired:
            text = line
        source = self.tokenizer.encode(text) if text.strip() else []
        if not source and not (self.decoder_only and paired):
            raise ToolkitError("empty")
        target = self.target.encode(target_text) if paired else []
        if self.decoder_only and self.c.score_reference:
            source, target = [], source
        self.check_lengths(source, target)
        reference = target_text if paired and self.c.score_reference else None
        return EncodedLine(source, target, text, reference)

    def check_lengths(self, source: list[int], target: list[int]) -> None:
        """Raise a ToolkitError if they are too long for the models."""
        tokens, limit = len(source) + 1, self.max_positions
        read = max(tokens, len(target) + 1) if self.c.score_reference else tokens
        if read > self.c.max_tokens:
            raise ToolkitError(f"{read} tokens, more than --max-tokens {self.c.max_tokens}")
        if limit and tokens > limit:
            raise ToolkitError(f"{tokens} tokens, more than the model's {limit} positions")
        if self.c.score_reference:
            if limit and len(source) * self.decoder_only + len(target) >= limit:
                raise ToolkitError(
                    f"{len(target) + 1} tokens to score, more than the model's {limit} positions"
                )
        elif len(target) > (most := self.max_new_tokens(len(source))):
            raise ToolkitError(f"a prefix of {len(target)} tokens, more than the maximum of {most}")

    def max_new_tokens(self, source_length: int) -> int:
        """Maximum number of tokens to generate."""
        prompt_length = source_length if self.decoder_only else 0
        return fit_length(self.max_positions, self.c.max_length(source_length), prompt_length)

    def to_prompt(self, request: GenerationRequest) -> DecodingPrompt:
        """The prompt of a request: forced tokens and length limits."""
        most = self.max_new_tokens(len(request.source))
        prompt, min_length = request.source if self.decoder_only else (), min(self.c.min_len, most)
        return DecodingPrompt(most, request.target, prompt, min_length, request.number)

    def to_inputs(self, requests: Sequence[GenerationRequest]) -> Inputs | None:
        """One batch of sources."""
        if self.decoder_only:
            return None
        vocabulary, device = self.tokenizer.vocabulary, self.models[0].token_embedding.weight.device
        ids = np.concatenate([np.array(request.source, np.int64) for request in requests])
        lengths = np.array([len(request.source) for request in requests])
        texts = TokenTexts(ids, lengths)
        return to_device(to_source_inputs(texts, vocabulary.sep, vocabulary.pad), device)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[GenerationOutput]:
        """Hypotheses for a batch, or the scores of its references."""
        inputs, c = self.to_inputs(requests), self.c
        if c.score_reference:
            references, eos = [request.target for request in requests], self.special_tokens.eos
            scored = score_references(self.models, inputs, references, eos, c.lenpen)
            hypotheses = [[reference] for reference in scored]
        else:
            prompts = [self.to_prompt(request) for request in requests]
            best_first = generate(self.models, inputs, prompts, self.special_tokens, c)
            hypotheses = [each[: c.nbest] for each in best_first]
        return [
            GenerationOutput(request.number, request.text, texts, request.reference)
            for request, texts in zip(
                requests, self.to_texts(requests, inputs, hypotheses), strict=True
            )
        ]

    def to_texts(
        self,
        requests: Sequence[GenerationRequest],
        inputs: Inputs | None,
        hypotheses: list[list[Hypothesis]],
    ) -> list[list[GeneratedText]]:
        """The hypotheses of each request as text."""
        alignments = self.align(inputs, hypotheses)

        def to_text(request: GenerationRequest, h: Hypothesis) -> GeneratedText:
            text = self.decode(request, h)
            return GeneratedText(text, h.score, h.log_probabilities, next(alignments))

        pairs = zip(requests, hypotheses, strict=True)
        return [[to_text(request, h) for h in each] for request, each in pairs]

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
        models = [model for model in self.models if isinstance(model, EncoderDecoder)]
        assert len(models) == len(self.models), "a model with sources is an encoder-decoder"
        weights = compute_alignments(models, sources, targets, self.special_tokens.eos)
        hard = self.print_alignment == "hard"
        return (format_alignment(row, hard=hard) for row in weights)


def format_alignment(weights: torch.Tensor, *, hard: bool) -> Alignment:
    """The alignment of one hypothesis from its attention weights."""
    if not hard:
        return [list(row) for row in weights.tolist()]
    return [[int(i), j] for j, i in enumerate(weights.argmax(1).tolist())]
