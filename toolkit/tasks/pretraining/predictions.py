"""Fill [MASK] tokens with a masked language model, and order words with a masked position model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import MASK, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.output import MaskPrediction
from toolkit.models.heads import PositionHead
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.batch import to_device
from toolkit.tasks.embed import collate_texts


@torch.no_grad()
def fill_mask(
    encoder: EncoderModel,
    head: nn.Module,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    top: int,
) -> list[list[MaskPrediction]]:
    """The `top` tokens of softmax(head) for each [MASK] of each sentence, in one batch."""
    if top < 1:
        raise ToolkitError(f"top must be at least 1, but is {top}.")
    table, vocabulary = encoder.token_embedding.weight, tokenizer.vocabulary
    encoded = [encode_masked(tokenizer, sentence, encoder.max_positions) for sentence in sentences]
    inputs = to_device(collate_texts(encoded, vocabulary.pad), table.device)
    width, mask = inputs.tokens.shape[1], vocabulary.mask
    masks = [
        row * width + position
        for row, ids in enumerate(encoded)
        for position, token in enumerate(ids)
        if token == mask
    ]
    logits = head(encoder.select_states(inputs, torch.tensor(masks, device=table.device)), table)
    predictions = top_predictions(logits.float().softmax(-1), vocabulary, top)
    return [[next(predictions) for _ in range(ids.count(mask))] for ids in encoded]


def encode_masked(tokenizer: Tokenizer, sentence: str, limit: int | None) -> list[int]:
    """[CLS] words [SEP]; special tokens spelled out in the sentence become their ids."""
    vocabulary = tokenizer.vocabulary
    ids = [vocabulary.cls, *tokenizer.encode_parsing_special(sentence), vocabulary.sep]
    if vocabulary.mask not in ids:
        raise ToolkitError(f"The sentence must contain {MASK}, but is {sentence!r}.")
    check_length(sentence, len(ids), limit)
    return ids


def check_length(sentence: str, tokens: int, limit: int | None) -> None:
    """Raise a ToolkitError if a sentence is longer than the model reads."""
    if limit is not None and tokens > limit:
        raise ToolkitError(
            f"The sentence must have at most {limit} tokens for this model, but has {tokens}: "
            f"{sentence[:60]!r}... Shorten it."
        )


def top_predictions(
    probabilities: Float[Tensor, "N V"], vocabulary: Vocabulary, top: int
) -> Iterator[MaskPrediction]:
    """The most probable tokens of each row."""
    best = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    for values, ids in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        yield [(vocabulary.symbols[i], value) for i, value in zip(ids, values, strict=True)]


HIDDEN_WORD = re.compile(r"\{([^\s{}]+)\}")


def encode_hidden_words(tokenizer: Tokenizer, sentence: str) -> tuple[list[int], list[bool]]:
    """[CLS] words [SEP], and whether each token's position is hidden.

    These are the tokens of the words in braces, or of all words if there are no braces.
    """
    vocabulary, words = tokenizer.vocabulary, sentence.split()
    for word in words:
        if re.search("[{}]", HIDDEN_WORD.sub("", word)):
            raise ToolkitError(
                f"Braces must enclose single words, but are {word[:60]!r}. Write {{a}} {{b}} "
                f"instead of {{a b}}."
            )
    marked = any(HIDDEN_WORD.search(word) for word in words)
    ids, hidden = [vocabulary.cls], [False]
    for index, word in enumerate(words):
        plain = HIDDEN_WORD.sub(r"\1", word)
        tokens = tokenizer.encode_words([plain])[0].tolist() if index else tokenizer.encode(plain)
        ids += tokens
        hidden += [not marked or bool(HIDDEN_WORD.search(word))] * len(tokens)
    return [*ids, vocabulary.sep], [*hidden, False]


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
    predictions = []
    for token, row in zip(free, log_p.exp(), strict=True):
        symbol, best = tokenizer.vocabulary.symbols[ids[token]], row.topk(min(top, len(free)))
        pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        predictions.append([(f"{symbol} {free[i]}", probability) for probability, i in pairs])
    return tokenizer.decode(ordered[1:-1]), predictions
