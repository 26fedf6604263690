"""Texts as inputs of an encoder, and as vectors: its states, pooled or token by token.

N texts   L layers   S tokens of a text   D width of the states
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.arrays import pack_rows, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.offsets import check_texts, to_line
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import EncoderModel, Inputs, LayeredEncoder
from toolkit.tasks.batch import to_device

Pooling = Literal["mean", "max", "first"]
REDUCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(0),
    "max": lambda states: states.amax(0),
    "first": lambda states: states[0],
}
"""Pooling -> one vector of the states of a row, (S, *L, D)."""

log = logging.getLogger(__name__)


def encode_texts(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    encoder: EncoderModel,
    special: tuple[Sequence[int], Sequence[int]],
) -> list[list[int]]:
    """The tokens of each text between the special ones, truncated to what the encoder reads."""
    if encoder.is_word_level:
        raise ToolkitError(
            "This encoder reads words with their characters, not text. Use learner.predict or "
            "learner.tag, which take sentences as lists of words."
        )
    lines = [to_line(text) for text in check_texts(texts)]
    before, after = special
    ids, lengths = tokenizer.encode_lines(lines)
    limit, room = encoder.max_positions, None
    if limit is not None:
        room = max(0, limit - len(before) - len(after))
        if cut := int(np.count_nonzero(lengths > room)):
            log.warning(f"{cut:,} of {len(texts):,} texts were truncated to {limit} tokens.")
    rows = split_rows(ids, lengths)
    return [[*before, *row[:room].tolist(), *after] for row in rows]


def collate_texts(rows: Sequence[Sequence[int]], pad: int) -> Inputs:
    """One batch, padded to the longest row; `padding` is None if all are equally long."""
    ids, lengths = pack_rows(rows)
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    tokens = np.full(inside.shape, pad, np.int64)
    tokens[inside] = ids
    padding = None if inside.all() else torch.from_numpy(~inside)
    return Inputs(torch.from_numpy(tokens), padding=padding)


@torch.no_grad()
def embed_rows(
    rows: Sequence[Sequence[int]],
    encoder: EncoderModel,
    pad: int,
    *,
    layers: int | Sequence[int],
    pooling: Pooling | None,
    batch_size: int,
) -> list[Float[Tensor, ...]]:
    """The pooled states of each row of tokens, or without pooling the states of its tokens.

    Rows of similar length share a batch; the results are on the CPU, in the order of the rows.
    """
    check_options(encoder, layers, pooling, batch_size)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    found: dict[int, Tensor] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        inputs = to_device(
            collate_texts([rows[row] for row in batch], pad),
            encoder.token_embedding.weight.device,
            packs=encoder.uses_packing,
        )
        states = read_layers(encoder, inputs, layers)
        vectors = pool(states, [len(rows[row]) for row in batch], pooling)
        found |= zip(batch, vectors, strict=True)
    return [found[row] for row in range(len(rows))]


def to_integers(layers: SupportsIndex | Sequence[SupportsIndex]) -> int | list[int]:
    """A layer, or several: integers of any kind, such as NumPy's."""
    several: Any = layers
    try:
        return operator.index(several)
    except TypeError:
        pass
    try:
        return [operator.index(layer) for layer in several]
    except TypeError:
        raise ToolkitError(
            f"layers must be an integer or a list of integers, but is {layers!r}."
        ) from None


def check_options(
    encoder: EncoderModel, layers: int | Sequence[int], pooling: str | None, batch_size: int
) -> None:
    """Raise a ToolkitError if these options of `embed` are invalid for the encoder."""
    if batch_size < 1:
        raise ToolkitError(f"batch_size must be at least 1, but is {batch_size}.")
    if pooling is not None and pooling not in REDUCTIONS:
        raise ToolkitError(
            f"pooling must be one of {', '.join(REDUCTIONS)} or None, but is {pooling!r}."
        )
    if layers == -1:
        return
    if not isinstance(encoder, LayeredEncoder):
        raise ToolkitError(
            f"layers must be -1, the last one, for {type(encoder).__name__}, which returns no "
            f"others, but is {layers}."
        )
    numbers, count = [layers] if isinstance(layers, int) else list(layers), len(encoder.layers)
    if not numbers or not all(-count - 1 <= number <= count for number in numbers):
        raise ToolkitError(
            f"layers must lie in 0 .. {count} for this model, 0 for the embeddings, or count from "
            f"the end, -1 for the last layer, but is {layers}."
        )


def read_layers(
    encoder: EncoderModel, inputs: Inputs, layers: int | Sequence[int]
) -> Float[Tensor, "B S *L D"]:
    """States of one layer, or of several side by side, in fp32 at least."""
    if layers == -1:
        states: Tensor = encoder(inputs).states
    else:
        assert isinstance(encoder, LayeredEncoder), "checked before"
        every = encoder.layer_states(inputs)
        if isinstance(layers, int):
            states = every[layers]
        else:
            states = torch.stack([every[layer] for layer in layers], 2)
    return states.to(torch.promote_types(states.dtype, torch.float32))


def pool(
    states: Float[Tensor, "B S *L D"], lengths: Sequence[int], pooling: Pooling | None
) -> list[Float[Tensor, ...]]:
    """The pooled states of each row, or all its states, on the CPU: a batch is moved as a whole."""
    if pooling is None:
        return [each[:length].clone() for each, length in zip(states.cpu(), lengths, strict=True)]
    reduce = REDUCTIONS[pooling]
    vectors = [reduce(each[:length]) for each, length in zip(states, lengths, strict=True)]
    return list(torch.stack(vectors).cpu())
