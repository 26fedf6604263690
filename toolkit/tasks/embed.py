"""Texts as inputs of an encoder and as vectors, and the tasks that train nothing.

N texts   L layers   S tokens of a text   D width of the states
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.arrays import pack_rows, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.criteria import Prediction
from toolkit.data.tokenizers.offsets import check_texts, to_line
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import EncoderModel, Inputs, LayeredEncoder
from toolkit.tasks.examples import Batch, Examples, to_device
from toolkit.tasks.task import Task

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
            "This encoder reads words with their characters, not text. Use "
            "learner.predict, which takes sentences as lists of words."
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
    layers: SupportsIndex | Sequence[SupportsIndex],
    pooling: Pooling | None,
    batch_size: int,
) -> list[Float[Tensor, ...]]:
    """`Learner.embed` of rows of tokens, in fp32 at least; rows of similar length share a batch."""
    if batch_size < 1:
        raise ToolkitError(f"batch_size must be at least 1, but is {batch_size}.")
    if pooling is not None and pooling not in REDUCTIONS:
        raise ToolkitError(
            f"pooling must be one of {', '.join(REDUCTIONS)} or None, but is {pooling!r}."
        )
    wanted = check_layers(encoder, layers)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    found: dict[int, Tensor] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        inputs = to_device(
            collate_texts([rows[row] for row in batch], pad),
            encoder.token_embedding.weight.device,
            packs=encoder.uses_packing,
        )
        states = read_layers(encoder, inputs, wanted)  # (B, S, *L, D)
        if pooling is None:
            parts = zip(states.cpu(), batch, strict=True)
            found |= {row: each[: len(rows[row])].clone() for each, row in parts}
        else:
            pairs = zip(states, batch, strict=True)
            vectors = [REDUCTIONS[pooling](each[: len(rows[row])]) for each, row in pairs]
            found |= zip(batch, torch.stack(vectors).cpu(), strict=True)
    return [found[row] for row in range(len(rows))]


def read_layers(
    encoder: EncoderModel, inputs: Inputs, layers: int | Sequence[int]
) -> Float[Tensor, "B S *L D"]:
    """States of one layer, or of several side by side, in fp32 at least."""
    if isinstance(encoder, LayeredEncoder) and layers != -1:
        every = encoder.layer_states(inputs)
        states = (
            every[layers]
            if isinstance(layers, int)
            else torch.stack([every[it] for it in layers], 2)
        )
    else:
        states = encoder(inputs).states
    return states.to(torch.promote_types(states.dtype, torch.float32))


def check_layers(
    encoder: EncoderModel, layers: SupportsIndex | Sequence[SupportsIndex]
) -> int | list[int]:
    """A layer, or several: integers of any kind, such as NumPy's, that the encoder has."""
    given: Any = layers
    try:
        several = isinstance(given, Sequence) or np.ndim(given) > 0
        found = [operator.index(it) for it in given] if several else operator.index(given)
    except TypeError:
        raise ToolkitError(
            f"layers must be an integer or a list of integers, but is {layers!r}."
        ) from None
    numbers = [found] if isinstance(found, int) else found
    if not isinstance(encoder, LayeredEncoder) and found != -1:
        raise ToolkitError(
            f"layers must be -1, the last one, for {type(encoder).__name__}, which returns no "
            f"others, but is {found}."
        )
    count = len(encoder.layers) if isinstance(encoder, LayeredEncoder) else 0
    if not numbers or not all(-count - 1 <= number <= count for number in numbers):
        raise ToolkitError(
            f"layers must lie in 0 .. {count} for this model, 0 for the embeddings, or count from "
            f"the end, -1 for the last layer, but is {found}."
        )
    return found


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options: those of an evaluation are options of toolkit-validate."""


@register_task("encode", NoOptions())
class Encode(Task[NoOptions, Examples[Batch], Batch]):
    """States of all tokens, and nothing to train."""

    coefficients: Mapping[str, float] = {}
    remedy = (
        "Task encode has no head to train. Choose another --task; --finetune-from loads the "
        "encoder of a checkpoint."
    )

    def predict(self, encoder: EncoderModel, batch: Batch) -> dict[str, Prediction]:
        return {}


@register_task("completions", NoOptions())
class Completions(Encode):
    """Evaluation only: how often score(right option) is the highest of all options."""

    remedy = (
        "Task completions evaluates checkpoints and trains nothing. Train with --task mlm, mpm "
        "or language_modeling, then run toolkit-validate FILES --task completions --path RUN."
    )


@register_task("minimal_pairs", NoOptions())
class MinimalPairs(Completions):
    """Evaluation only: accuracy of score(good) > score(bad) for pairs of sentences."""

    remedy = Completions.remedy.replace("completions", "minimal_pairs")
