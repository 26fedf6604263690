"""From names and configs to modules: an encoder, or a learner with a task's heads."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.run import Chosen
from toolkit.models.interface import Sizes
from toolkit.tasks.capabilities import refuse_writers
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

    `characters` and `tags` are how many the data has, where words are spelt and have tags;
    `targets` how many symbols the language has that is written, where it has a vocabulary of its
    own; `labels` how many classes its texts have, 1 where they have a number.
    Keyword overrides are fields of the architecture's config. The first weights come from torch's
    default generator: seed it with torch.manual_seed for the same ones again.
    """
    arch = Chosen(name, overridden(ARCHITECTURES[name].config, overrides, f"arch {name!r}"))
    sizes = Sizes(
        tokens=vocabulary_size, characters=characters, tags=tags, targets=targets, labels=labels
    )
    if task is None:
        return build_encoder(arch, sizes)
    return build_learner(arch, Chosen(task, TASKS[task].config), sizes)


@runtime_checkable
class Scalable(Protocol):
    """A config that knows which options make its architecture smaller."""

    def scaled(self, share: float) -> dict[str, Any]: ...


class EncoderMaker(NamedTuple):
    """Makes further encoders of a run's architecture."""

    arch: Chosen
    sizes: Sizes

    def __call__(self, **overrides: Any) -> nn.Module:
        """One with some of the architecture's options changed."""
        config = overridden(self.arch.config, overrides, f"arch {self.arch.name!r}")
        return ARCHITECTURES[self.arch.name].build(config, self.sizes)

    def scaled(self, share: float) -> nn.Module:
        """One with this share of the widths and heads."""
        config = self.arch.config
        if not isinstance(config, Scalable):
            raise ToolkitError(
                f"a smaller encoder must be of an architecture whose config has a method scaled, "
                f"but that of {self.arch.name!r}, {type(config).__name__}, has none. Derive it "
                f"from toolkit.models.encoder.EncoderConfig, or write one."
            )
        try:
            return self(**config.scaled(share))
        except ToolkitError as error:
            raise ToolkitError(
                f"a share of {share} of arch {self.arch.name!r} must make an encoder, but there: "
                f"{error} Choose a share that leaves heads which divide, such as 0.5 or 0.3333."
            ) from error


def build_encoder(arch: Chosen, sizes: Sizes) -> nn.Module:
    return EncoderMaker(arch, sizes)()


def build_learner(arch: Chosen, task: Chosen, sizes: Sizes) -> Learner:
    """An encoder and its task; the task may ask for further encoders of the same kind."""
    make_encoder = EncoderMaker(arch, sizes)
    encoder, build = make_encoder(), TASKS[task.name].build
    refuse_writers(encoder, task.name, writes=getattr(build, "writes", False))
    return Learner(encoder, build(task.config, encoder, sizes, make_encoder))


def overridden(config: Any, changes: dict[str, Any], owner: str) -> Any:
    """The config with some fields changed; a field that it does not have is an error."""
    known = [field.name for field in dataclasses.fields(config)]
    for name in changes:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ToolkitError(f"{owner} has no option {name!r}.{hint} Known: {', '.join(known)}.")
    return dataclasses.replace(config, **changes)
