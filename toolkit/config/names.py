"""Names of an option: its full path, a reserved short name, or its last part; those of other tools.

A command line with options of other tools is answered as a whole, and written as ours.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import PROJECT, Counterpart, Registry, counterparts
from toolkit.config.command import Command, format_columns
from toolkit.config.declared import (
    FieldDoc,
    Option,
    OptionType,
    index_by_path,
    list_options,
    read_field_docs,
    to_flag,
)
from toolkit.config.values import CALLBACK, FALSE_WORDS, Flag, Words

PYTHON = "Python"
"""Origin of options that are given as keywords or a mapping."""
# Short names, as in fairseq, or of options that messages recommend. They take precedence over other
# options with the same last part.
RESERVED_NAMES = {
    "arch": "arch.name",
    "task": "task.name",
    "criterion": "criterion.name",
    "optimizer": "optimizer.name",
    "lr_scheduler": "lr_scheduler.name",
    "max_tokens": "data.max_tokens",
    "batch_size": "data.batch_size",
    "num_workers": "data.num_workers",
    "valid_subset": "data.valid_subset",
    "update_freq": "training.update_freq",
    "max_update": "training.max_update",
    "max_epoch": "training.max_epoch",
    "clip_norm": "training.clip_norm",
    "seed": "training.seed",
    "device": "training.device",
    "precision": "training.precision",
    "patience": "training.patience",
    "best_metric": "training.best_metric",
    "validate_interval_updates": "training.validate_interval_updates",
    "fp16": "training.fp16",
    "bf16": "training.bf16",
    "lr": "optimizer.lr",
    "warmup_updates": "lr_scheduler.warmup_updates",
    "tokens_per_sample": "task.tokens_per_sample",
    "save_dir": "checkpoint.save_dir",
    "restore_file": "checkpoint.restore_file",
    "finetune_from": "checkpoint.finetune_from",
    "keep_last_epochs": "checkpoint.keep_last_epochs",
    "save_interval_updates": "checkpoint.save_interval_updates",
    "log_interval": "logging.log_interval",
    "tensorboard_logdir": "logging.tensorboard_logdir",
    "seeds": "sweep.seeds",
    "grid": "sweep.grid",
}

MIN_SIMILARITY = 0.75
"""Less similar names have another meaning, such as --max-length and --max-tokens."""


def override_option(name: str, command: Command) -> Option | None:
    """The option of a checkpoint's run that the command overrides; None for another name."""
    section, _, last = RESERVED_NAMES.get(name, name).rpartition(".")
    if not command.overridden or section != command.overridden or last == "name":
        return None
    return Option(f"{section}.{last}", OptionType(str, is_list=True), None, "")


def find_option(
    name: str, options: Mapping[str, Option], command: Command | None = None, *, origin: str = ""
) -> Option:
    """The option of a flag or key of a command; ambiguous and unknown ones are errors."""
    if name in options:
        return options[name]
    components = command.components if command else {}
    reserved = RESERVED_NAMES.get(name, f"{name}.name" if name in components else "")
    if reserved in options:
        return options[reserved]
    ending = [option for option in options.values() if option.name == name]
    if not ending or reserved.partition(".")[0] in components:
        raise unknown_option_error(name, options, command, origin)
    if len(ending) > 1:
        paths = " or ".join(option.flag for option in ending)
        raise ToolkitError(f"{to_flag(name)} is ambiguous. Write {paths}.")
    return ending[0]


def unknown_option_error(
    name: str, options: Mapping[str, Option], command: Command | None, origin: str
) -> ToolkitError:
    """`origin` is the file that holds the key, which must be a path; empty for a flag."""
    in_python = origin == PYTHON
    given = name if in_python else f"{name} ({origin})" if origin else to_flag(name)
    answer = explain_unknown(name, options, command, origin)
    if answer.startswith(REQUIRES):
        return ToolkitError(f"{given} {answer}")
    more = "" if in_python else " See --help."
    return ToolkitError(f"no option is called {given}.{answer and f' {answer}'}{more}")


REQUIRES = "requires "


def explain_unknown(
    name: str, options: Mapping[str, Option], command: Command | None, origin: str = ""
) -> str:
    """What an unknown option requires, or what to write instead; empty if nothing is like it."""
    components = command.components if command else {}
    last = name.rpartition(".")[2]
    path = name if origin else RESERVED_NAMES.get(name, name)
    if (not origin or "." in name) and (owning := find_owners(path, components)):
        return f"{REQUIRES}{owning}."
    if path.startswith(f"{CALLBACK}."):
        name = path.split(".")[1]
        return f"{REQUIRES}--callbacks {name}, if that callback has such an option."
    if answer := find_counterpart(last, options, components, origin):
        return answer
    short: list[str] = []
    if origin in (PYTHON, ""):
        reserved = [word for word, path in RESERVED_NAMES.items() if path in options]
        short = [option.name for option in options.values()] + reserved
    if nearest := nearest_name(name, options, short):
        return f"Did you mean {nearest if origin else to_flag(nearest)}?"
    return ""


