"""Values of options as they are given: words, sections of files, and config.json of checkpoints.

A run that resumes keeps the options of its checkpoint. --finetune-from and others give the default
architecture alone. Values stay text until the type of their option is known: YAML 1.1 turns `no`
into false and 1e-4 into text. OmegaConf converts them, and nothing in them is interpolated.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from toolkit.common.errors import ToolkitError
from toolkit.common.files import is_inside
from toolkit.common.json_files import JsonObject, read_json
from toolkit.common.plugins import PluginRecord
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import (
    CHECKPOINT_LINKS,
    MANIFEST,
    RUN,
    Command,
    FindSavedRun,
    missing_dashes_error,
)
from toolkit.config.declared import Option, Options, OptionType, check_value
from toolkit.config.sections import CheckpointConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

FALSE_WORDS = ("false", "no", "off", "n", "0")


class OptionValue(NamedTuple):
    """A value as the user gave it, and the flag, file or call that it came from."""

    value: Any
    origin: str


OptionValues = dict[str, OptionValue]
"""Full path of an option -> the value that wins so far."""


def get_value(values: OptionValues, path: str, default: Any) -> Any:
    """The value given for a path, or the default."""
    return values[path].value if path in values else default


class Flag(NamedTuple):
    """A flag of a command line, the text after its equals sign, and the words after it."""

    name: str
    origin: str
    text: str | None
    following: list[str]


class Words(NamedTuple):
    """A command line: the words before its first flag, its flags, and the words after `--`."""

    first: list[str]
    flags: list[Flag]
    last: list[str]


def read_words(argv: Sequence[str]) -> Words:
    """`--a.b-c 1` and `--a.b-c=1` are flags of a.b_c; which words are its values, its type says."""
    words = Words([], [], [])
    for index, word in enumerate(argv):
        if word == "--":
            return words._replace(last=list(argv[index + 1 :]))
        if word == "-h" or word.startswith("--"):
            flag, equals, text = ("--help" if word == "-h" else word).partition("=")
            name = flag[2:].replace("-", "_")
            words.flags.append(Flag(name, flag, text if equals else None, []))
        else:
            (words.flags[-1].following if words.flags else words.first).append(word)
    return words


def read_flags(
    words: Words, find: Callable[[str], Option | None]
) -> tuple[OptionValues, list[str]]:
    """The values of the options that `find` knows, and the words that belong to no flag.

    The last of repeated flags counts; but values of a list that is not split at commas, such as
    --config, are appended.
    """
    values: OptionValues = {}
    rest = [*words.first]
    for flag in words.flags:
        option = find(flag.name)
        if option is None:
            continue
        words_after = flag.following
        is_switch = option.type.scalar is bool and not option.type.is_list
        taken = len(words_after) if option.multi_word else 1
        if flag.text is not None:
            texts, taken = [flag.text], 0
        elif is_switch and (not words_after or words_after[0].lower() not in ("true", "false")):
            texts, taken = ["true"], 0
        elif not words_after:
            raise ToolkitError(f"{flag.origin} needs a value: {option.rule}.")
        else:
            texts = words_after[:taken]
        rest += words_after[taken:]
        value: Any = ",".join(texts)
        if option.type.is_list:
            appends = option.separator is None and option.path in values
            before = values[option.path].value if appends else []
            value = [*before, *(item for text in texts for item in split_list(option, text))]
        values[option.path] = OptionValue(value, flag.origin)
    for word in rest:
        if word.startswith("-") and word != "-":
            raise missing_dashes_error(word)
    return values, rest + words.last


def split_list(option: Option, text: str) -> list[str]:
    """The items of a list that was given as one text."""
    if not text:
        return []
    return text.split(option.separator) if option.separator else [text]


@dataclasses.dataclass(frozen=True)
class Overrides:
    """Options of a section of a checkpoint's run, each with its values as text."""

    values: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def build_config(
    default: Any, options: Sequence[Option], values: OptionValues, **components: object
) -> Any:
    """The config class or instance `default` with these values of its options."""
    given = {
        option.name: plain_value(option, values[option.path].value)
        for option in options
        if option.path in values
    }
    for option in options:
        if option.default is dataclasses.MISSING and option.path not in values:
            raise ToolkitError(f"{option.flag} is required.")
    cls = default if isinstance(default, type) else type(default)
    typed = convert_values(cls, given, options, values) if given else {}
    if default is cls:
        return cls(**typed, **components)
    return dataclasses.replace(copy.deepcopy(default), **typed, **components)


