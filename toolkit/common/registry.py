"""Registries of components: architectures, tasks, criteria, optimizers, schedules, formats.

Names in other tools are those of other_names.yaml, which is read when a message needs it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from toolkit.common import builtins, plugins
from toolkit.common.builtins import Builtin
from toolkit.common.errors import EVENTS, ToolkitError

F = TypeVar("F", bound=Callable[..., Any])
PROJECT = Path(__file__).resolve().parents[2]


@runtime_checkable
class HasTermOptions(Protocol):
    """A config with the options of components that it selects, as of position terms."""

    def complete(self) -> Any:
        """The config with the options of all loaded components."""

    def narrow(self) -> Any:
        """The config without the options of those that it does not select."""


@dataclass(frozen=True)
class Entry:
    """A registered component: its factory, its default config and its source."""

    name: str
    factory: Any
    """Class or function that builds the component."""
    registered: Any
    """The config that it was registered with."""
    source_location: str
    spec: ModuleSpec | None = None
    """Of its module; a new one whenever that is loaded."""

    @property
    def config(self) -> Any:
        """The default config; of architectures with the options of loaded position terms."""
        registered = self.registered
        return registered.complete() if isinstance(registered, HasTermOptions) else registered


def source_location(thing: Callable[..., object]) -> str:
    """`file:line` of a class or function, for messages and to distinguish plugins."""
    try:
        file = Path(inspect.getsourcefile(thing) or "").resolve()
        return f"{file}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return f"{thing.__module__}.{thing.__qualname__}"


def find_spec(thing: Callable[..., object]) -> ModuleSpec | None:
    """The specification of the module that defines it; None in a notebook."""
    return getattr(sys.modules.get(thing.__module__), "__spec__", None)


def suggest_name(name: str, known: Sequence[str], listed: Sequence[str] = ()) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them.

    `listed` is a shorter list of all names.
    """
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(listed or known)}." if known else "None is known."


def fold_sizes(name: str, sizes: Sequence[str]) -> str:
    """A name with its sizes in brackets, as taco[_small|_tiny]."""
    return f"{name}[{'|'.join(sizes)}]" if sizes else name


class Registry:
    """Names of one kind of component, each with a factory and a default config.

    A built-in's module is imported when its name is first looked up, never before.
    """

    def __init__(
        self, kind: str, builtins: Mapping[str, Builtin], reserved: Sequence[str] = ()
    ) -> None:
        self.kind, self.builtins, self.reserved = kind, builtins, reserved
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, config: object) -> Callable[[F], F]:
        """Decorator that adds a factory, a class or a function, under a name.

        `config` is an instance of the config class: its values are the defaults of the options.
        """

        def add(factory: F) -> F:
            source = source_location(factory)
            if name in self.reserved:
                raise ToolkitError(
                    f"{self.kind} names must differ from {', '.join(self.reserved)}, but {source} "
                    f"registers {name!r}. Rename it."
                )
            other = self._find_other_source(name, factory, source)
            if other is not None:
                raise ToolkitError(
                    f"{self.kind} names must be unique, but {name!r} is registered by {other} "
                    f"and by {source}. Rename one of the two."
                )
            self._entries[name] = Entry(name, factory, config, source, find_spec(factory))
            return factory

        return add

    def _find_other_source(
        self, name: str, factory: Callable[..., object], source: str
    ) -> str | None:
        """Source of another component of this name; None if there is none."""
        if name in self._entries:
            entry = self._entries[name]  # the same, perhaps, of a file that was imported again
            files = {place.rpartition(":")[0] for place in (source, entry.source_location)}
            alike = len(files) == 1 and entry.factory.__qualname__ == factory.__qualname__
            again = entry.spec is None or entry.spec is not find_spec(factory)
            return None if entry.factory is factory or (alike and again) else entry.source_location
        if name in self.builtins and factory.__module__ != self.builtins[name].module:
            return str(PROJECT / Path(*self.builtins[name].module.split("."))) + ".py"
        return None

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries and name in self.builtins:
            importlib.import_module(self.builtins[name].module)
        if name not in self._entries:
            plugins.load_installed()
        if name not in self._entries:
            ours, *options = self.counterpart(name) or ("",)
            more = f" with {' '.join(options)}" if options else ""
            weights = " toolkit-convert reads its pretrained weights." * (ours == "bert")
            hint = f"Its name here is {ours!r}{more}.{weights}"
            if not ours:
                nearest = suggest_name(name, self.names(), self.folded_names())
                hint = f"{nearest} Pass its folder with --user-dir if it is your own."
            raise ToolkitError(f"unknown {self.kind} {name!r}. {hint}")
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        return name in self._entries or name in self.builtins

    def counterpart(self, name: str) -> list[str]:
        """What another tool's name is here, with options that make it the same; empty if none."""
        found = read_other_names()["components"].get(name.lower().replace("-", "_"), [])
        answers = [text.split() for text in ([found] if isinstance(found, str) else found)]
        return next((words for words in answers if words[0] in self), [])

    def names(self) -> list[str]:
        """All names, sorted: built-in ones and those of loaded plugins."""
        return sorted({*self.builtins, *self._entries})

    def families(self) -> dict[str, list[str]]:
        """Each name with its sizes: the endings of longer names that are listed with it."""
        sizes: dict[str, list[str]] = {}
        for name in self.names():
            listed = self.builtins[name].listed if name in self.builtins else ()
            bases = (it for it in listed if it in sizes and name.startswith(f"{it}_"))
            if base := max(bases, key=len, default=""):
                sizes[base].append(name.removeprefix(base))
            else:
                sizes[name] = []
        return sizes

    def folded_names(self) -> list[str]:
        """All names, those of one family as taco[_small|_tiny]."""
        return [fold_sizes(name, sizes) for name, sizes in self.families().items()]

    def find_name(self, factory: Any) -> str:
        """The registered name of a component; the name of its class if it is not registered."""
        names = [entry.name for entry in self._entries.values() if entry.factory is factory]
        return names[0] if names else str(factory.__name__)

    def list_entries(self, module: str) -> list[Entry]:
        """The components that a package or module has registered."""
        return [
            e for e in self._entries.values() if f"{e.factory.__module__}.".startswith(f"{module}.")
        ]

    def summary(self, name: str) -> str:
        """The line that `--list` shows, without importing a built-in."""
        if name in self.builtins:
            return self.builtins[name].summary
        return (inspect.getdoc(self[name].factory) or "").partition("\n")[0]


