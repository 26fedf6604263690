"""Order words with a masked position model."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.pretraining.fill_mask import check_length

HIDDEN_WORD = re.compile(r"\{([^\s{}]+)\}")


def encode_hidden_words(tokenizer: Tokenizer, sentence: str) -> tuple[list[int], list[bool]]:
    """[CLS] words [SEP], and whether each token's position is hidden.

    These are the tokens of the words in braces, or of all words if there are no braces.
    """
    vocabulary, words = tokenizer.vocabulary, sentence.split()
    check_braces(words)
    marked = any(HIDDEN_WORD.search(word) for word in words)
    ids, hidden = [vocabulary.cls], [False]
    for index, word in enumerate(words):
        plain = HIDDEN_WORD.sub(r"\1", word)
        tokens = tokenizer.encode_words([plain])[0].tolist() if index else tokenizer.encode(plain)
        ids += tokens
        hidden += [not marked or bool(HIDDEN_WORD.search(word))] * len(tokens)
    return [*ids, vocabulary.sep], [*hidden, False]


def check_braces(words: Sequence[str]) -> None:
    """Raise a ToolkitError unless braces enclose single words."""
    for word in words:
        if re.search("[{}]", HIDDEN_WORD.sub("", word)):
            raise ToolkitError(
                f"Braces must enclose single words, but are {word[:60]!r}. Write {{a}} {{b}} "
                f"instead of {{a b}}."
            )


def check_orderable(sentence: str, hidden: Sequence[bool], limit: int | None) -> None:
    """Raise a ToolkitError if the sentence has too few tokens to order, or too many in all."""
    if sum(hidden) < 2:
        raise ToolkitError(
            f"The sentence must have at least two tokens to order, but has {sum(hidden)}: "
            f"{sentence[:60]!r}. Put braces around more words, or around none to order all."
        )
    check_length(sentence, len(hidden), limit)


@torch.no_grad()
def order_words(
    head: PositionHead, encoder: EncoderModel, tokenizer: Tokenizer, sentence: str, top: int
) -> tuple[str, list[MaskPrediction]]:
    """The most probable order of the hidden tokens, and the `top` positions of each.

    Hidden tokens exchange positions among themselves: the assignment with the largest sum of
    log-probabilities. Positions count from 1, without [CLS].
    """
    ids, hidden = encode_hidden_words(tokenizer, sentence)
    check_orderable(sentence, hidden, head.bias.numel())
    free = [position for position, is_hidden in enumerate(hidden) if is_hidden]
    device = encoder.token_embedding.weight.device
    positions = torch.arange(len(ids))
    positions[free] = HIDDEN_POSITION
    inputs = Inputs(
        torch.tensor([ids], device=device),
        positions=positions[None].to(device),
        max_position=len(ids) - 1,
    )
    states = encoder.select_states(inputs, torch.tensor(free, device=device))
    logits = head.scores(encoder, states)[:, free]
    log_p = logits.float().log_softmax(-1).cpu()
    from scipy.optimize import linear_sum_assignment  # slow to import

    _, slots = linear_sum_assignment(log_p.numpy(), maximize=True)
    ordered = list(ids)
    for token, slot in zip(free, slots, strict=True):
        ordered[free[slot]] = ids[token]
    symbols = tokenizer.vocabulary.symbols
    return tokenizer.decode(ordered[1:-1]), [
        top_positions(symbols[ids[token]], row, free, top)
        for token, row in zip(free, log_p.exp(), strict=True)
    ]


def top_positions(
    token: str, probabilities: Float[Tensor, " P"], free: Sequence[int], top: int
) -> MaskPrediction:
    """The most probable free positions of a token."""
    best = probabilities.topk(min(top, len(free)))
    return [
        (f"{token} {free[i]}", probability)
        for probability, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
