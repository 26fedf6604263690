"""A model as a graph of torch's operations (torch.export), which other runtimes can execute.

N questions   O options   B rows   S tokens of a row   C characters of a word
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from toolkit.common.errors import ToolkitError
from toolkit.huggingface.generation import ToolkitForConditionalGeneration
from toolkit.huggingface.heads import ToolkitForMultipleChoice
from toolkit.huggingface.model import ToolkitPreTrainedModel

OPTIONS, LENGTH, CHARACTERS = 4, 18, 7
"""Sizes of example inputs where any size works."""


class Shape(NamedTuple):
    """The only number of rows and of tokens in a row that a graph reads; None if any."""

    batch: int | None = None
    length: int | None = None


class Graph(nn.Module):
    """A model in evaluation as a function of its inputs, in order, to a tuple of tensors.

    Of an encoder-decoder model it is the encoder: decoding calls a model once per token.
    """

    def __init__(self, model: ToolkitPreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.outputs = input_names(model), output_names(model)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        if isinstance(model, ToolkitForConditionalGeneration):
            outputs = model.get_encoder()(*inputs)
        else:
            outputs = model(**dict(zip(self.inputs, inputs, strict=True)), return_dict=True)
        return tuple(outputs[name] for name in self.outputs)


def input_names(model: ToolkitPreTrainedModel) -> list[str]:
    """Names of the graph's inputs, in order."""
    types = model.config.arch.get("token_types", 1) > 1
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * types
    return names + ["char_ids"] * bool(model.config.padding_char_ids)


def output_names(model: ToolkitPreTrainedModel) -> list[str]:
    """Names of the graph's outputs, in order."""
    if not model.tasks or isinstance(model, ToolkitForConditionalGeneration):
        return ["last_hidden_state"]
    return ["start_logits", "end_logits"] if "squad" in model.tasks else ["logits"]


def export_program(model: ToolkitPreTrainedModel, shape: Shape | None = None) -> ExportedProgram:
    """`Graph` of the model for inputs of any shape that it reads, or of a given one."""
    shape = shape or resolve_shape(model)
    inputs = tuple(example_inputs(model, shape, rows=3).values())
    choice = isinstance(model, ToolkitForMultipleChoice)
    free = [shape.batch is None, *[True] * choice, shape.length is None]
    dynamic = {axis: Dim.DYNAMIC for axis, is_free in enumerate(free) if is_free}
    shapes = (tuple(dynamic for _ in inputs),)
    with torch.no_grad():
        return torch.export.export(Graph(model).eval(), inputs, dynamic_shapes=shapes)


def resolve_shape(
    model: ToolkitPreTrainedModel, batch: int | None = None, length: int | None = None
) -> Shape:
    """The shape of the graph's inputs."""
    longest, only = model.encoder.max_positions, model.encoder.fixed_length
    if length is not None and (length > (longest or length) or length != (only or length)):
        raise ToolkitError(
            f"--length must be {f'{only}' if only else f'at most {longest}'}, as the model was "
            f"trained, but is {length}."
        )
    return Shape(batch, length or only)


def example_inputs(
    model: ToolkitPreTrainedModel, shape: Shape, rows: int, seed: int = 0
) -> dict[str, Int[Tensor, ...]]:
    """Random tokens by the names of the inputs; half of a row is padding."""
    random = torch.Generator().manual_seed(seed)
    length, limit = LENGTH + rows, model.encoder.max_positions
    if limit is not None:
        length = min(length, max(1, limit - rows % 3))  # another one for 1, 3 and 5 rows
    size: tuple[int, ...] = (shape.batch or rows, shape.length or length)
    if isinstance(model, ToolkitForMultipleChoice):
        size = (size[0], OPTIONS, size[1])
    ids = torch.randint(0, model.config.vocab_size, size, generator=random)
    mask = torch.ones_like(ids)
    mask[-1, ..., size[-1] // 2 :] = 0
    tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    if model.config.padding_char_ids:
        characters = (*size, len(model.config.padding_char_ids))
        tensors["char_ids"] = torch.randint(
            1, model.config.sizes["characters"], characters, generator=random
        )
    return {name: tensors[name] for name in input_names(model)}
