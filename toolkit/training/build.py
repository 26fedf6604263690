"""From names and configs to modules: an encoder, or a learner with a task's heads."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.run import Chosen
from toolkit.models.inputs import Sizes
from toolkit.tasks.task import Learner


def build_model(
    name: str, *, vocabulary_size: int, task: str | None = None, **overrides: Any
) -> nn.Module:
    """The encoder of a registered architecture, or with `task` the learner with that task's heads.

    Keyword overrides are fields of the architecture's config. The first weights come from torch's
    default generator: seed it with torch.manual_seed for the same ones again.
    """
    arch = Chosen(name, overridden(ARCHITECTURES[name].config, overrides, f"arch {name!r}"))
    sizes = Sizes(tokens=vocabulary_size)
    if task is None:
        return build_encoder(arch, sizes)
    return build_learner(arch, Chosen(task, TASKS[task].config), sizes)


def build_encoder(arch: Chosen, sizes: Sizes, **overrides: Any) -> nn.Module:
    config = overridden(arch.config, overrides, f"arch {arch.name!r}")
    return ARCHITECTURES[arch.name].build(config, sizes)


def build_learner(arch: Chosen, task: Chosen, sizes: Sizes) -> Learner:
    """An encoder and its task; the task may ask for further encoders of the same kind."""

    def make_encoder(**overrides: Any) -> nn.Module:
        return build_encoder(arch, sizes, **overrides)

    encoder = make_encoder()
    return Learner(encoder, TASKS[task.name].build(task.config, encoder, sizes, make_encoder))


def overridden(config: Any, changes: dict[str, Any], owner: str) -> Any:
    """The config with some fields changed; a field that it does not have is an error."""
    known = [field.name for field in dataclasses.fields(config)]
    for name in changes:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ToolkitError(f"{owner} has no option {name!r}.{hint} Known: {', '.join(known)}.")
    return dataclasses.replace(config, **changes)
