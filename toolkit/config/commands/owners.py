"""Components and commands that have an option, for messages about one that is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from toolkit.common.registry import PROJECT, Registry
from toolkit.config.command import Command
from toolkit.config.options import FieldDoc, list_options, read_field_docs, to_flag

CONFIGS = {
    "toolkit-generate translate": "generate:TranslateConfig",
    "toolkit-generate continue": "generate:ContinueConfig",
    "toolkit-generate fill-mask": "generate:FillMaskConfig",
    "toolkit-generate order": "generate:OrderConfig",
    "toolkit-generate score": "generate:ScoreConfig",
    "toolkit-train": "train:TRAIN",
    "toolkit-preprocess": "preprocess:PREPROCESS",
    "toolkit-validate": "evaluate:ValidateConfig",
    "toolkit-validate --task minimal_pairs": "evaluate:MinimalPairsConfig",
    "toolkit-predict": "evaluate:PredictConfig",
    "toolkit-average": "checkpoints:AverageConfig",
    "toolkit-convert import": "checkpoints:ImportConfig",
    "toolkit-convert export": "checkpoints:ExportConfig",
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

    Such files are in the module's package and those in it, or in the package around it.
    """
    own = PROJECT.joinpath(*module.split(".")).with_suffix(".py")
    near, around = sorted(own.parent.rglob("*.py")), sorted(own.parents[1].glob("*.py"))
    files: list[Path] = [own, *near, *around]
    classes = (fields for file in files for fields in read_field_docs(str(file)).values())
    return next((fields[name] for fields in classes if name in fields), None)
