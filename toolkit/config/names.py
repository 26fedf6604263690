"""What an option may be called: its full path, a reserved short name, or its last part."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.config.options import Option

# Short names that users of fairseq know. They always win, whatever else ends in the same word.
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
    "patience": "training.patience",
    "validate_interval_updates": "training.validate_interval_updates",
    "fp16": "training.fp16",
    "bf16": "training.bf16",
    "lr": "optimizer.lr",
    "warmup_updates": "lr_scheduler.warmup_updates",
    "tokens_per_sample": "task.tokens_per_sample",
    "save_dir": "checkpoint.save_dir",
    "restore_file": "checkpoint.restore_file",
    "keep_last_epochs": "checkpoint.keep_last_epochs",
    "save_interval_updates": "checkpoint.save_interval_updates",
    "log_interval": "logging.log_interval",
    "tensorboard_logdir": "logging.tensorboard_logdir",
    "seeds": "sweep.seeds",
    "grid": "sweep.grid",
}


def find_option(name: str, options: Mapping[str, Option], *, origin: str = "") -> Option:
    """The option that a flag or key means; ambiguous and unknown ones are errors."""
    if name in options:
        return options[name]
    sections = {path.partition(".")[0] for path in options}
    if name in RESERVED_NAMES and RESERVED_NAMES[name].partition(".")[0] in sections:
        if RESERVED_NAMES[name] not in options:
            section = RESERVED_NAMES[name].partition(".")[0]
            raise ToolkitError(
                f"--{to_dashes(name)} must be an option of the chosen {section}, but that has no "
                f"{RESERVED_NAMES[name]}. Leave it out."
            )
        return options[RESERVED_NAMES[name]]
    ending = [option for option in options.values() if option.name == name]
    if len(ending) > 1:
        paths = " or ".join(option.flag for option in ending)
        raise ToolkitError(
            f"--{to_dashes(name)} must name one option, but may be {paths}. Write one."
        )
    if not ending:
        raise unknown_option_error(name, options, origin)
    return ending[0]


def unknown_option_error(name: str, options: Mapping[str, Option], origin: str) -> ToolkitError:
    """`origin` is the file that holds the key, which must be a path; empty for a flag."""
    if origin:
        close = nearest_name(name, options, [])
        hint = f" Did you mean {close}?" if close else ""
        return ToolkitError(f"no option is called {name} ({origin}).{hint} See --help.")
    short = [o.name for o in options.values()]
    short += [word for word, path in RESERVED_NAMES.items() if path in options]
    close = nearest_name(name, options, short)
    hint = f" Did you mean --{to_dashes(close)}?" if close else ""
    return ToolkitError(f"no option is called --{to_dashes(name)}.{hint} See --help.")


def nearest_name(name: str, options: Mapping[str, Option], short: Sequence[str]) -> str | None:
    """The closest short name, where these are allowed and it has no section, or else path."""
    names = {option.name: option.path for option in options.values()}
    last = name.rpartition(".")[2]
    found = [] if "." in name else difflib.get_close_matches(name, short, n=1)
    found = found or difflib.get_close_matches(name, list(options), n=1)
    found = found or [names[near] for near in difflib.get_close_matches(last, names, n=1)]
    return found[0] if found else None


def to_dashes(name: str) -> str:
    return name.replace("_", "-")
