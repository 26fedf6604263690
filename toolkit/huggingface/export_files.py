"""Files of an exported folder besides its configuration and weights: code and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils import cached_file

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import TOOLKIT_TOKENIZER_FILE
from toolkit.huggingface.config import ToolkitConfig, has_components

MODULE = "modeling_toolkit"
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
ENCODER_CLASSES = {
    "AutoModel": "ToolkitModel",
    "AutoModelForPreTraining": "ToolkitForPreTraining",
    "AutoModelForMaskedLM": "ToolkitForMaskedLM",
    "AutoModelForSequenceClassification": "ToolkitForSequenceClassification",
    "AutoModelForTokenClassification": "ToolkitForTokenClassification",
    "AutoModelForQuestionAnswering": "ToolkitForQuestionAnswering",
    "AutoModelForMultipleChoice": "ToolkitForMultipleChoice",
}
GENERATIVE_CLASSES = {
    "AutoModel": "ToolkitModel",
    "AutoModelForSeq2SeqLM": "ToolkitForConditionalGeneration",
    "AutoModelForCausalLM": "ToolkitForCausalLM",
}
STUB = '''"""Opens this model in Transformers with the toolkit's classes."""

try:
    from toolkit.huggingface import *
except ImportError:
    raise ImportError(
        "This model requires the toolkit. Install it with: pip install 'toolkit-seq[hf]'"
    ) from None
'''
PLUGIN_STUB = """
if not has_components({arch!r}, {task!r}):
{imports}"""


class ExportSource(NamedTuple):
    """A folder or a repository of the Hub that a model is loaded from."""

    name: str | None
    config: ToolkitConfig
    options: Mapping[str, Any]

    def load_plugins(self, *, trusted: bool) -> None:
        """Import the plugins that the folder carries unless the process has them."""
        names = self.config.arch.get("name"), self.config.task.get("name")
        if not self.config.plugins or has_components(*names):
            return
        plugins.load_installed()
        if has_components(*names):
            return
        if not trusted or self.name is None:
            missing = ", ".join(repr(plugin["name"]) for plugin in self.config.plugins)
            raise ToolkitError(
                f"{self.name} requires the plugin {missing}, whose code is in that folder. "
                f"Read it, and pass trust_remote_code=True to run it."
            )
        get_class_from_dynamic_module(f"{MODULE}.ToolkitModel", self.name, **self.options)

    def read(self) -> dict[str, bytes]:
        """The tokenizer and the plugins' files, those that are there."""
        if self.name is None:
            return {}
        names = [TOOLKIT_TOKENIZER_FILE, *list_plugin_files(self.config)]
        found = {
            name: cached_file(
                self.name, name, _raise_exceptions_for_missing_entries=False, **self.options
            )
            for name in names
        }
        return {name: Path(path).read_bytes() for name, path in found.items() if path}


def find(name: Any, options: Mapping[str, Any]) -> ExportSource:
    """The source that `from_pretrained` of a name and these options reads."""
    hub_options = {key: options[key] for key in HUB_OPTIONS if key in options}
    config = options.get("config")
    if not isinstance(config, ToolkitConfig):
        config = ToolkitConfig.from_dict(ToolkitConfig.get_config_dict(name, **hub_options)[0])
    return ExportSource(None if name is None else str(name), config, hub_options)


def list_plugin_files(config: ToolkitConfig) -> list[str]:
    """Names of the plugins' Python files, which lie next to config.json."""
    names = [str(name) for plugin in config.plugins for name in plugin["files"]]
    if any(Path(name).name != name or not name.endswith(".py") for name in names):
        raise ToolkitError(
            f"The files of a plugin must be Python files next to config.json, but are "
            f"{', '.join(names)}. Export the model again."
        )
    return names


def write(folder: Path, config: ToolkitConfig, files: Mapping[str, bytes]) -> None:
    """Write these files, and the module that `auto_map` names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / f"{MODULE}.py").write_text(build_stub(config), "utf-8")


def build_stub(config: ToolkitConfig) -> str:
    """The module that `auto_map` names; it imports plugins, so Transformers copies their files."""
    modules = [name.removesuffix(".py") for name in list_plugin_files(config)]
    if not modules:
        return STUB
    imports = "".join(f"    from .{name} import __name__ as _{name}\n" for name in modules)
    names = {"arch": config.arch["name"], "task": config.task["name"]}
    return STUB + PLUGIN_STUB.format(**names, imports=imports)


def build_auto_map(*, generative: bool) -> dict[str, str]:
    """Auto class -> class of the exported module, for config.json."""
    classes = GENERATIVE_CLASSES if generative else ENCODER_CLASSES
    classes = {"AutoConfig": "ToolkitConfig", **classes}
    return {auto: f"{MODULE}.{name}" for auto, name in classes.items()}
