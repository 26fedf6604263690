"""Texts as inputs of an encoder and as vectors, and the tasks that train nothing.

N texts   L layers   S tokens of a text   D width of the states
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, SupportsIndex

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
from toolkit.tasks.examples import Batch, Examples, SplitSource, to_device
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
    limit = encoder.max_positions
    room = None if limit is None else max(0, limit - len(before) - len(after))
    if room is not None and (cut := int(np.count_nonzero(lengths > room))):
        log.warning(f"{cut:,} of {len(texts):,} texts were truncated to {limit} tokens.")
    return [[*before, *row[:room].tolist(), *after] for row in split_rows(ids, lengths)]


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
    if layers == -1 or not isinstance(encoder, LayeredEncoder):
        states = encoder(inputs).states
    else:
        every = encoder.layer_states(inputs)
        states = (
            every[layers]
            if isinstance(layers, int)
            else torch.stack([every[it] for it in layers], 2)
        )
    return states.to(torch.promote_types(states.dtype, torch.float32))


def check_layers(
    encoder: EncoderModel, layers: SupportsIndex | Sequence[SupportsIndex]
) -> int | list[int]:
    """A layer, or several: integers of any kind, such as NumPy's, that the encoder has."""
    given: Any = layers
    several = np.ndim(given) > 0
    numbers = [operator.index(it) for it in (given if several else [given])]
    if not isinstance(encoder, LayeredEncoder):
        if several or numbers != [-1]:
            raise ToolkitError(
                f"layers must be -1, the last one, for {type(encoder).__name__}, which returns no "
                f"others, but is {layers}."
            )
        return -1
    count = len(encoder.layers)
    if not numbers or not all(-count - 1 <= number <= count for number in numbers):
        raise ToolkitError(
            f"layers must lie in 0 .. {count} for this model, 0 for the embeddings, or count from "
            f"the end, -1 for the last layer, but is {layers}."
        )
    return numbers if several else numbers[0]


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options: those of an evaluation are options of toolkit-validate."""


@register_task("encode", NoOptions())
class Encode(Task[NoOptions, Examples[Batch], Batch]):
    """States of all tokens, and nothing to train."""

    coefficients: Mapping[str, float] = {}
    remedy: ClassVar[str] = (
        "Task encode has no head to train. Choose another --task; --finetune-from loads the "
        "encoder of a checkpoint."
    )

    @classmethod
    def examples(cls, config: NoOptions, source: SplitSource) -> Examples[Batch]:
        raise ToolkitError(cls.remedy)

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
