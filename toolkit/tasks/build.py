"""Build an encoder, or a learner with a task's heads, from names and configs."""

from __future__ import annotations

from typing import Any

from torch import nn

from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.run import ComponentConfig
from toolkit.models.interface import EncoderModel, Sizes
from toolkit.tasks.capabilities import check_encoder_only
from toolkit.tasks.encoder_factory import EncoderFactory, override_config
from toolkit.tasks.task import Learner, Task


def build_model(
    name: str,
    *,
    vocabulary_size: int,
    characters: int = 0,
    tags: int = 0,
    targets: int = 0,
    labels: int = 0,
    task: str | None = None,
    **overrides: Any,
) -> nn.Module:
    """The encoder of a registered architecture, or with `task` the learner with that task's heads.

    `characters` and `tags` are how many the data has, where words are spelled and have tags;
    `targets` how many symbols the language has that is written, where it has a vocabulary of its
    own; `labels` how many classes its texts have, 1 where they have a number.
    Keyword overrides are fields of the architecture's config. The first weights come from torch's
    default generator: seed it with torch.manual_seed for the same ones again.
    """
    arch = ComponentConfig(
        name, override_config(ARCHITECTURES[name].config, overrides, f"arch {name!r}")
    )
    sizes = Sizes(
        tokens=vocabulary_size, characters=characters, tags=tags, targets=targets, labels=labels
    )
    if task is None:
        return build_encoder(arch, sizes)
    return build_learner(arch, ComponentConfig(task, TASKS[task].config), sizes)


def build_encoder(arch: ComponentConfig, sizes: Sizes) -> EncoderModel:
    return EncoderFactory(arch, sizes)()


def build_learner(arch: ComponentConfig, task: ComponentConfig, sizes: Sizes) -> Learner:
    make_encoder = EncoderFactory(arch, sizes)
    encoder, build = make_encoder(), TASKS[task.name].factory
    is_generative = isinstance(build, type) and issubclass(build, Task) and build.is_generative
    check_encoder_only(encoder, task.name, is_generative=is_generative)
    return Learner(encoder, build(task.config, encoder, sizes, make_encoder))
