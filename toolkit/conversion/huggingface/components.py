"""The exported part of a checkpoint: of a pair trained with rtd, the discriminator or generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.run import ComponentConfig, RunConfig
from toolkit.conversion.huggingface.model_type import ENCODER, HEAD, replace_prefix
from toolkit.models.interface import ArchConfig

GENERATOR = "task.generator."
SHARED = tuple(f"{ENCODER}.embeddings.{part}." for part in ("words", "types", "positions", "norm"))


class ModelComponent(NamedTuple):
    """An encoder with its head, under the names of a masked language model's learner."""

    arch: ArchConfig
    tensors: dict[str, Tensor]
    task: ComponentConfig
    """The task whose head the tensors have."""

    @property
    def has_mlm_head(self) -> bool:
        """Whether it predicts masked tokens."""
        return self.task.name == "mlm"

    @property
    def is_discriminator(self) -> bool:
        """Whether it detects replaced tokens."""
        return self.task.name == "rtd"


def check_component(task: str, component: str | None) -> None:
    """Raise if --component is given for a task that has no such parts."""
    if component is not None and task != "rtd":
        raise ToolkitError(
            f"--component {component} requires a checkpoint trained with --task rtd, but the task "
            f"is {task}."
        )


def select_component(
    run: RunConfig, tensors: Mapping[str, Tensor], wanted: str | None
) -> ModelComponent:
    """The model to export: for rtd the discriminator or the generator, else the only one."""
    check_component(run.task.name, wanted)
    if run.task.name != "rtd":
        return ModelComponent(run.arch.config, dict(tensors), run.task)
    if wanted == "generator":
        return extract_generator(run, tensors)
    discriminator = {n: tensor for n, tensor in tensors.items() if not n.startswith(GENERATOR)}
    return ModelComponent(run.arch.config, discriminator, run.task)


def select_arch(run: RunConfig, wanted: str | None) -> ArchConfig:
    """The architecture of the model to export."""
    arch = run.arch.config
    if run.task.name != "rtd" or wanted != "generator":
        return arch
    scaled = arch.scaled_options(run.task.config.generator_size)
    return replace(arch, **scaled, embedding_width=arch.embedding_width or arch.width)


def extract_generator(run: RunConfig, tensors: Mapping[str, Tensor]) -> ModelComponent:
    """The generator, with the embedding tables that it shares with the discriminator."""
    renamed = {name: tensor for name, tensor in tensors.items() if name.startswith(SHARED)}
    prefixes = {f"{GENERATOR}encoder.": f"{ENCODER}.", f"{GENERATOR}head.": f"{HEAD}."}
    for name, tensor in tensors.items():
        if new_name := replace_prefix(name, prefixes):
            renamed[new_name] = tensor
    arch = select_arch(run, "generator")
    return ModelComponent(arch, renamed, ComponentConfig("mlm", TASKS["mlm"].config))
