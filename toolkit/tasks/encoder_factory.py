"""Further encoders of a run's architecture, for tasks that train more than one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, suggest_name
from toolkit.config.sections import ComponentConfig
from toolkit.models.interface import ArchConfig, EncoderModel, Sizes
from toolkit.nn.init import memory_limit

C = TypeVar("C")


class EncoderFactory(NamedTuple):
    """Builds encoders of one architecture for data of these sizes."""

    arch: ComponentConfig
    sizes: Sizes

    def __call__(self, **overrides: object) -> EncoderModel:
        """An encoder with some of the architecture's options changed."""
        config = override_config(self.arch.config, overrides, f"arch {self.arch.name!r}")
        with memory_limit():
            encoder: EncoderModel = ARCHITECTURES[self.arch.name].factory(config, self.sizes)
        return encoder

    def scale(self, fraction: float) -> EncoderModel:
        """An encoder with this fraction of the widths and heads."""
        config = self.arch.config
        if not isinstance(config, ArchConfig):
            raise ToolkitError(
                f"Architecture {self.arch.name!r} cannot be scaled: {type(config).__name__} is not "
                f"derived from toolkit.models.interface.ArchConfig."
            )
        try:
            return self(**config.scaled_options(fraction))
        except ToolkitError as error:
            raise ToolkitError(
                f"Architecture {self.arch.name!r} cannot be scaled by {fraction}: {error} Choose a "
                f"fraction that divides the number of heads, such as 0.5 or 0.3333."
            ) from error


def override_config(config: C, changes: Mapping[str, object], owner: str) -> C:
    """The config with some fields changed; unknown fields are an error."""
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    for name in changes:
        if name not in known:
            raise ToolkitError(f"{owner} has no option {name!r}. {suggest_name(name, known)}")
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]