def find_counterpart(
    name: str, options: Mapping[str, Option], components: Mapping[str, Registry], origin: str
) -> str:
    """What to write for an option of Transformers or fairseq; empty if there is no answer."""
    counterpart = counterparts().get(name, Counterpart())
    suggestion, path, owner = match_counterpart(counterpart, options, components)
    ours, _, value = suggestion.partition(" ")
    if owner:
        return f"Write {to_flag(ours)} instead, which requires {owner}."
    if not path:
        others = f"Other commands have it as {to_flag(' or --'.join(counterpart.options))}."
        return counterpart.otherwise or others * bool(counterpart.options)
    flag = " ".join([to_flag(ours), value]).rstrip()
    key = ": ".join([path, value]).removesuffix(": ")
    keyword = "=".join([ours, value]).removesuffix("=")
    answer = keyword if origin == PYTHON else key if origin else flag
    return f"Write {answer} instead. {counterpart.note}".rstrip()


def match_counterpart(
    counterpart: Counterpart, options: Mapping[str, Option], components: Mapping[str, Registry]
) -> tuple[str, str, str]:
    """The first suggestion that is an option, with its path; else one of other components, with
    these. Three empty texts if there is none.
    """
    owned = ("", "", "")
    for suggestion in counterpart.options:
        ours = suggestion.partition(" ")[0]
        path = RESERVED_NAMES.get(ours, ours)
        matches = [o for o in options.values() if o.path == path] or [
            option for option in options.values() if option.name == ours
        ]
        if len(matches) == 1:
            return suggestion, matches[0].path, ""
        if not owned[0] and (owner := find_owners(ours, components)):
            owned = suggestion, "", owner
    return owned


def nearest_name(name: str, options: Mapping[str, Option], short: Sequence[str]) -> str | None:
    """The closest of the `short` names, if the name has no section; else the closest path."""
    paths = {option.name: option.path for option in options.values()}
    find = partial(difflib.get_close_matches, n=1, cutoff=MIN_SIMILARITY)
    nearest = [] if "." in name else find(name, short)
    nearest = nearest or find(name, list(options))
    nearest = nearest or [paths[near] for near in find(name.rpartition(".")[2], paths)]
    return nearest[0] if nearest else None


def find_owners(name: str, components: Mapping[str, Registry]) -> str:
    """The components that have such an option: "--format text"; empty if none has it."""
    section, _, last = name.rpartition(".")
    for kind, registry in components.items():
        known = registry.names() if section in ("", kind) else []
        if owners := [it for it in known if has_option(registry, it, last)]:
            more = " and others" * (len(owners) > 3)
            return f"{to_flag(kind)} {', '.join(owners[:3])}{more}"
    return ""


def has_option(registry: Registry, component: str, name: str) -> bool:
    """Whether a component has the option. Imports it only if its source has such a field."""
    builtin = registry.builtins.get(component)
    if builtin and find_field_doc(builtin.module, name) is None:
        return False
    config = registry[component].config
    return is_dataclass(config) and any(o.name == name for o in list_options("", config))


def find_field_doc(module: str, name: str) -> FieldDoc | None:
    """A config field in the source of a module, or of a file that it may inherit it from.

    Such files are in the module's package and those in it, or in the package around it; those of
    position terms are with the attention.
    """
    own = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    near, around = sorted(own.parent.rglob("*.py")), sorted(own.parents[1].glob("*.py"))
    files: list[Path] = [own, *near, *around, *PROJECT.glob("toolkit/nn/attention/*.py")]
    classes = (fields for file in files for fields in read_field_docs(str(file)).values())
    return next((fields[name] for fields in classes if name in fields), None)


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
        path = RESERVED_NAMES.get(flag.name, flag.name)
        if registry := self.command.components.get(path.removesuffix(".name")):
            return self.answer_component(flag, registry)
        try:
            if not override_option(flag.name, self.command):
                find_option(flag.name, self.options, self.command)
            return None
        except ToolkitError as error:
            if find_owners(path, self.unknown):
                return None
            counterpart = counterparts().get(flag.name, Counterpart())
            words = self.translate(flag, counterpart)
            text = explain_unknown(flag.name, self.options, self.command)
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
        suggestion, path, _ = match_counterpart(counterpart, self.options, components)
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
    """An error about all that a command does not know; `error` itself if it knows all.

    `resolve` reads the words of a command line, or raises an error.
    """
    translator = Translator(command, chosen)
    answers = {n: it for n, flag in enumerate(words.flags) if (it := translator.answer(flag))}
    if len(answers) < 2 or all(it.text.startswith(REQUIRES) for it in answers.values()):
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
