"""What a command is, as far as its options go; each file of `toolkit.cli` holds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from toolkit.common.registry import COMPONENTS
from toolkit.config.options import NO_SPLIT, Option, list_options
from toolkit.config.run import RunConfig

TextList = list[str]  # inside the class, `list` is a field
DEFAULT_COMPONENTS = {"optimizer": "adamw", "lr_scheduler": "linear"}


@dataclass(frozen=True, kw_only=True)
class CommandLineConfig:
    """Options of every command that say how to read the others, so a file cannot hold them."""

    config: TextList = field(default_factory=list, metadata=NO_SPLIT)
    """YAML file of options; repeat it for more, later ones win over earlier ones."""
    user_dir: TextList = field(default_factory=list, metadata=NO_SPLIT)
    """Folder of your own architectures, tasks and criteria; repeat it for more."""
    print_config: bool = False
    """Print every option with its value and where that came from, as YAML, and stop."""
    list: str = ""
    """Print the known archs, tasks, criteria, optimizers or lr_schedulers, and stop."""
    help: bool = False
    """Print this help and stop. toolkit-train adds the options of components that are named, as
    with --arch taco."""
    version: bool = False
    """Print the version and stop."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A name, what it is for, and the config classes whose fields are its options."""

    name: str
    summary: str
    """What it does, in a sentence or two."""
    example: str
    config: type
    """RunConfig, or the one config class of a command without sections."""
    sections: Mapping[str, type] = field(default_factory=dict)
    """Sections beside the run's own."""
    common: tuple[str, ...] = ()
    """Paths of the options that the help shows first."""
    defaults: Mapping[str, str] = field(default_factory=lambda: DEFAULT_COMPONENTS)
    """Section -> the component that is meant where none is named."""

    @property
    def components(self) -> dict[str, Any]:
        """Section -> registry; none in a command without sections."""
        return COMPONENTS if self.config is RunConfig else {}

    @property
    def positional(self) -> str:
        """Path of the option that words without a flag fill; empty where none does."""
        if self.config is RunConfig:
            return "data.dirs"
        return vars(self.config).get("POSITIONAL", "")

    def fixed_sections(self) -> dict[str, type]:
        """Section -> config class, components left out; '' is a command without sections."""
        if self.config is not RunConfig:
            return {"": self.config}
        return {**run_sections(), **self.sections}

    @property
    def command_line(self) -> list[Option]:
        """The options that every command has; one without components has none to list."""
        options = list_options("", CommandLineConfig)
        return [option for option in options if self.components or option.name != "list"]

    def fixed_options(self) -> list[Option]:
        sections = self.fixed_sections().items()
        return [o for section, config in sections for o in list_options(section, config)]


def run_sections() -> dict[str, Any]:
    """The sections of a run that are no components."""
    made = ((f.name, f.default_factory) for f in fields(RunConfig) if f.name not in COMPONENTS)
    return dict(made)
