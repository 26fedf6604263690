"""The one net of a checkpoint that is exported: of a pair trained by rtd, either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.config.run import RunConfig
from toolkit.conversion.families import ENCODER, HEAD

GENERATOR = "task.generator."
SHARED = tuple(f"{ENCODER}.embeddings.{part}." for part in ("words", "types", "positions", "norm"))


class Net(NamedTuple):
    """An encoder with its head, under the names of a masked language model's learner."""

    arch: Any
    """The config of its architecture."""
    tensors: dict[str, Tensor]
    head: bool
    """Whether it predicts masked tokens."""
    detects: bool = False
    """Whether it tells replaced tokens."""


def net_of(run: RunConfig, tensors: Mapping[str, Tensor], wanted: str | None) -> Net:
    """The only net there is, or the one asked for."""
    if run.task.name != "rtd":
        if wanted is not None:
            raise ToolkitError(
                f"--net must be left out unless the model was trained with --task rtd, but it is "
                f"{wanted} and the task was {run.task.name}."
            )
        return Net(run.arch.config, dict(tensors), run.task.name == "mlm")
    if wanted == "generator":
        return generator(run, tensors)
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(GENERATOR)}
    return Net(run.arch.config, own, False, True)


def generator(run: RunConfig, tensors: Mapping[str, Tensor]) -> Net:
    """It reads with the discriminator's embedding tables, so they go with it."""
    arch, task = run.arch.config, run.task.config
    inner = arch.embedding_width or arch.width
    arch = replace(arch, **{**arch.scaled(task.generator_size), "embedding_width": inner})
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(SHARED)}
    for name, tensor in tensors.items():
        if name.startswith(f"{GENERATOR}encoder."):
            own[f"{ENCODER}.{name.removeprefix(f'{GENERATOR}encoder.')}"] = tensor
        if name.startswith(f"{GENERATOR}head."):
            own[f"{HEAD}.{name.removeprefix(f'{GENERATOR}head.')}"] = tensor
    return Net(arch, own, True)
