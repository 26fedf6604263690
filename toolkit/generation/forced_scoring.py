"""Log-probabilities and alignments of given sentences, all tokens at once.

B rows   T positions   N scored positions   V target vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.data.ragged import split_rows
from toolkit.generation.hypothesis import Hypothesis, make_hypothesis
from toolkit.generation.step_scorer import to_log_probabilities
from toolkit.models.encoder_decoder import EncoderDecoder, GenerativeModel
from toolkit.models.interface import Inputs

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
    each_model = torch.stack(
        [target_log_probabilities(model, inputs, previous, selected, targets) for model in models]
    )
    mean = each_model.logsumexp(0) - math.log(len(models))
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


def target_log_probabilities(
    model: GenerativeModel,
    inputs: Inputs | None,
    previous: Int[Tensor, "B T"],
    selected: Int[Tensor, " N"],
    targets: Int[Tensor, " N"],
) -> Float[Tensor, " N"]:
    """log p of the target tokens."""
    encoded = None if inputs is None else model(inputs)
    padding = None if inputs is None else inputs.padding
    states = model.decode(previous, encoded, padding, None, selected)[0]  # (N, D)
    chunks = zip(states.split(POSITIONS_PER_CHUNK), targets.split(POSITIONS_PER_CHUNK), strict=True)
    return torch.cat(
        [to_log_probabilities(model.scores(s)).gather(1, t[:, None])[:, 0] for s, t in chunks]
    )


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
