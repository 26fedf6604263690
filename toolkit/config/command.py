"""Commands: the config classes and components that declare their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from toolkit.common.registry import COMPONENTS, Registry
from toolkit.config.options import NO_SPLIT, Option, list_options
from toolkit.config.run import RunConfig

TextList = list[str]  # inside the class, `list` is a field
DEFAULT_COMPONENTS = {"optimizer": "adamw", "lr_scheduler": "linear"}


@dataclass(frozen=True, kw_only=True)
class CommandLineConfig:
    """Options of every command; they cannot be in a file, since they control how it is read."""

    config: TextList = field(default_factory=list, metadata=NO_SPLIT)
    """YAML file of options, or recipe:NAME, a recipe of --list recipes. Repeat the flag for more;
    later ones win."""
    user_dir: TextList = field(default_factory=list, metadata=NO_SPLIT)
    """Folder with your own components: architectures, tasks, data formats, ... Repeat the flag for
    more folders."""
    print_config: bool = False
    """Print every option with its value and its origin as YAML, and exit."""
    list: str = ""
    """Print the known names of a kind and exit: archs, tasks, criteria, optimizers, lr_schedulers,
    callbacks (of --user-dir), recipes or formats."""
    help: bool = False
    """Print this help and exit, with the options of the components that are named."""
    help_all: bool = False
    """Print this help with the advanced options, and exit."""
    version: bool = False
    """Print the version and exit."""


class SavedRun(NamedTuple):
    """The run of the checkpoint that a run resumes from."""

    options: Mapping[str, object]
    """Section -> option -> value, as `to_dict` gives them."""
    checkpoint: str
    in_save_dir: bool
    """Whether the checkpoint is in the save folder, and not of another run."""


FindSavedRun = Callable[[str, str], SavedRun | None]
"""The run to resume, from --save-dir and --restore-file; None to start from scratch."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A name, its purpose, and the config classes whose fields are its options."""

    name: str
    summary: str
    example: str
    config: type
    """RunConfig, or the config class of a command without sections."""
    sections: Mapping[str, type] = field(default_factory=dict)
    """Sections in addition to those of a run."""
    components: Mapping[str, Registry] = field(default_factory=dict)
    """Section -> the registry in which its `name` is looked up."""
    defaults: Mapping[str, str] = field(default_factory=lambda: DEFAULT_COMPONENTS)
    """Section -> its default component."""
    implied: Mapping[str, str] = field(default_factory=dict)
    """Option of a component -> the component, which the option selects if none is named."""
    overridden: str = ""
    """Section of a checkpoint's run whose options the command accepts too, as Overrides."""
    common: tuple[str, ...] = ()
    """Paths of the options that the help shows first."""
    misplaced_paths: Mapping[str, str] = field(default_factory=dict)
    """Kind of a path that is given without an option -> what to do with {path} (input_paths)."""
    find_saved_run: FindSavedRun | None = None
    """Finds the run whose options are the defaults; None if the command resumes no run."""

    @property
    def positional(self) -> str:
        """Path of the option that words without a flag set; empty if there is none."""
        if self.config is RunConfig:
            return "data.dirs"
        return getattr(self.config, "POSITIONAL", "")

    def fixed_sections(self) -> dict[str, type]:
        """Section -> config class, without components; "" is a command without sections."""
        if self.config is not RunConfig:
            return {"": self.config, **self.sections}
        return {**run_sections(), **self.sections}

    def command_line_options(self) -> list[Option]:
        """The options of every command; --list is only for commands with components."""
        options = list_options("", CommandLineConfig)
        return [option for option in options if self.components or option.name != "list"]

    def fixed_options(self) -> list[Option]:
        sections = self.fixed_sections().items()
        return [o for section, config in sections for o in list_options(section, config)]


RUN = Command(name="run", summary="", example="", config=RunConfig, components=COMPONENTS)
"""A run without a command line, as in Python and in checkpoints."""


def run_sections() -> dict[str, type]:
    """The sections of a run that are not components."""
    sections: dict[str, Any] = {f.name: f.default_factory for f in fields(RunConfig)}
    others = (*COMPONENTS, "callbacks")
    return {name: config for name, config in sections.items() if name not in others}
