"""The reference of commands: purpose, usage, common options and an example of each."""

from __future__ import annotations

from toolkit.cli.toolkit import COMMANDS
from toolkit.config.command import Command, CommandGroup
from toolkit.config.help import argument, common_option, usage
from tools.docs_site.catalog import EVERY, SINGLE, command_modes, commands, list_entries
from tools.docs_site.option_entries import entry_section, mark_up

COMMANDS_MARK = "<!-- commands -->"
"""Place of this text in docs/reference/commands.md."""


def list_commands() -> str:
    """Markdown of all commands, and of the options that all have."""
    texts = [command_section(word) for word in COMMANDS]
    every = [entry_section(entry) for entry in list_entries() if entry.section == EVERY]
    return "\n\n".join([*texts, "## Options of every command", *every])


def command_section(word: str) -> str:
    """A command, its pages of options, and a subsection for each of its modes."""
    command = commands()[word]
    parts = [f"## toolkit-{word}"]
    parts += describe_group(command) if isinstance(command, CommandGroup) else describe(command)
    parts.append(f"All options: [toolkit-{word}](options/{word}.md).")
    for mode, one in command_modes()[word].items():
        if mode != SINGLE:
            parts += [f"### toolkit-{word} {mode}", *describe(one)]
    return "\n\n".join(parts)


def describe_group(group: CommandGroup) -> list[str]:
    word = f"[{group.metavar}]" if group.infer else group.metavar
    return [mark_up(group.summary), shell(f"{group.name} {word} [options]"), example(group)]


def describe(command: Command) -> list[str]:
    options = {option.path: option for option in command.fixed_options()}
    positional = options.get(command.positional)
    common = [common_option(command, options.get(path), path) for path in command.common]
    rows = [*([argument(positional)] if positional else []), *common]
    table = [f"| `{term.replace('|', chr(92) + '|')}` | {mark_up(text)} |" for term, text in rows]
    return [
        mark_up(command.summary),
        shell(usage(command, positional)),
        "\n".join(["| common options | |", "|---|---|", *table]) if table else "",
        example(command),
    ]


def example(command: Command | CommandGroup) -> str:
    return f"Example:\n\n{shell(command.example)}"


def shell(line: str) -> str:
    return f"```sh\n{line}\n```"
