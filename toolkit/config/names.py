"""Names of an option: its full path, a reserved short name, or its last part."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path

from toolkit.common import other_tools
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import PROJECT, Registry
from toolkit.config.options import FieldDoc, Option, list_options, read_field_docs, to_flag
from toolkit.config.sections import callbacks

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

OTHER_NAMES = {"relative": "arch.positions"}
"""Last part of an option -> the option with that purpose in other architectures."""


def find_option(
    name: str,
    options: Mapping[str, Option],
    components: Mapping[str, Registry] | None = None,
    *,
    origin: str = "",
) -> Option:
    """The option of a flag or key; ambiguous and unknown ones are errors."""
    if name in options:
        return options[name]
    components = components or {}
    reserved = RESERVED_NAMES.get(name, f"{name}.name" if name in components else "")
    if reserved in options:
        return options[reserved]
    ending = [option for option in options.values() if option.name == name]
    if not ending or reserved.partition(".")[0] in components:
        raise unknown_option_error(name, options, components, origin)
    if len(ending) > 1:
        paths = " or ".join(option.flag for option in ending)
        raise ToolkitError(f"{to_flag(name)} is ambiguous. Write {paths}.")
    return ending[0]


def unknown_option_error(
    name: str, options: Mapping[str, Option], components: Mapping[str, Registry], origin: str
) -> ToolkitError:
    """`origin` is the file that holds the key, which must be a path; empty for a flag."""
    in_python = origin == PYTHON
    given = name if in_python else f"{name} ({origin})" if origin else to_flag(name)
    more = "" if in_python else " See --help."
    path = name if origin else RESERVED_NAMES.get(name, name)
    if (other := OTHER_NAMES.get(name.rpartition(".")[2], "")) in options:
        return ToolkitError(
            f"no option is called {given}. Write {other if origin else to_flag(other)} instead."
        )
    if (not origin or "." in name) and (owners := find_owners(path, components)):
        return ToolkitError(f"{given} requires {owners}.")
    if path.startswith(f"{callbacks.SECTION}."):
        return ToolkitError(
            f"{given} requires --callbacks {path.split('.')[1]}, if that callback has such an "
            f"option."
        )
    if answer := find_counterpart(name.rpartition(".")[2], options, components, origin):
        return ToolkitError(f"no option is called {given}. {answer}{more}")
    short: list[str] = []
    if in_python or not origin:
        reserved = [word for word, path in RESERVED_NAMES.items() if path in options]
        short = [option.name for option in options.values()] + reserved
    nearest = nearest_name(name, options, short)
    hint = f" Did you mean {nearest if origin else to_flag(nearest)}?" if nearest else ""
    return ToolkitError(f"no option is called {given}.{hint}{more}")


def find_counterpart(
    name: str, options: Mapping[str, Option], components: Mapping[str, Registry], origin: str
) -> str:
    """What to write for an option of Transformers or fairseq; empty if there is no answer."""
    counterpart = other_tools.OPTIONS.get(name, other_tools.Counterpart(()))
    owners = ""
    for suggestion in counterpart.options:
        ours, _, value = suggestion.partition(" ")
        path = RESERVED_NAMES.get(ours, ours)
        matches = [o for o in options.values() if o.path == path] or [
            option for option in options.values() if option.name == ours
        ]
        if len(matches) == 1:
            flag = " ".join([to_flag(ours), value]).rstrip()
            key = ": ".join([matches[0].path, value]).removesuffix(": ")
            keyword = "=".join([ours, value]).removesuffix("=")
            answer = keyword if origin == PYTHON else key if origin else flag
            return f"Write {answer} instead. {counterpart.note}".rstrip()
        if owning := find_owners(ours, components):
            owners = owners or f"Write {to_flag(ours)} instead, which requires {owning}."
    return owners or counterpart.otherwise


def nearest_name(name: str, options: Mapping[str, Option], short: Sequence[str]) -> str | None:
    """The closest of the `short` names, if the name has no section; else the closest path."""
    paths = {option.name: option.path for option in options.values()}
    last = name.rpartition(".")[2]
    nearest = [] if "." in name else difflib.get_close_matches(name, short, n=1)
    nearest = nearest or difflib.get_close_matches(name, list(options), n=1)
    nearest = nearest or [paths[near] for near in difflib.get_close_matches(last, paths, n=1)]
    return nearest[0] if nearest else None


def find_owners(name: str, components: Mapping[str, Registry]) -> str:
    """The components that have such an option: "--format text"; empty if none has it."""
    section, _, last = name.rpartition(".")
    for kind, registry in components.items():
        if section in ("", kind):
            owners = [it for it in registry.names() if has_option(registry, it, last)]
            if owners:
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

    Such files are in the module's package, or in the package around it.
    """
    own = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    near, around = (sorted(folder.glob("*.py")) for folder in own.parents[:2])
    files: list[Path] = [own, *near, *around]
    classes = (fields for file in files for fields in read_field_docs(str(file)).values())
    return next((fields[name] for fields in classes if name in fields), None)
