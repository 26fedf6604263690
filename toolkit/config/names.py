"""Names of an option: its full path, a reserved short name, or its last part."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import PROJECT, Counterpart, Registry, counterparts
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
    name: str,
    options: Mapping[str, Option],
    command: Command | None = None,
    *,
    origin: str = "",
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
    title = command.name if command and not origin else ""
    last = name.rpartition(".")[2]
    path = name if origin else RESERVED_NAMES.get(name, name)
    if (not origin or "." in name) and (owning := find_owners(path, components)):
        return f"{REQUIRES}{owning}."
    if path.startswith(f"{CALLBACK}."):
        name = path.split(".")[1]
        return f"{REQUIRES}--callbacks {name}, if that callback has such an option."
    answer = find_counterpart(last, options, components, origin)
    if answer := answer or find_counterpart_elsewhere(last, title):
        return answer
    short: list[str] = []
    if origin in (PYTHON, ""):
        reserved = [word for word, path in RESERVED_NAMES.items() if path in options]
        short = [option.name for option in options.values()] + reserved
    if nearest := nearest_name(name, options, short):
        return f"Did you mean {nearest if origin else to_flag(nearest)}?"
    if commands := find_commands(last, title):
        return f"It is an option of {commands}, not of {title}."
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
        return counterpart.otherwise
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


def find_counterpart_elsewhere(name: str, command: str) -> str:
    """The name of another tool's option in other commands, those of the same program first."""
    counterpart = counterparts().get(name, Counterpart())
    names = {it: it.partition(" ")[0].rpartition(".")[2] for it in counterpart.options}
    found = [(it, find_commands(ours, command)) for it, ours in names.items()]
    found.sort(key=lambda it: not it[1].startswith(command.partition(" ")[0]))
    for suggestion, commands in found:
        if commands:
            return f"It is {to_flag(suggestion)} of {commands}. {command} has no such option."
    return ""


def nearest_name(name: str, options: Mapping[str, Option], short: Sequence[str]) -> str | None:
    """The closest of the `short` names, if the name has no section; else the closest path."""
    paths = {option.name: option.path for option in options.values()}
    find = partial(difflib.get_close_matches, n=1, cutoff=MIN_SIMILARITY)
    nearest = [] if "." in name else find(name, short)
    nearest = nearest or find(name, list(options))
    nearest = nearest or [paths[near] for near in find(name.rpartition(".")[2], paths)]
    return nearest[0] if nearest else None


CONFIGS = {
    "toolkit-generate translate": "generate:TranslateConfig",
    "toolkit-generate continue": "generate:ContinueConfig",
    "toolkit-generate fill-mask": "generate:FillMaskConfig",
    "toolkit-generate order": "generate:OrderConfig",
    "toolkit-generate surprisal": "generate:SurprisalConfig",
    "toolkit-generate score": "generate:ScoreConfig",
    "toolkit-train": "train:TRAIN",
    "toolkit-preprocess": "preprocess:PREPROCESS",
    "toolkit-validate": "checkpoints:ValidateConfig",
    "toolkit-validate --task completions": "checkpoints:CompletionsConfig",
    "toolkit-validate --task reading_times": "reading_times:ReadingTimesConfig",
    "toolkit-validate --task age_of_acquisition": "reading_times:AcquisitionConfig",
    "toolkit-predict": "checkpoints:PredictConfig",
    "toolkit-average": "checkpoints:AverageConfig",
    "toolkit-convert import": "checkpoints:ImportConfig",
    "toolkit-convert export": "checkpoints:ExportConfig",
    "toolkit-convert babylm": "checkpoints:BabylmConfig",
    "toolkit-convert onnx": "checkpoints:OnnxConfig",
    "toolkit-inspect": "checkpoints:InspectConfig",
    "toolkit-plot curve": "plot:CurveConfig",
    "toolkit-plot kernels": "plot:KernelsConfig",
    "toolkit-plot attention": "plot:AttentionConfig",
    "toolkit-plot perturbation": "plot:PerturbationConfig",
    "toolkit-plot confusion": "plot:ConfusionConfig",
    "toolkit-plot minimal-pairs": "plot:PairPlotConfig",
}
"""Command -> itself or its config class, in toolkit.config.commands, which are imported late."""


def find_commands(name: str, command: str) -> str:
    """Other commands with such an option, those of the same program if there are any.

    Empty if there are none, or if the name of the command is empty.
    """
    if not command:
        return ""
    found = [title for title in CONFIGS if title != command and command_has(title, name)]
    program = command.split()[0]
    found = [title for title in found if title.split()[0] == program] or found
    if not found:
        return ""
    program = found[0].split()[0]
    first, *others = [found[0], *(it.removeprefix(f"{program} ") for it in found[1:])]
    if len(others) > 2:
        return f"{first} and others"
    return f"{', '.join([first, *others[:-1]])} and {others[-1]}" if others else first


@cache
def command_has(title: str, name: str) -> bool:
    """Whether a command, or one of its components, has the option."""
    module, _, attribute = CONFIGS[title].partition(":")
    owner = getattr(import_module(f"toolkit.config.commands.{module}"), attribute)
    if not isinstance(owner, Command):
        return any(option.name == name for option in list_options("", owner))
    fixed = any(option.name == name for option in owner.fixed_options())
    return fixed or name in owner.components or bool(find_owners(name, owner.components))


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
