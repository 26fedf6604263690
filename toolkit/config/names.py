"""Names of an option: its full path, a reserved short name, or its last part."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, PROJECT, Counterpart, Registry, counterparts
from toolkit.config.command import Command
from toolkit.config.declared import (
    FieldDoc,
    Option,
    OptionType,
    list_options,
    read_field_docs,
    to_flag,
)
from toolkit.config.values import CALLBACK

PYTHON = "Python"
"""Origin of options that are given as keywords or a mapping."""
SHORT = {
    "data": ("max_tokens", "batch_size", "num_workers", "valid_subset"),
    "training": (
        *("update_freq", "max_update", "max_epoch", "clip_norm", "seed", "device", "precision"),
        *("patience", "best_metric", "validate_interval_updates", "fp16", "bf16"),
    ),
    "optimizer": ("lr",),
    "lr_scheduler": ("warmup_updates",),
    "task": ("tokens_per_sample",),
    "checkpoint": (
        *("save_dir", "restore_file", "finetune_from", "keep_last_epochs"),
        "save_interval_updates",
    ),
    "logging": ("log_interval", "tensorboard_logdir"),
    "sweep": ("seeds", "grid"),
}
RESERVED_NAMES = {
    **{section: f"{section}.name" for section in COMPONENTS},
    **{name: f"{section}.{name}" for section, names in SHORT.items() for name in names},
}
"""Short names, as in fairseq, or of options that messages recommend. They take precedence over
other options with the same last part."""

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
    python, file = (ours, "="), (path, ": ")
    name, sign = python if origin == PYTHON else file if origin else (to_flag(ours), " ")
    answer = f"{name}{sign}{value}" if value else name
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
