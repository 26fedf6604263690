"""A group of commands: the first word selects one of them, each with separate options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import toolkit
from toolkit.common.errors import ToolkitError
from toolkit.config.columns import format_columns, wrap_paragraph
from toolkit.config.command import Command
from toolkit.config.input_paths import check_leading_words

HELP_FLAGS = ("-h", "--help", "--help-all")


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

    def choose(self, argv: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
        """The command that the words name or imply, and its words."""
        if argv and argv[0] in self.commands:
            return self.commands[argv[0]], argv[1:]
        word = self.infer(argv) if self.infer else ""
        return self.commands.get(word), argv

    def answer(self, argv: Sequence[str]) -> str:
        """Help or version, to print if no command is chosen; anything else is an error."""
        if "--version" in argv:
            return f"{self.name} {toolkit.__version__}"
        if not argv or set(argv) & set(HELP_FLAGS):
            return self.help_text()
        if self.infer:
            check_leading_words(argv, next(iter(self.commands.values())))
        known, path = ", ".join(self.commands), " or --path" if self.infer else ""
        raise ToolkitError(
            f"{self.name} needs a {self.metavar}{path}; the first word is {argv[0]!r}, but must be "
            f"one of {known}. See --help."
        )

    def help_text(self) -> str:
        optional = self.infer is not None
        commands = [(word, command.summary) for word, command in self.commands.items()]
        return "\n\n".join(
            [
                f"usage: {self.name} {'[' * optional}{self.metavar}{']' * optional} [options]",
                wrap_paragraph(self.summary),
                f"example:\n  {self.example}",
                f"{self.metavar}:\n{format_columns(commands)}",
                f"{self.name} {self.metavar} --help shows the options of each.",
            ]
        )
