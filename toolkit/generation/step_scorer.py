"""Scores of the next token: a model with a cache, or a function of prefixes.

Sentences that are given are scored and aligned with all their tokens at once.

B rows   S new positions   V target vocabulary   M rows that continue   T positions
N scored positions
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import split_rows
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.hypothesis import Hypothesis, make_hypothesis
from toolkit.models.encoder_decoder import EncoderDecoder, GenerativeModel
from toolkit.models.heads import TiedHead
from toolkit.models.interface import Encoded, EncoderModel, Inputs


class CachedScorer:
    """A model that reads only new tokens, and `inputs`, the sources, once; None without sources."""

    def __init__(self, model: GenerativeModel, inputs: Inputs | None, sentences: int) -> None:
        self.model = model
        self.encoded = None if inputs is None else model(inputs)
        self.padding = None if inputs is None else inputs.padding
        self.cache = model.cache(sentences)

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        count, width = tokens.shape
        last = None if width == 1 else torch.arange(1, count + 1, device=tokens.device) * width - 1
        states = self.model.decode(tokens, self.encoded, self.padding, self.cache, last)
        self.encoded = self.padding = None
        return self.model.scores(states[:, 0] if last is None else states[0])

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        self.cache.reorder(rows, beam)


def to_log_probabilities(scores: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
    """Log-probabilities in fp32 or better."""
    return scores.log_softmax(-1, torch.promote_types(scores.dtype, torch.float32))


class PrefixScorer:
    """A function of whole prefixes, which start with the end symbol, without a cache."""

    def __init__(
        self, step: Callable[[Int[Tensor, "B T"], Int[Tensor, " B"]], Float[Tensor, "B V"]]
    ) -> None:
        """`step` gets the prefixes and the sentence index of each."""
        self.step = step
        self.prefixes = self.sentences = torch.zeros(0)

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        if not len(self.prefixes):
            self.prefixes = tokens[:, :0]
            self.sentences = torch.arange(len(tokens), device=tokens.device)
        self.prefixes = torch.cat([self.prefixes, tokens], 1)
        return self.step(self.prefixes, self.sentences)

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        self.prefixes, self.sentences = self.prefixes[rows], self.sentences[rows]


StepScorer = CachedScorer | PrefixScorer
"""Scores of the token after new ones, log-probabilities up to a constant, by `next_scores`.

It keeps the prefix of every row, at first one per sentence. After `reorder` row m continues what
was row rows[m]; the `beam` rows of a sentence are adjacent.
"""


class CausalReader(GenerativeModel):
    """An encoder that reads from left to right, and a head that predicts the next token.

    A text starts with [CLS] in place of the end symbol, which was never a target and is impossible:
    texts end at their maximum length. Each step reads all tokens again.
    """

    decoder_only = True

    def __init__(self, encoder: EncoderModel, head: TiedHead, vocabulary: Vocabulary) -> None:
        nn.Module.__init__(self)
        self.encoder, self.head, self.vocabulary = encoder, head, vocabulary
        self.width, self.max_positions = encoder.width, encoder.max_positions

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.encoder.token_embedding

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        return self.encoder(inputs._replace(causal=True), selected)

    def next_scores(
        self, prefixes: Int[Tensor, "B T"], sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B V"]:
        """Scores of the token after each prefix."""
        rows, width = prefixes.shape
        begin = prefixes.new_full((rows, 1), self.vocabulary.cls)
        last = width * torch.arange(1, rows + 1, device=begin.device) - 1
        inputs = Inputs(torch.cat([begin, prefixes[:, 1:]], 1), causal=True)
        states = self.encoder.select_states(inputs, last)  # (B, D)
        scores: Any = self.head(states, self.token_embedding.weight)
        scores[:, self.vocabulary.sep] = -torch.inf
        return scores

    def pack(self) -> None:
        """Nothing is reordered."""


POSITIONS_PER_CHUNK = 1024
"""Positions whose scores over the vocabulary are held at once."""


@torch.no_grad()
def score_references(
    models: Sequence[GenerativeModel],
    inputs: Inputs | None,
    references: Sequence[Sequence[int]],
    eos: int,
    lenpen: float,
) -> list[Hypothesis]:
    """log p of each reference, token by token, end symbol included; several models form an
    ensemble. `inputs` are the sources, None for language models.
    """
    device = models[0].token_embedding.weight.device
    rows = pad_with_eos(references, eos, max(map(len, references)) + 2).to(device)
    lengths = np.array([len(tokens) + 1 for tokens in references])
    inside = np.arange(rows.shape[1] - 1) < lengths[:, None]
    selected = torch.from_numpy(np.flatnonzero(inside)).to(device)
    previous = rows[:, :-1].contiguous()
    targets = rows[:, 1:].flatten()[selected]
    padding, each_model = None if inputs is None else inputs.padding, []
    for model in models:
        encoded = None if inputs is None else model(inputs)
        states = model.decode(previous, encoded, padding, None, selected)[0]  # (N, D)
        parts = (it.split(POSITIONS_PER_CHUNK) for it in (states, targets))
        chunks = [
            to_log_probabilities(model.scores(state)).gather(1, target[:, None])[:, 0]
            for state, target in zip(*parts, strict=True)
        ]
        each_model.append(torch.cat(chunks))
    mean = torch.stack(each_model).logsumexp(0) - math.log(len(models))
    log_probabilities = split_rows(mean.double().cpu().numpy(), lengths)
    return [
        make_hypothesis(tokens, np.cumsum(row).tolist(), lenpen)
        for tokens, row in zip(references, log_probabilities, strict=True)
    ]


def pad_with_eos(texts: Sequence[Sequence[int]], eos: int, width: int) -> Int[Tensor, "B T"]:
    """The end symbol followed by each text and further end symbols."""
    rows = np.full((len(texts), width), eos)
    for row, tokens in zip(rows, texts, strict=True):
        row[1 : len(tokens) + 1] = tokens
    return torch.from_numpy(rows)


@torch.no_grad()
def compute_alignments(
    models: Sequence[EncoderDecoder], inputs: Inputs, targets: Sequence[Sequence[int]], eos: int
) -> list[Float[Tensor, "T S"]]:
    """Attention of each target token to each source token, end symbols excluded."""
    rows = pad_with_eos(targets, eos, max(map(len, targets)) + 1).to(inputs.tokens.device)
    maps = [model.alignment(rows, model(inputs), inputs.padding).float() for model in models]
    mean, padding = torch.stack(maps).mean(0).cpu(), inputs.padding
    width = inputs.tokens.shape[1]
    lengths = [width] * len(rows) if padding is None else (~padding).sum(1).tolist()
    return [mean[n, : len(tokens), : lengths[n] - 1] for n, tokens in enumerate(targets)]
