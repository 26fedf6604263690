"""Text in, text out: models that write, with the vocabulary that they write in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import GenerateConfig
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.samples.sequence_pairs import Texts
from toolkit.generation.forced_scoring import alignments, references
from toolkit.generation.generate import room, written
from toolkit.generation.hypothesis import Hypothesis, Start, Symbols
from toolkit.generation.output import Reply, Text
from toolkit.generation.requests import Coded, Item
from toolkit.models.interface import Inputs
from toolkit.tasks.language_modeling.task import LanguageModeling
from toolkit.tasks.task import Learner
from toolkit.tasks.translation.examples import inputs_of
from toolkit.tasks.translation.task import Translation

Shown = list[list[int]] | list[list[float]]
"""Pairs (source token, symbol), or a row of shares for each symbol."""


def writes(learner: Learner) -> bool:
    """Whether its task is one that writes sentences."""
    return isinstance(learner.task, Translation | LanguageModeling)


class Sentences:
    """Learners of one task and vocabulary, as one."""

    def __init__(self, learners: Sequence[Learner], c: GenerateConfig) -> None:
        self.models: list[Any] = [learner.encoder for learner in learners]
        self.c, self.codec = c, learners[0].codec
        self.alone: bool = self.models[0].decoder_only
        """Whether they write on, instead of writing for a source."""
        self.target = self.codec if self.alone else self.codec.target
        self.symbols = Symbols.of(self.target.vocabulary)
        self.longest = min((m.max_positions for m in self.models if m.max_positions), default=None)
        self.refuse(learners)

    def refuse(self, learners: Sequence[Learner]) -> None:
        """What these models, or these together, cannot do."""
        for learner in learners[1:]:
            if type(learner.task) is not type(learners[0].task) or (
                learner.codec.fingerprint != self.codec.fingerprint
            ):
                raise ToolkitError(
                    "checkpoints that write together must have one task and one vocabulary, but "
                    "these differ. Leave one of them out of --path."
                )
            if isinstance(self.codec, ParallelCodec) and self.codec.reverses(learner.codec):
                raise ToolkitError(
                    f"checkpoints that write together must be of one direction, but these are of "
                    f"{self.codec.languages} and {self.codec.reverse}. Leave one of them out of "
                    f"--path."
                )
        words = len(self.target.vocabulary) - len(self.symbols.never)
        if self.c.beam > words:
            raise ToolkitError(
                f"beam must be at most the symbols that can be written, {words}, but is "
                f"{self.c.beam}. Lower --beam."
            )
        if not self.alone and not self.c.max_len_a and self.c.prefix_size > self.c.max_len_b:
            raise ToolkitError(
                f"prefix_size must be at most max_len_b, but is {self.c.prefix_size}, and "
                f"max_len_b {self.c.max_len_b}. Raise --max-len-b."
            )
        if self.alone and self.c.print_alignment != "none":
            raise ToolkitError(
                "--print-alignment must be with a model that reads a source, but this is a "
                "language model. Leave it out."
            )

    def code(self, line: str) -> Coded:
        """What a line asks for; a ToolkitError says why it has no answer."""
        text, tab, more = line.partition("\t")
        paired = self.c.prefixes or (self.c.score_reference and not self.alone)
        if paired and not tab:
            raise ToolkitError("no tab, with a text behind it")
        if not paired:
            text = line
        read = self.codec.encode(text) if text.strip() else []
        if not read and not (self.alone and paired):
            raise ToolkitError("empty")
        target = self.target.encode(more) if paired else []
        if self.alone and self.c.score_reference:
            read, target = [], read
        self.check(read, target)
        return Coded(read, target, text, more if paired and self.c.score_reference else None)

    def check(self, source: list[int], target: list[int]) -> None:
        """Raise a ToolkitError where the models have no places for them."""
        tokens, most = len(source) + 1, self.most(len(source))
        read = max(tokens, len(target) + 1) if self.c.score_reference else tokens
        if read > self.c.max_tokens:
            raise ToolkitError(f"{read} tokens, more than --max-tokens {self.c.max_tokens}")
        if self.longest and tokens > self.longest:
            raise ToolkitError(f"{tokens} tokens, more than the model's {self.longest} places")
        if self.c.score_reference:
            if self.longest and len(source) * self.alone + len(target) >= self.longest:
                raise ToolkitError(
                    f"{len(target) + 1} tokens to tell, more than the model's {self.longest} places"
                )
        elif len(target) > most:
            raise ToolkitError(f"a prefix of {len(target)} tokens, more than the maximum of {most}")

    def most(self, source: int) -> int:
        """Symbols that may be written."""
        return room(self.longest, self.c.most(source), source if self.alone else 0)

    def start(self, item: Item) -> Start:
        most = self.most(len(item.source))
        prompt = item.source if self.alone else ()
        return Start(most, item.target, prompt, min(self.c.min_len, most), item.number)

    def inputs(self, items: Sequence[Item]) -> Inputs | None:
        """The sources side by side."""
        if self.alone:
            return None
        words, device = self.codec.vocabulary, self.models[0].words.weight.device
        ids = np.concatenate([np.array(item.source, np.int64) for item in items])
        lengths = np.array([len(item.source) for item in items])
        found = inputs_of(Texts(ids, lengths), words.sep, words.pad)
        hidden = None if found.padding is None else found.padding.to(device)
        return Inputs(found.tokens.to(device), padding=hidden)

    def replies(self, items: Sequence[Item]) -> list[Reply]:
        """What is written for a batch, or how probable its references are."""
        inputs, c = self.inputs(items), self.c
        if c.score_reference:
            given = [item.target for item in items]
            found = [
                [one] for one in references(self.models, inputs, given, self.symbols.end, c.lenpen)
            ]
        else:
            starts = [self.start(item) for item in items]
            found = [h[: c.nbest] for h in written(self.models, inputs, starts, self.symbols, c)]
        return [
            Reply(item.number, item.text, texts, item.reference)
            for item, texts in zip(items, self.texts(items, inputs, found), strict=True)
        ]

    def texts(
        self, items: Sequence[Item], inputs: Inputs | None, found: list[list[Hypothesis]]
    ) -> list[list[Text]]:
        looked = self.looked(inputs, found)
        return [
            [
                Text(self.said(items[n], h), h.score, h.log_probabilities, looked[n][k])
                for k, h in enumerate(hypotheses)
            ]
            for n, hypotheses in enumerate(found)
        ]

    def said(self, item: Item, hypothesis: Hypothesis) -> str:
        """As text; behind a prompt, with a space before it unless it goes on with a word there."""
        decode, tokens = self.target.decode, hypothesis.tokens
        prompt = item.source if self.alone else []
        before, whole = decode(prompt), decode([*prompt, *tokens])
        return str(whole[len(before) :] if whole.startswith(before) else decode(tokens))

    def looked(self, inputs: Inputs | None, found: list[list[Hypothesis]]) -> list[list[Shown]]:
        """Alignments of all hypotheses; empty where none are wanted."""
        if inputs is None or self.c.print_alignment == "none":
            return [[[] for _ in hypotheses] for hypotheses in found]
        rows = torch.tensor([n for n, some in enumerate(found) for _ in some])
        rows = rows.to(inputs.tokens.device)
        padding = None if inputs.padding is None else inputs.padding[rows]
        each = Inputs(inputs.tokens[rows], padding=padding)
        tokens = [h.tokens for hypotheses in found for h in hypotheses]
        maps = iter(alignments(self.models, each, tokens, self.symbols.end))
        hard = self.c.print_alignment == "hard"
        return [[shown(next(maps), hard=hard) for _ in some] for some in found]


def shown(shares: torch.Tensor, *, hard: bool) -> Shown:
    if not hard:
        return [list(row) for row in shares.tolist()]
    return [[int(i), j] for j, i in enumerate(shares.argmax(1).tolist())]
