"""Fill [MASK] tokens with a masked language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import MASK, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.output import MaskPrediction
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.tasks.batch import MaskedBatch, to_device


@torch.no_grad()
def fill_mask(
    head: nn.Module,
    encoder: EncoderModel,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    top: int,
) -> list[list[MaskPrediction]]:
    """The `top` tokens of softmax(head) for each [MASK] of each sentence, in one batch."""
    if top < 1:
        raise ToolkitError(f"top must be at least 1, but is {top}.")
    table, vocabulary = encoder.token_embedding.weight, tokenizer.vocabulary
    encoded = [encode_masked(tokenizer, sentence, encoder.max_positions) for sentence in sentences]
    batch = collate_masked(encoded, vocabulary, table.device)
    logits = head(encoder.select_states(batch.inputs, batch.selected), table)
    predictions = top_predictions(logits.float().softmax(-1), vocabulary, top)
    return [[next(predictions) for _ in range(ids.count(vocabulary.mask))] for ids in encoded]


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


def collate_masked(
    encoded: Sequence[Sequence[int]], vocabulary: Vocabulary, device: torch.device
) -> MaskedBatch:
    """One batch, padded to the longest sentence; the selected positions are the masks."""
    tokens = torch.full((len(encoded), max(map(len, encoded))), vocabulary.pad)
    padding = torch.ones_like(tokens, dtype=torch.bool)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids)], padding[row, : len(ids)] = torch.tensor(ids), False
    selected = ((tokens == vocabulary.mask) & ~padding).flatten().nonzero().flatten()
    batch = MaskedBatch(
        inputs=Inputs(tokens=tokens, padding=padding),
        selected=selected,
        targets=tokens.flatten()[selected],
        weights={"mlm": float(len(selected))},
        sentences=len(encoded),
        tokens=int((~padding).sum()),
    )
    return to_device(batch, device)


def top_predictions(
    probabilities: Float[Tensor, "N V"], vocabulary: Vocabulary, top: int
) -> Iterator[MaskPrediction]:
    """The most probable tokens of each row."""
    best = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    for values, ids in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        yield [(vocabulary.symbols[i], value) for i, value in zip(ids, values, strict=True)]
