"""Log-probabilities and alignments of given sentences, all tokens at once.

B rows   T positions   N scored positions   V target vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.generation.hypothesis import Hypothesis, make_hypothesis
from toolkit.generation.step_scorer import to_log_probabilities

POSITIONS_PER_CHUNK = 1024
"""Positions whose scores over the vocabulary are held at once."""


@torch.no_grad()
def score_references(
    models: Sequence[Any], inputs: Any, targets: Sequence[Sequence[int]], end: int, lenpen: float
) -> list[Hypothesis]:
    """log p of each target, token by token, end symbol included; several models form an
    ensemble. `inputs` are the sources, None for language models.
    """
    device = models[0].token_embedding.weight.device
    width = max(map(len, targets)) + 1
    rows = np.full((len(targets), width + 1), end)
    for row, tokens in zip(rows, targets, strict=True):
        row[1 : len(tokens) + 1] = tokens
    lengths = np.array([len(tokens) + 1 for tokens in targets])
    places = np.flatnonzero(np.arange(width) < lengths[:, None])
    previous = torch.from_numpy(rows[:, :-1].copy()).to(device)
    chosen = torch.from_numpy(places).to(device)
    wanted = torch.from_numpy(rows[:, 1:].reshape(-1)[places]).to(device)
    told = [target_log_probabilities(model, inputs, previous, chosen, wanted) for model in models]
    mean = torch.stack(told).logsumexp(0) - math.log(len(models))
    each = np.split(mean.double().cpu().numpy(), np.cumsum(lengths)[:-1])
    return [
        make_hypothesis(tokens, np.cumsum(row).tolist(), lenpen)
        for tokens, row in zip(targets, each, strict=True)
    ]


def target_log_probabilities(
    model: Any,
    inputs: Any,
    previous: Int[Tensor, "B T"],
    chosen: Int[Tensor, " N"],
    wanted: Int[Tensor, " N"],
) -> Float[Tensor, " N"]:
    """log p of the target tokens."""
    encoded = None if inputs is None else model(inputs)
    padding = None if inputs is None else inputs.padding
    states = model.decode(previous, encoded, padding, None, chosen)[0]  # (N, D)
    parts = zip(states.split(POSITIONS_PER_CHUNK), wanted.split(POSITIONS_PER_CHUNK), strict=True)
    found = [to_log_probabilities(model.scores(s)).gather(1, w[:, None])[:, 0] for s, w in parts]
    return torch.cat(found)


@torch.no_grad()
def compute_alignments(
    models: Sequence[Any], inputs: Any, written: Sequence[Sequence[int]], end: int
) -> list[Float[Tensor, "T S"]]:
    """Attention of each target token to each source token, end symbols excluded."""
    device = models[0].token_embedding.weight.device
    rows = torch.full((len(written), max(map(len, written)) + 1), end)
    for row, tokens in zip(rows, written, strict=True):
        row[1 : len(tokens) + 1] = torch.tensor(tokens, dtype=rows.dtype)
    maps = [
        model.alignment(rows.to(device), model(inputs), inputs.padding).float() for model in models
    ]
    mean = torch.stack(maps).mean(0).cpu()
    hidden = inputs.padding
    lengths = [inputs.tokens.shape[1]] * len(rows) if hidden is None else (~hidden).sum(1).tolist()
    return [mean[n, : len(tokens), : lengths[n] - 1] for n, tokens in enumerate(written)]
