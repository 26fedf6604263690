"""Text generation with one or several learners, from text to text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TextGenerationConfig, TranslateConfig
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.generation.forced_scoring import compute_alignments, score_references
from toolkit.generation.generate import fit_length, generate
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.generation.requests import EncodedLine, GenerationRequest
from toolkit.models.interface import Inputs
from toolkit.tasks.task import Learner
from toolkit.tasks.translation.examples import to_source_inputs

Alignment = list[list[int]] | list[list[float]]
"""Pairs (source token, target token), or one row of attention weights per target token."""


class TextGenerator:
    """Generates text with learners of one task and tokenizer."""

    def __init__(self, learners: Sequence[Learner], c: TextGenerationConfig) -> None:
        self.models: list[Any] = [learner.encoder for learner in learners]
        self.c, self.tokenizer = c, learners[0].tokenizer
        self.print_alignment = c.print_alignment if isinstance(c, TranslateConfig) else "none"
        self.decoder_only: bool = self.models[0].decoder_only
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
        words = len(self.target.vocabulary) - len(self.special_tokens.forbidden)
        if self.c.beam > words:
            raise ToolkitError(
                f"beam must be at most the symbols that can be written, {words}, but is "
                f"{self.c.beam}. Lower --beam."
            )
        if not self.decoder_only and not self.c.max_len_a and self.c.prefix_size > self.c.max_len_b:
            raise ToolkitError(
                f"prefix_size must be at most max_len_b, but is {self.c.prefix_size}, and "
                f"max_len_b {self.c.max_len_b}. Raise --max-len-b."
            )

    def encode_line(self, line: str) -> EncodedLine:
        """Encode a line; raises a ToolkitError if it cannot be processed."""
        text, tab, more = line.partition("\t")
        paired = self.c.prefixes or (self.c.score_reference and not self.decoder_only)
        if paired and not tab:
            raise ToolkitError("no tab followed by text")
        if not paired:
            text = line
        read = self.tokenizer.encode(text) if text.strip() else []
        if not read and not (self.decoder_only and paired):
            raise ToolkitError("empty")
        target = self.target.encode(more) if paired else []
        if self.decoder_only and self.c.score_reference:
            read, target = [], read
        self.check_lengths(read, target)
        return EncodedLine(read, target, text, more if paired and self.c.score_reference else None)

    def check_lengths(self, source: list[int], target: list[int]) -> None:
        """Raise a ToolkitError if they are too long for the models."""
        tokens, most = len(source) + 1, self.max_new_tokens(len(source))
        read = max(tokens, len(target) + 1) if self.c.score_reference else tokens
        if read > self.c.max_tokens:
            raise ToolkitError(f"{read} tokens, more than --max-tokens {self.c.max_tokens}")
        if self.max_positions and tokens > self.max_positions:
            raise ToolkitError(
                f"{tokens} tokens, more than the model's {self.max_positions} places"
            )
        if self.c.score_reference:
            if (
                self.max_positions
                and len(source) * self.decoder_only + len(target) >= self.max_positions
            ):
                raise ToolkitError(
                    f"{len(target) + 1} tokens to tell, more than the model's {self.max_positions} "
                    "places"
                )
        elif len(target) > most:
            raise ToolkitError(f"a prefix of {len(target)} tokens, more than the maximum of {most}")

    def max_new_tokens(self, source: int) -> int:
        """Maximum number of tokens to generate."""
        return fit_length(
            self.max_positions, self.c.max_length(source), source if self.decoder_only else 0
        )

    def to_prompt(self, item: GenerationRequest) -> DecodingPrompt:
        most = self.max_new_tokens(len(item.source))
        prompt = item.source if self.decoder_only else ()
        return DecodingPrompt(most, item.target, prompt, min(self.c.min_len, most), item.number)

    def to_inputs(self, items: Sequence[GenerationRequest]) -> Inputs | None:
        """One batch of sources."""
        if self.decoder_only:
            return None
        words, device = self.tokenizer.vocabulary, self.models[0].token_embedding.weight.device
        ids = np.concatenate([np.array(item.source, np.int64) for item in items])
        lengths = np.array([len(item.source) for item in items])
        found = to_source_inputs(TokenTexts(ids, lengths), words.sep, words.pad)
        hidden = None if found.padding is None else found.padding.to(device)
        return Inputs(found.tokens.to(device), padding=hidden)

    def generate(self, items: Sequence[GenerationRequest]) -> list[GenerationOutput]:
        """Hypotheses for a batch, or the scores of its references."""
        inputs, c = self.to_inputs(items), self.c
        if c.score_reference:
            given = [item.target for item in items]
            found = [
                [one]
                for one in score_references(
                    self.models, inputs, given, self.special_tokens.eos, c.lenpen
                )
            ]
        else:
            starts = [self.to_prompt(item) for item in items]
            found = [
                h[: c.nbest] for h in generate(self.models, inputs, starts, self.special_tokens, c)
            ]
        return [
            GenerationOutput(item.number, item.text, texts, item.reference)
            for item, texts in zip(items, self.to_texts(items, inputs, found), strict=True)
        ]

    def to_texts(
        self,
        items: Sequence[GenerationRequest],
        inputs: Inputs | None,
        found: list[list[Hypothesis]],
    ) -> list[list[GeneratedText]]:
        looked = self.align(inputs, found)
        return [
            [
                GeneratedText(self.decode(items[n], h), h.score, h.log_probabilities, looked[n][k])
                for k, h in enumerate(hypotheses)
            ]
            for n, hypotheses in enumerate(found)
        ]

    def decode(self, item: GenerationRequest, hypothesis: Hypothesis) -> str:
        """As text; after a prompt it starts with a space unless it continues a word."""
        decode, tokens = self.target.decode, hypothesis.tokens
        prompt = item.source if self.decoder_only else []
        before, whole = decode(prompt), decode([*prompt, *tokens])
        return str(whole[len(before) :] if whole.startswith(before) else decode(tokens))

    def align(self, inputs: Inputs | None, found: list[list[Hypothesis]]) -> list[list[Alignment]]:
        """Alignments of all hypotheses; empty if they are not requested."""
        if inputs is None or self.print_alignment == "none":
            return [[[] for _ in hypotheses] for hypotheses in found]
        rows = torch.tensor([n for n, some in enumerate(found) for _ in some])
        rows = rows.to(inputs.tokens.device)
        padding = None if inputs.padding is None else inputs.padding[rows]
        each = Inputs(inputs.tokens[rows], padding=padding)
        tokens = [h.tokens for hypotheses in found for h in hypotheses]
        maps = iter(compute_alignments(self.models, each, tokens, self.special_tokens.eos))
        hard = self.print_alignment == "hard"
        return [[format_alignment(next(maps), hard=hard) for _ in some] for some in found]


def format_alignment(shares: torch.Tensor, *, hard: bool) -> Alignment:
    if not hard:
        return [list(row) for row in shares.tolist()]
    return [[int(i), j] for j, i in enumerate(shares.argmax(1).tolist())]