ARCHITECTURES = Registry("architecture", builtins.ARCHITECTURES)
TASKS = Registry("task", builtins.TASKS)
CRITERIA = Registry("criterion", builtins.CRITERIA)
OPTIMIZERS = Registry("optimizer", builtins.OPTIMIZERS)
LR_SCHEDULERS = Registry("learning-rate scheduler", builtins.LR_SCHEDULERS)
FORMATS = Registry("data format", builtins.FORMATS)
POSITIONS = Registry("position term", builtins.POSITIONS)
"""Terms of arch.positions, whose options are options of the architecture."""
CALLBACKS = Registry("callback", {}, reserved=EVENTS)
"""Callbacks of plugins, which write events of their names. Those of the toolkit are part of every
run."""
PLOTS = Registry(
    "plot",
    {},
    reserved=("curve", "kernels", "attention", "perturbation", "confusion", "minimal-pairs"),
)
"""Plots of plugins; those of the toolkit are commands."""

# Config section of a run -> its registry.
COMPONENTS: dict[str, Registry] = {
    "arch": ARCHITECTURES,
    "task": TASKS,
    "criterion": CRITERIA,
    "optimizer": OPTIMIZERS,
    "lr_scheduler": LR_SCHEDULERS,
}
REGISTRIES: dict[str, Registry] = {**COMPONENTS, "format": FORMATS}

register_arch = ARCHITECTURES.register
"""Decorator `register_arch(name, config)` of `build(config, sizes)`, which returns an
`EncoderModel`."""
register_task = TASKS.register
"""Decorator `register_task(name, config)` of a subclass of `Task`."""
register_criterion = CRITERIA.register
"""Decorator `register_criterion(name, config)` of a subclass of `Criterion`."""
register_optimizer = OPTIMIZERS.register
"""Decorator `register_optimizer(name, config)` of `build(config, named_parameters)`, which returns
a `torch.optim.Optimizer`."""
register_lr_scheduler = LR_SCHEDULERS.register
"""Decorator `register_lr_scheduler(name, config)` of `build(config, total_updates)`, which returns
the factor on the learning rate as a function of the update."""
register_format = FORMATS.register
"""Decorator `register_format(name, config)` of a subclass of `Format`."""
register_callback = CALLBACKS.register
"""Decorator `register_callback(name, config)` of `build(config, context)`, which returns a function
of the `Step` after each update."""
register_position = POSITIONS.register
"""Decorator `register_position(name, options)` of a subclass of `Position`."""
register_plot = PLOTS.register
"""Decorator `register_plot(name, config)` of a function of the config, a kind of toolkit-plot."""


class Counterpart(NamedTuple):
    """Options to write instead of one of another tool; a command suggests the first it has."""

    options: tuple[str, ...] = ()
    """Name of each, with a value if it replaces a switch: "precision tf32"."""
    note: str = ""
    """Sentence after that suggestion."""
    otherwise: str = ""
    """Sentence if the command has none of the options."""
    write: str | Mapping[str, str] | None = None
    """Words in place of the option and its value, `{0}` for the first number in the value and `{}`
    for all of it; or their value -> such words, `*` for every other value. Empty words leave it
    out. Without it, the value is that of the first option."""


@cache
def read_other_names() -> dict[str, dict[str, Any]]:
    """The contents of other_names.yaml: by tool, name -> its entry; components and terms too."""
    import yaml  # slow to import

    names: dict[str, dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("other_names.yaml").read_text("utf-8")
    )
    return names


@cache
def counterparts() -> dict[str, Counterpart]:
    """Option of Transformers, fairseq or an earlier version -> what to write here, for messages."""
    names = read_other_names()
    entries = [it for tool in ("huggingface", "fairseq", "earlier") for it in names[tool].items()]
    return {
        name: Counterpart(
            tuple(it.get("ours", ())), it.get("note", ""), it.get("otherwise", ""), it.get("write")
        )
        for name, it in entries
        if {"ours", "otherwise", "write"} & it.keys()
    }
