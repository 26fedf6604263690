"""Configuration of a toolkit model in Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PretrainedConfig

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS, Registry
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import from_dict
from toolkit.models.interface import Sizes


class ToolkitConfig(PretrainedConfig):
    """Names and options of an architecture and a task, and the sizes of their tables."""

    model_type = "toolkit"

    def __init__(
        self,
        arch: Mapping[str, object] | None = None,
        task: Mapping[str, object] | None = None,
        sizes: Mapping[str, int] | None = None,
        plugins: Sequence[Mapping[str, Any]] = (),
        padding_char_ids: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        """`arch` and `task` hold a `name` and options, as in the configuration of a run.

        `plugins` has the name, the digest and the Python files of each plugin that they need,
        `padding_char_ids` the characters at padding if the architecture reads those of words.
        """
        self.arch, self.task = dict(arch or {}), dict(task or {})
        self.sizes, self.plugins = dict(sizes or {}), [check_plugin(plugin) for plugin in plugins]
        self.padding_char_ids = list(padding_char_ids)
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """Number of tokens of the vocabulary."""
        return self.sizes.get("tokens", 0)

    def to_run(self) -> RunConfig:
        """A run with this architecture and task; a ToolkitError names what is unknown."""
        return from_dict({"arch": self.arch, "task": self.task})

    def label_sizes(self) -> Sizes:
        """The sizes, with as many classes and tags as there are labels."""
        return Sizes({**self.sizes, "labels": self.num_labels, "tags": self.num_labels})

    @classmethod
    def register_for_auto_class(cls, auto_class: object = "AutoConfig") -> None:
        """Nothing: save_pretrained must not copy this file next to the weights."""


def check_plugin(plugin: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a plugin, which names its files."""
    for key in ("name", "files"):
        if key not in plugin:
            raise ToolkitError(
                f"plugins in config.json must have name and files, but {dict(plugin)} has no "
                f"{key}. Export the model again."
            )
    return dict(plugin)


def has_components(arch: object, task: object) -> bool:
    """Whether this process has an architecture and a task of these names."""
    return is_registered(ARCHITECTURES, arch) and is_registered(TASKS, task)


def is_registered(registry: Registry, name: object) -> bool:
    """Whether a registry has a component of this name."""
    return name in registry.names()