def plain_value(option: Option, value: Any) -> Any:
    """The value without what only text can say: no value, and lists with separators."""
    check_plain(option.path, value)
    nones = (None,) if option.type.scalar is str else (None, "none", "null", "")
    if option.type.optional and value in nones:
        return None
    if option.type.is_list and isinstance(value, str):
        return split_list(option, value)
    many = isinstance(value, list | tuple)
    items = list(value) if many else [value]
    for kind in (str, float):  # of their subclasses too, such as those of NumPy
        items = [kind(item) if isinstance(item, kind) else item for item in items]
    return items if many else items[0]


def convert_values(
    cls: type, given: Mapping[str, object], options: Sequence[Option], values: OptionValues
) -> dict[str, Any]:
    """The given fields in the types of a config class; the first that does not fit is an error."""
    from omegaconf import OmegaConf  # slow to import, and --help does not need it
    from omegaconf.errors import OmegaConfBaseException

    try:
        merged: Any = OmegaConf.merge(typed_fields(cls), given)
    except OmegaConfBaseException as error:
        name = str(error.full_key).partition("[")[0]
        option = next(option for option in options if option.name == name)
        if option.type.choices and not isinstance(given[name], bool | None):
            check_value(option.path, option.type, given[name])
        value, origin = values[option.path]
        raise ToolkitError(
            f"{option.path} must be {option.rule}, but is {reprlib.repr(value)} ({origin})."
        ) from None
    typed: Any = OmegaConf.to_container(OmegaConf.masked_copy(merged, list(given)))
    for option in options:
        if option.name in typed:
            check_value(option.path, option.type, typed[option.name])
    return dict(typed)


@cache
def typed_fields(cls: type) -> DictConfig:
    """The fields of a config class with their types, for OmegaConf."""
    from omegaconf import OmegaConf

    Options.__no_type_check__ = False  # it hides the types from OmegaConf too
    try:
        return OmegaConf.structured(cls)
    finally:
        Options.__no_type_check__ = True


def check_plain(path: str, value: object) -> None:
    """Reject what a configuration library might expand: environment variables, references."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, str) and ("${" in item or item == "???"):
            raise ToolkitError(
                f"{path} must be a plain value, but is {item!r}. Write the value itself: "
                "nothing is interpolated."
            )
        if isinstance(item, Mapping | list | tuple):
            raise ToolkitError(
                f"{path} must hold no sections or nested lists, but holds "
                f"{reprlib.repr(item)}. Write a plain value."
            )


def flatten_sections(nested: Mapping[str, object], command: Command, origin: str) -> OptionValues:
    """{arch: {name: taco, layers: 2}} -> arch.name, arch.layers; `arch: taco` is its name alone."""
    sections = {*command.components, *command.fixed_sections()} - {""}
    values: OptionValues = {}
    for section, value in nested.items():
        if isinstance(value, Mapping):
            values |= {f"{section}.{key}": OptionValue(item, origin) for key, item in value.items()}
        elif value is not None or section not in sections:
            path = f"{section}.name" if section in command.components else str(section)
            values[path] = OptionValue(value, origin)
    for path, (item, _) in values.items():
        check_plain(path, item)
    return values


CALLBACK = "callback"
SELECTED_CALLBACKS = Option("training.callbacks", OptionType(str, is_list=True), [], "")


def callback_section(name: str) -> str:
    """Name of the section with the options of a callback."""
    return f"{CALLBACK}.{name}"


def selected_callbacks(values: OptionValues) -> list[str]:
    """The names of the selected callbacks, each once."""
    names = plain_value(SELECTED_CALLBACKS, get_value(values, SELECTED_CALLBACKS.path, []))
    return [str(name) for name in dict.fromkeys(names if isinstance(names, list) else [])]


def keep_callbacks(values: OptionValues, names: Sequence[str]) -> OptionValues:
    """The values without the options of other callbacks than these."""
    kept = tuple(f"{callback_section(name)}." for name in names)
    return {
        path: value
        for path, value in values.items()
        if path.startswith(kept) or not path.startswith(f"{CALLBACK}.")
    }


CONFIG = "config.json"
Size = Annotated[int, Meta(ge=0, le=1 << 31)]
"""Number of rows of a table."""
FINETUNE_OPTION = "checkpoint.finetune_from"
SAVE_DIR, RESTORE_FILE = "checkpoint.save_dir", "checkpoint.restore_file"
LOGDIR = "logging.tensorboard_logdir"
START_OPTIONS = (SAVE_DIR, RESTORE_FILE, FINETUNE_OPTION)
"""Options that name a checkpoint with the defaults of others."""
ALTERNATIVES = (
    ("training.max_update", "training.max_epoch", "training.max_words"),
    ("training.update_freq", "training.micro_batches_per_update"),
    ("training.precision", "training.fp16", "training.bf16"),
    ("lr_scheduler.warmup_updates", "lr_scheduler.warmup_fraction"),
)
"""Options of one choice. If a run resumes with one of them, it does not keep the others' values."""


