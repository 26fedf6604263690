"""Inputs of Transformers as those of the toolkit's encoders.

B sentences   S tokens of a sentence   C characters of a word
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch.nn import functional as F

from toolkit.models.interface import EncoderModel, Inputs


def to_inputs(
    encoder: EncoderModel,
    input_ids: Int[Tensor, "B S"],
    attention_mask: Shaped[Tensor, "B S"] | None = None,
    token_type_ids: Int[Tensor, "B S"] | None = None,
    position_ids: Int[Tensor, "B S"] | None = None,
    char_ids: Int[Tensor, "B S C"] | None = None,
    padding_char_ids: Sequence[int] = (),
) -> Inputs:
    """The inputs, padded to the only length that the encoder reads if it has one.

    `padding_char_ids` are the characters at padding.
    """
    inputs = Inputs(
        input_ids,
        positions=position_ids,
        segments=token_type_ids,
        padding=None if attention_mask is None else find_padding(attention_mask),
    )
    missing = max(0, (encoder.fixed_length or 0) - input_ids.shape[1])
    if missing:
        inputs = inputs._replace(tokens=F.pad(input_ids, (0, missing)))
    if char_ids is None:
        return inputs
    char_ids = F.pad(char_ids, (0, 0, 0, missing))
    words = char_ids.any(-1, keepdim=True)  # every character of a word has an id above 0
    return add_characters(
        inputs, torch.where(words, char_ids, char_ids.new_tensor(padding_char_ids))
    )


def find_padding(attention_mask: Shaped[Tensor, "B S"]) -> Shaped[Tensor, "B S"] | None:
    """True at padding; None without any, which only a CPU can tell without waiting."""
    padding = attention_mask == 0
    tells = padding.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if tells and not padding.any() else padding


def add_characters(inputs: Inputs, char_ids: Int[Tensor, "B S C"]) -> Inputs:
    """The inputs with the characters of distinct words."""
    if torch.compiler.is_exporting():  # as distinct, since their number would depend on the data
        words = char_ids.flatten(0, 1)
        index = torch.arange(words.shape[0], device=words.device)
    else:
        words, index = char_ids.flatten(0, 1).unique(dim=0, return_inverse=True)
    return inputs._replace(char_ids=words, word_index=index.view(inputs.tokens.shape))


def flat_indices(inputs: Inputs, length: int) -> Int[Tensor, " N"]:
    """Flat indices of the first `length` tokens of every sentence."""
    rows, width = inputs.tokens.shape
    starts = torch.arange(rows, device=inputs.tokens.device)[:, None] * width
    return (starts + torch.arange(length, device=starts.device)).flatten()
