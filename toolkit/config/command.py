"""Commands and groups of commands, and text in columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import toolkit
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, Registry
from toolkit.config.declared import NO_SPLIT, Option, list_options
from toolkit.config.sections import (
    CheckpointConfig,
    DataConfig,
    LoggingConfig,
    RunConfig,
    TrainingConfig,
)

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
    positions, callbacks (of --user-dir), recipes or formats."""
    help: bool = False
    """Print this help and exit, with the options of the components that are named."""
    help_all: bool = False
    """Print this help with the advanced options, and exit."""
    version: bool = False
    """Print the version and exit."""
    traceback: bool = False
    """Print Python's traceback below an error, such as one of a plugin."""


class SavedRun(NamedTuple):
    """The run of the checkpoint that a run resumes from."""

    options: Mapping[str, object]
    """Section -> option -> value, as `to_dict` gives them."""
    checkpoint: str
    in_save_dir: bool
    """Whether the checkpoint is in the save folder, and not of another run."""


FindSavedRun = Callable[[str, str], SavedRun | None]
"""The run to resume, from --save-dir and --restore-file; None to start from scratch."""


Act = str | Callable[[Any], object]
"""A function of the config, or of all sections if the command has more than those of a run; as
text `module:function`, which is imported when the command runs, as torch is slow."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A name, its purpose, and the config classes whose fields are its options."""

    name: str
    summary: str
    example: str
    config: Any
    """RunConfig, or the config class of a command without sections; or an instance, whose values
    are the defaults."""
    act: Act = ""
    """The function that carries out the command; it may return an exit code."""
    variant: Callable[[Sequence[str]], Command] | None = None
    """Gives the command that the words mean, if some of them make it another one."""
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
    find_saved_run: FindSavedRun | str = ""
    """Finds the run whose options are the defaults, or names the function as `act` does; empty if
    the command resumes no run."""

    @property
    def positional(self) -> str:
        """Path of the option that words without a flag set; empty if there is none."""
        return "data.dirs" if self.config is RunConfig else getattr(self.config, "positional", "")

    def fixed_sections(self) -> dict[str, type]:
        """Section -> config class, without components; "" is a command without sections."""
        if self.config is not RunConfig:
            return {"": self.config, **self.sections}
        own = {"data": DataConfig, "training": TrainingConfig, "checkpoint": CheckpointConfig}
        return {**own, "logging": LoggingConfig, **self.sections}

    def command_line_options(self) -> list[Option]:
        """The options of every command; --list is only for commands with components."""
        options = list_options("", CommandLineConfig)
        return [option for option in options if self.components or option.name != "list"]

    def fixed_options(self) -> list[Option]:
        sections = self.fixed_sections().items()
        return [o for section, config in sections for o in list_options(section, config)]


RUN = Command(name="run", summary="", example="", config=RunConfig, components=COMPONENTS)
"""A run without a command line, as in Python and in checkpoints."""


@dataclass(frozen=True, kw_only=True)
class CommandGroup:
    """Commands that share a name, such as the modes of toolkit-generate."""

    name: str
    summary: str
    example: str
    metavar: str
    """Name of the first word in the help."""
    commands: Mapping[str, Command]
    infer: Callable[[Sequence[str]], str] | None = None
    """Infers the command if the first word names none; returns "" if it cannot."""
    find_more: Callable[[Sequence[str]], Mapping[str, Command]] = lambda argv: {}
    """Finds the commands of the plugins that the words name."""

    def choose(self, argv: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
        """The command that the words name or imply, and its words."""
        if argv and argv[0] in self.commands:
            return self.commands[argv[0]], argv[1:]
        if argv and (own := self.find_more(argv).get(argv[0])):
            return own, argv[1:]
        word = self.infer(argv) if self.infer else ""
        return self.commands.get(word), argv

    def answer(self, argv: Sequence[str]) -> str:
        """Help or version, to print if no command is chosen; anything else is an error."""
        if "--version" in argv:
            return f"{self.name} {toolkit.__version__}"
        commands = {**self.commands, **self.find_more(argv)}
        if not argv or set(argv) & {"-h", "--help", "--help-all"}:
            return self.help_text(commands)
        known, path = ", ".join(commands), " or --path" if self.infer else ""
        raise ToolkitError(
            f"{self.name} needs a {self.metavar}{path}; the first word is {argv[0]!r}, but must be "
            f"one of {known}. See --help."
        )

    def help_text(self, commands: Mapping[str, Command]) -> str:
        optional = self.infer is not None
        summaries = [(word, command.summary) for word, command in commands.items()]
        return "\n\n".join(
            [
                f"usage: {self.name} {'[' * optional}{self.metavar}{']' * optional} [options]",
                wrap_paragraph(self.summary),
                f"example:\n  {self.example}",
                f"{self.metavar}:\n{format_columns(summaries)}",
                f"{self.name} {self.metavar} --help shows the options of each.",
            ]
        )


CHECKPOINT_LINKS = ("checkpoint_best", "checkpoint_last")
MANIFEST = "manifest.json"
COMPRESSION = (".gz", ".xz", ".zst")


def missing_dashes_error(word: str) -> ToolkitError:
    """The error for a word that is no value of an option."""
    return ToolkitError(f"unexpected argument {word!r}: options start with --. See --help.")


TERM_WIDTH = 34


def format_columns(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> str:
    """The rows as text; a term that is too long for its column gets a separate line."""
    rows = list(rows)
    left = min(TERM_WIDTH, indent + 2 + max((len(term) for term, _ in rows), default=0))
    width, lines = max(30, terminal_width() - left), list[str]()
    for term, text in rows:
        first, *rest = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
        start = " " * indent + term
        alone = len(start) + 2 > left
        lines += [start, " " * left + first] if alone else [start.ljust(left) + first]
        lines += [" " * left + line for line in rest]
    return "\n".join(line.rstrip() for line in lines)


def wrap_paragraph(text: str) -> str:
    """The text wrapped to the width of the terminal."""
    return textwrap.fill(text, terminal_width(), break_on_hyphens=False)


def terminal_width() -> int:
    """Width of the terminal in columns, at most 100."""
    return min(100, shutil.get_terminal_size((100, 24)).columns)