NAMED = ("arch", "task", "optimizer", "lr_scheduler")
"""Sections that every run has; their `name` is read before the options are known."""


@dataclass(frozen=True, kw_only=True)
class SavedConfig:
    """The contents of config.json."""

    run: dict[str, JsonObject]
    """Section -> options, as `to_dict` gives them."""
    sizes: dict[str, Size]
    plugins: list[PluginRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [self.run.get(section, {}).get("name") for section in NAMED]
        dirs = self.run.get("data", {}).get("dirs", [])
        if not (isinstance(dirs, list) and all(isinstance(it, str) for it in [*names, *dirs])):
            raise ValueError(f"run: expected names of {', '.join(NAMED)} and of data folders")
        if not self.sizes.get("tokens"):
            raise ValueError("sizes.tokens: expected a number above 0")


def read_saved_config(folder: Path) -> SavedConfig:
    """The configuration of a verified checkpoint."""
    return read_json(folder / CONFIG, SavedConfig, "Use another checkpoint.", non_finite=True)


def saved_values(given: OptionValues, find: FindSavedRun) -> OptionValues:
    """The values that the checkpoint's run had, except of components that are another one now.

    Where a run writes to is not taken over from another run, and from the run itself only if it is
    inside its folder, which may come from somebody else.
    """
    folder = str(get_value(given, SAVE_DIR, CheckpointConfig.save_dir))
    saved = find(folder, str(get_value(given, RESTORE_FILE, None) or ""))
    if saved is None:
        return {}
    values = flatten_sections(saved.options, RUN, saved.checkpoint)
    left_out = [SAVE_DIR, RESTORE_FILE]
    if not saved.in_save_dir:
        left_out += ["checkpoint.", "logging."]
    for section in COMPONENTS:
        before, now = (get_value(it, f"{section}.name", None) for it in (values, given))
        if now not in (None, before):
            left_out.append(f"{section}.")
    if not is_inside(Path(str(get_value(values, LOGDIR, None) or "")), Path(folder)):
        left_out.append(LOGDIR)
    return {path: value for path, value in values.items() if not path.startswith(tuple(left_out))}


def default_save_dir(values: OptionValues) -> OptionValues:
    """The folder `runs/ARCH-TASK` of --save-dir, unless it is given or one of both is not."""
    names = [str(values[path].value) for path in ("arch.name", "task.name") if path in values]
    if SAVE_DIR in values or len(names) < 2:
        return {}
    return {SAVE_DIR: OptionValue(f"{CheckpointConfig.save_dir}/{'-'.join(names)}", "default")}


def default_architecture(values: OptionValues) -> OptionValues:
    """The architecture of the checkpoint that --finetune-from names, unless one is named."""
    source = get_value(values, FINETUNE_OPTION, None)
    if "arch.name" in values or not source:
        return {}
    path = Path(str(source))
    folder = locate_checkpoint(path, *CHECKPOINT_LINKS)
    if folder is None:
        raise missing_checkpoint_error(path)
    return {
        f"arch.{name}": OptionValue(value, f"--finetune-from {folder}")
        for name, value in read_saved_config(folder).run["arch"].items()
    }


def locate_checkpoint(path: Path, *links: str, file: str = MANIFEST) -> Path | None:
    """The folder at a path, or the first of these links in it, that has the file of checkpoints."""
    folders = (path, *(path / link for link in links))
    return next((folder for folder in folders if (folder / file).exists()), None)


def missing_checkpoint_error(path: Path) -> ToolkitError:
    """The error for a path without a checkpoint: the next step for what it may be instead."""
    several = " Several are separated by spaces." * ("," in str(path))
    is_name = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(path)) and not path.suffix
    hint = (
        f" If it is a BERT, ELECTRA, ConvBERT, DeBERTa or ModernBERT of the Hugging Face Hub, "
        f"download it first: hf download {path} --local-dir {path.name}. Then run toolkit-convert "
        f"import {path.name} converted, and name converted."
    )
    what = f"No checkpoint is in {path}" if path.is_dir() else f"No such checkpoint: {path}"
    return ToolkitError(f"{what}.{several}{hint if is_name and not path.exists() else ''}")
