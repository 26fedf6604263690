"""Words whose positions are hidden, put where a masked position model would have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.positions import HIDDEN_POSITION
from toolkit.generation.fill_mask import Filling
from toolkit.generation.order import assignment
from toolkit.models.inputs import Inputs

HIDDEN_WORD = re.compile(r"\{(\S+?)\}")


def coded(codec: Any, sentence: str, limit: int) -> tuple[list[int], list[bool]]:
    """[CLS] words [SEP], and which tokens' positions are hidden.

    These are the tokens of the words in braces, or of all words where none is.
    """
    vocabulary, words = codec.vocabulary, sentence.split()
    marked = any(HIDDEN_WORD.search(word) for word in words)
    ids, hidden = [vocabulary.cls], [False]
    for word in words:
        tokens = codec.encode(HIDDEN_WORD.sub(r"\1", word))
        ids += tokens
        hidden += [not marked or bool(HIDDEN_WORD.search(word))] * len(tokens)
    ids, hidden = [*ids, vocabulary.sep], [*hidden, False]
    if sum(hidden) < 2:
        raise ToolkitError("fewer than two tokens to order")
    if len(ids) > limit:
        raise ToolkitError(f"{len(ids)} tokens, more than the {limit} of this model")
    return ids, hidden


def fill_order(
    scores: Callable[[Inputs, Int[Tensor, " N"]], Float[Tensor, "N P"]],
    encoder: Any,
    codec: Any,
    sentence: str,
    top: int,
) -> tuple[str, list[Filling]]:
    """The sentence in its most probable order, and for each hidden token its likeliest positions.

    A hidden token may only go where one of them is missing; positions count from 1, without [CLS].
    """
    ids, hidden = coded(codec, sentence, encoder.max_positions)
    free = [place for place, is_hidden in enumerate(hidden) if is_hidden]
    device = encoder.words.weight.device
    positions = torch.arange(len(ids))
    positions[free] = HIDDEN_POSITION
    inputs = Inputs(torch.tensor([ids], device=device), positions=positions[None].to(device))
    logits = scores(inputs, torch.tensor(free, device=device)).float()[:, free]
    log_p = logits.log_softmax(-1).cpu()
    where = assignment(log_p.tolist())
    ordered = list(ids)
    for token, slot in zip(free, where, strict=True):
        ordered[free[slot]] = ids[token]
    symbols = codec.vocabulary.symbols
    return codec.decode(ordered[1:-1]), [
        likeliest(symbols[ids[token]], row, free, top)
        for token, row in zip(free, log_p.exp(), strict=True)
    ]


def likeliest(token: str, shares: Float[Tensor, " P"], free: Sequence[int], top: int) -> Filling:
    best = shares.topk(min(top, len(free)))
    return [
        (f"{token} {free[i]}", share)
        for share, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
