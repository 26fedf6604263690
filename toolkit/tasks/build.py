"""Build an encoder, or a learner with a task's heads, from names and configs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.run import ComponentConfig
from toolkit.models.interface import EncoderModel, Sizes
from toolkit.tasks.capabilities import check_encoder_only
from toolkit.tasks.encoder_factory import EncoderFactory, override_config
from toolkit.tasks.task import Learner, Task


def build_model(
    name: str,
    *,
    vocabulary_size: int | None = None,
    sizes: Mapping[str, int] | None = None,
    task: str | None = None,
    **overrides: object,
) -> nn.Module:
    """The encoder of a registered architecture, or with `task` the learner with that task's heads.

    `sizes` are what the data decides, as `tokenizer.sizes` gives them: `tokens`, and what else its
    format has, such as `characters`, `tags`, `targets` or `labels`. `vocabulary_size` is short for
    its `tokens`. Keyword overrides are fields of the architecture's config. Initial weights are
    drawn from torch's default generator: call torch.manual_seed first to reproduce them.
    """
    arch = ComponentConfig(
        name, override_config(ARCHITECTURES[name].config, overrides, f"arch {name!r}")
    )
    counts = Sizes(sizes or {})
    if vocabulary_size is not None:
        counts["tokens"] = vocabulary_size
    if not counts["tokens"]:
        raise ToolkitError("build_model requires vocabulary_size, or sizes with tokens.")
    if task is None:
        return build_encoder(arch, counts)
    return build_learner(arch, ComponentConfig(task, TASKS[task].config), counts)


def build_encoder(arch: ComponentConfig, sizes: Sizes) -> EncoderModel:
    return EncoderFactory(arch, sizes)()


def build_learner(arch: ComponentConfig, task: ComponentConfig, sizes: Sizes) -> Learner:
    make_encoder = EncoderFactory(arch, sizes)
    encoder, build = make_encoder(), TASKS[task.name].factory
    is_generative = isinstance(build, type) and issubclass(build, Task) and build.is_generative
    check_encoder_only(encoder, task.name, is_generative=is_generative)
    return Learner(encoder, build(task.config, encoder, make_encoder))
