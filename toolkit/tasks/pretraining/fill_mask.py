"""Words for the gaps: what a masked language model would put in place of each [MASK]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import MASK as MASK
from toolkit.generation.fill_mask import MaskPrediction
from toolkit.models.encoder import select_states
from toolkit.models.interface import Inputs
from toolkit.tasks.batch import MaskedBatch


@torch.no_grad()
def fill_mask(
    head: nn.Module,
    encoder: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    top: int,
) -> list[list[MaskPrediction]]:
    """Per sentence and per [MASK] in it, the `top` tokens of softmax(head) with their shares.

    All sentences go through the encoder together.
    """
    if top < 1:
        raise ToolkitError(f"top must be at least 1, but is {top}.")
    device = encoder.token_embedding.weight.device
    coded = [encode_masked(tokenizer, sentence, encoder.max_positions) for sentence in sentences]
    batch = collate_masked(coded, tokenizer.vocabulary, device)
    logits = head(
        select_states(encoder, batch.inputs, batch.selected), encoder.token_embedding.weight
    )
    rows = top_predictions(logits.float().softmax(-1), tokenizer.vocabulary, top)
    return [[next(rows) for _ in range(ids.count(tokenizer.vocabulary.mask))] for ids in coded]


def encode_masked(tokenizer: Any, sentence: str, limit: int | None) -> list[int]:
    """[CLS] words [SEP], every literal [MASK] as the mask, which the space before it belongs to."""
    *before, last = sentence.split(MASK)
    if not before:
        raise ToolkitError(
            f"a sentence to fill must contain {MASK}, but this has none: {sentence!r}."
        )
    v, pieces = tokenizer.vocabulary, [*(piece.rstrip(" ") for piece in before), last]
    ids = [v.cls, *tokenizer.encode(pieces[0])]
    for piece in pieces[1:]:
        apart = piece[:1].isspace()
        ids += [
            v.mask,
            *(tokenizer.encode(piece) if apart else tokenizer.encode_continuation(piece)),
        ]
    ids.append(v.sep)
    if limit is not None and len(ids) > limit:
        raise ToolkitError(
            f"a sentence must have at most {limit} tokens for this model, but this has {len(ids)}: "
            f"{sentence[:60]!r}... Shorten it."
        )
    return ids


def collate_masked(
    coded: Sequence[Sequence[int]], vocabulary: Any, device: torch.device
) -> MaskedBatch:
    """The sentences side by side, padded to the longest; places are those of the masks."""
    tokens = torch.full((len(coded), max(map(len, coded))), vocabulary.pad)
    padding = torch.ones_like(tokens, dtype=torch.bool)
    for row, ids in enumerate(coded):
        tokens[row, : len(ids)], padding[row, : len(ids)] = torch.tensor(ids), False
    places = ((tokens == vocabulary.mask) & ~padding).flatten().nonzero().flatten()
    return MaskedBatch(
        Inputs(tokens=tokens.to(device), padding=padding.to(device)),
        places.to(device),
        tokens.flatten()[places].to(device),
        {"mlm": float(len(places))},
        len(coded),
        int((~padding).sum()),
    )


def top_predictions(
    shares: Float[Tensor, "N V"], vocabulary: Any, top: int
) -> Iterator[MaskPrediction]:
    best = shares.topk(min(top, shares.shape[-1]), dim=-1)
    for values, ids in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        yield [(vocabulary.symbols[i], share) for i, share in zip(ids, values, strict=True)]
