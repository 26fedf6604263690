"""Command lines with options of other tools: all of them in one answer, and the command as ours.

The names are those of toolkit/common/other_names.yaml.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import Counterpart, Registry, counterparts
from toolkit.config import names
from toolkit.config.command import Command, format_columns
from toolkit.config.declared import index_by_path, list_options, to_flag
from toolkit.config.values import FALSE_WORDS, Flag, Words

NUMBER = re.compile(r"\d*\.?\d+(?:[eE][-+]?\d+)?")


class Answer(NamedTuple):
    """What to do about a flag or a name of a component that a command does not know."""

    given: str
    text: str
    error: str
    """The error if it is the only one."""
    words: list[str] | None
    """Words that replace the flag and those after it; None if nothing corresponds to it."""


class Translator:
    """Answers for the flags of one command line, as far as its components are known."""

    def __init__(self, command: Command, chosen: Mapping[str, str]) -> None:
        """`chosen` is section -> the name of the component that words and files give."""
        self.command, self.unknown = command, dict[str, Registry]()
        options = [*command.command_line_options(), *command.fixed_options()]
        for section, registry in command.components.items():
            name = chosen.get(section) or command.defaults.get(section, "")
            try:
                entry = registry[next(iter(registry.counterpart(name)), name)]
                options += list_options(section, entry.config)
            except ToolkitError:
                self.unknown[section] = registry
        self.options = index_by_path(options)

    def answer(self, flag: Flag) -> Answer | None:
        """What to do about a flag; None if it is one of the command's, or may be."""
        path = names.RESERVED_NAMES.get(flag.name, flag.name)
        if registry := self.command.components.get(path.removesuffix(".name")):
            return self.answer_component(flag, registry)
        try:
            if not names.override_option(flag.name, self.command):
                names.find_option(flag.name, self.options, self.command)
            return None
        except ToolkitError as error:
            if names.find_owners(path, self.unknown):
                return None
            counterpart = counterparts().get(flag.name, Counterpart())
            words = self.translate(flag, counterpart)
            text = names.explain_unknown(flag.name, self.options, self.command)
            if words:
                note = "" if counterpart.write else counterpart.note
                text = shlex.join(words) + f"   ({note})" * bool(note)
            elif words is not None:
                text = f"Leave it out. {counterpart.otherwise or counterpart.note}"
            given = " ".join(list_words(flag))
            return Answer(given, text or "There is no such option.", str(error), words)

    def answer_component(self, flag: Flag, registry: Registry) -> Answer | None:
        """What to do about the name of a component, which may be that of another tool."""
        values, rest = split_values(flag)
        name = "".join(values)
        try:
            registry[name]
            return None
        except ToolkitError as error:
            found = registry.counterpart(name)
            words = [to_flag(flag.name), *found, *rest] if found else None
            text = shlex.join(words) if words else str(error).partition(". ")[2]
            return Answer(" ".join(list_words(flag)), text, str(error), words)

    def translate(self, flag: Flag, counterpart: Counterpart) -> list[str] | None:
        """The flag and the words after it as ours; None if nothing corresponds to it."""
        components = self.command.components
        suggestion, path, _ = names.match_counterpart(counterpart, self.options, components)
        ours, *fixed = shlex.split(suggestion) or [""]
        values, rest = split_values(flag, is_switch=bool(fixed) or counterpart.write == "")
        if counterpart.write is not None:
            return fill(counterpart.write, " ".join(values), rest)
        lacks_value = path and not (values or fixed or self.options[path].type.scalar is bool)
        if not suggestion or lacks_value:
            return None
        if fixed and values and values[0].lower() in FALSE_WORDS:
            return rest
        if ours in components and values:
            values = components[ours].counterpart(values[0]) or values
        return [to_flag(ours), *(fixed or values), *rest]

    def answer_value(self, flag: Flag) -> Answer | None:
        """What to do about an option whose name another tool has with another meaning."""
        write, (values, rest) = (
            counterparts().get(flag.name, Counterpart()).write,
            split_values(flag),
        )
        words = fill(write, " ".join(values), rest) if write else None
        return Answer(" ".join(list_words(flag)), shlex.join(words), "", words) if words else None


def split_values(flag: Flag, *, is_switch: bool = False) -> tuple[list[str], list[str]]:
    """The value of another tool's flag, and the words after it; a path follows a switch."""
    if flag.text is not None:
        return [flag.text], flag.following
    is_value = not (is_switch and flag.following and Path(flag.following[0]).exists())
    return flag.following[:is_value], flag.following[is_value:]


def fill(write: str | Mapping[str, str], value: str, rest: list[str]) -> list[str] | None:
    """The words of other_names.yaml with the value of the flag; None if they have none for it."""
    template = write if isinstance(write, str) else write.get(value, write.get("*"))
    try:
        text = None if template is None else template.format(*NUMBER.findall(value), value=value)
    except IndexError:  # fewer numbers
        return None
    return None if text is None else [*shlex.split(text), *rest]


def list_words(flag: Flag) -> list[str]:
    """The flag as it was given."""
    equals = "" if flag.text is None else f"={flag.text}"
    return [f"{flag.origin}{equals}", *flag.following]


def explain(
    words: Words,
    command: Command,
    chosen: Mapping[str, str],
    error: ToolkitError,
    resolve: Callable[[Sequence[str]], Any],
) -> ToolkitError:
    """An error about all that a command does not know; `error` itself if it knows all."""
    translator = Translator(command, chosen)
    answers = {n: it for n, flag in enumerate(words.flags) if (it := translator.answer(flag))}
    if len(answers) < 2 or all(it.text.startswith(names.REQUIRES) for it in answers.values()):
        errors = [it.error for it in answers.values()][:1]
        also = [f"Also: {error}"] if str(error) not in errors else []
        return ToolkitError(" ".join(errors + also)) if errors else error
    for number, flag in enumerate(words.flags):
        if number not in answers and (it := translator.answer_value(flag)):
            answers[number] = it
    listed = ToolkitError(f"{len(answers)} options are those of other tools or unknown:")
    rows = format_columns((it.given, it.text) for _, it in sorted(answers.items()))
    listed.details = rows.splitlines()
    if any(it.words for it in answers.values()):
        listed.details += rewrite(words, command, answers, resolve)
    return listed


def rewrite(
    words: Words,
    command: Command,
    answers: Mapping[int, Answer],
    resolve: Callable[[Sequence[str]], Any],
) -> list[str]:
    """The command line as ours, without what has no counterpart, and what it still lacks."""
    line = [*words.first]
    for number, flag in enumerate(words.flags):
        if it := answers.get(number):
            line += split_values(flag, is_switch=True)[1] if it.words is None else it.words
        else:
            line += list_words(flag)
    line += ["--", *words.last] if words.last else []
    lacks = ""
    try:
        resolved = resolve(line)
        resolved.build_configs()
        if command.positional == "data.dirs" and "data.dirs" not in resolved.values:
            lacks = "name the data folder, which toolkit-preprocess writes."
    except ToolkitError as error:
        lacks = str(error)
    complete = all(it.words is not None for it in answers.values())
    title = "Write:" if complete else "What has a counterpart here:"
    more = [f"  Then: {lacks}"] if lacks else []
    return [title, f"  {command.name} {shlex.join(line)}", *more]
