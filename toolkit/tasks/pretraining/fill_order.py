"""Words whose positions are hidden, put where a masked position model would have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.common.positions import HIDDEN_POSITION
from toolkit.generation.assignment import assign_positions
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.models.encoder import select_states
from toolkit.models.interface import Inputs

HIDDEN_WORD = re.compile(r"\{([^\s{}]+)\}")


def encode_hidden_words(tokenizer: Any, sentence: str) -> tuple[list[int], list[bool]]:
    """[CLS] words [SEP], and which tokens' positions are hidden.

    These are the tokens of the words in braces, or of all words where none is.
    """
    vocabulary, words = tokenizer.vocabulary, sentence.split()
    check_braces(words)
    marked = any(HIDDEN_WORD.search(word) for word in words)
    ids, hidden = [vocabulary.cls], [False]
    for place, word in enumerate(words):
        plain = HIDDEN_WORD.sub(r"\1", word)
        tokens = tokenizer.encode_words([plain])[0].tolist() if place else tokenizer.encode(plain)
        ids += tokens
        hidden += [not marked or bool(HIDDEN_WORD.search(word))] * len(tokens)
    return [*ids, vocabulary.sep], [*hidden, False]


def check_braces(words: Sequence[str]) -> None:
    for word in words:
        if re.search("[{}]", HIDDEN_WORD.sub("", word)):
            raise ToolkitError(
                f"braces must stand around single words, but one in {word[:60]!r} does not. Write "
                f"{{a}} {{b}} for {{a b}}."
            )


def check_orderable(sentence: str, ids: Sequence[int], hidden: Sequence[bool], limit: int) -> None:
    """There must be something to order, and the model must have positions for all of it."""
    if sum(hidden) < 2:
        raise ToolkitError(
            f"a sentence to order must have at least two tokens to order, but has {sum(hidden)}: "
            f"{sentence[:60]!r}. Put braces around further words, or around none for all of them."
        )
    if len(ids) > limit:
        raise ToolkitError(
            f"a sentence must have at most {limit} tokens for this model, but this has {len(ids)}: "
            f"{sentence[:60]!r}. Shorten it."
        )


@torch.no_grad()
def order_words(
    head: nn.Module,
    encoder: Any,
    tokenizer: Any,
    sentence: str,
    top: int,
) -> tuple[str, list[MaskPrediction]]:
    """The sentence in its most probable order, and for each hidden token its likeliest positions.

    A hidden token may only go where one of them is missing; positions count from 1, without [CLS].
    """
    ids, hidden = encode_hidden_words(tokenizer, sentence)
    check_orderable(sentence, ids, hidden, encoder.max_positions)
    free = [place for place, is_hidden in enumerate(hidden) if is_hidden]
    device = encoder.token_embedding.weight.device
    positions = torch.arange(len(ids))
    positions[free] = HIDDEN_POSITION
    inputs = Inputs(torch.tensor([ids], device=device), positions=positions[None].to(device))
    states = select_states(encoder, inputs, torch.tensor(free, device=device))
    logits = head(states, encoder.position_embedding.weight[:-1])[:, free]
    log_p = logits.float().log_softmax(-1).cpu()
    where = assign_positions(log_p.tolist())
    ordered = list(ids)
    for token, slot in zip(free, where, strict=True):
        ordered[free[slot]] = ids[token]
    symbols = tokenizer.vocabulary.symbols
    return tokenizer.decode(ordered[1:-1]), [
        top_positions(symbols[ids[token]], row, free, top)
        for token, row in zip(free, log_p.exp(), strict=True)
    ]


def top_positions(
    token: str, shares: Float[Tensor, " P"], free: Sequence[int], top: int
) -> MaskPrediction:
    best = shares.topk(min(top, len(free)))
    return [
        (f"{token} {free[i]}", share)
        for share, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
