"""From names and configs to modules: an encoder, or a learner with a task's heads."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.run import ComponentConfig
from toolkit.models.interface import Sizes
from toolkit.tasks.capabilities import check_encoder_only
from toolkit.tasks.task import Learner


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


@runtime_checkable
class SupportsScaling(Protocol):
    """A config that knows which options make its architecture smaller."""

    def scaled(self, fraction: float) -> dict[str, Any]: ...


class EncoderFactory(NamedTuple):
    """Makes further encoders of a run's architecture."""

    arch: ComponentConfig
    sizes: Sizes

    def __call__(self, **overrides: Any) -> nn.Module:
        """One with some of the architecture's options changed."""
        config = override_config(self.arch.config, overrides, f"arch {self.arch.name!r}")
        return ARCHITECTURES[self.arch.name].factory(config, self.sizes)

    def scaled(self, fraction: float) -> nn.Module:
        """One with this share of the widths and heads."""
        config = self.arch.config
        if not isinstance(config, SupportsScaling):
            raise ToolkitError(
                f"a smaller encoder must be of an architecture whose config has a method scaled, "
                f"but that of {self.arch.name!r}, {type(config).__name__}, has none. Derive it "
                f"from toolkit.models.encoder.EncoderConfig, or write one."
            )
        try:
            return self(**config.scaled(fraction))
        except ToolkitError as error:
            raise ToolkitError(
                f"a share of {fraction} of arch {self.arch.name!r} must make an encoder, but "
                "there: "
                f"{error} Choose a share that leaves heads which divide, such as 0.5 or 0.3333."
            ) from error


def build_encoder(arch: ComponentConfig, sizes: Sizes) -> nn.Module:
    return EncoderFactory(arch, sizes)()


def build_learner(arch: ComponentConfig, task: ComponentConfig, sizes: Sizes) -> Learner:
    """An encoder and its task; the task may ask for further encoders of the same kind."""
    make_encoder = EncoderFactory(arch, sizes)
    encoder, build = make_encoder(), TASKS[task.name].factory
    check_encoder_only(encoder, task.name, is_generative=getattr(build, "is_generative", False))
    return Learner(encoder, build(task.config, encoder, sizes, make_encoder))


def override_config(config: Any, changes: dict[str, Any], owner: str) -> Any:
    """The config with some fields changed; a field that it does not have is an error."""
    known = [field.name for field in dataclasses.fields(config)]
    for name in changes:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ToolkitError(f"{owner} has no option {name!r}.{hint} Known: {', '.join(known)}.")
    return dataclasses.replace(config, **changes)
