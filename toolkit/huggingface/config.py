"""Configuration of a toolkit model in Hugging Face Transformers, and the files of its export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PretrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.utils import cached_file

from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import load_installed
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import from_dict
from toolkit.data.tokenizers.tokenizer import TOOLKIT_TOKENIZER_FILE
from toolkit.models.interface import Sizes

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
CAUSAL_CLASSES = {"AutoModelForCausalLM": "ToolkitForCausalLM"}
GENERATIVE_CLASSES = {
    "AutoModel": "ToolkitModel",
    "AutoModelForSeq2SeqLM": "ToolkitForConditionalGeneration",
    **CAUSAL_CLASSES,
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
        self.sizes, self.plugins = dict(sizes or {}), [dict(plugin) for plugin in plugins]
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


MAX_NEW_TOKENS = 200


def to_generation_config(config: ToolkitConfig) -> GenerationConfig:
    """How the toolkit generates, greedily: no special token, and no cache."""
    eos = config.target_eos_token_id
    return GenerationConfig(
        decoder_start_token_id=eos if config.is_encoder_decoder else None,
        eos_token_id=eos,
        pad_token_id=config.target_pad_token_id,
        max_new_tokens=MAX_NEW_TOKENS,
        min_new_tokens=1,
        suppress_tokens=config.forbidden_token_ids,
        use_cache=False,
    )


def has_components(arch: object, task: object) -> bool:
    """Whether this process has an architecture and a task of these names."""
    return arch in ARCHITECTURES.names() and task in TASKS.names()


def load_plugins(config: ToolkitConfig, name: str, options: Mapping[str, Any]) -> None:
    """Import the plugins that a folder or repository carries unless the process has them."""
    names = config.arch.get("name"), config.task.get("name")
    if config.plugins and not has_components(*names):
        load_installed()
    if not config.plugins or has_components(*names):
        return
    if options.get("trust_remote_code") is not True or not name:
        missing = ", ".join(repr(plugin["name"]) for plugin in config.plugins)
        raise ToolkitError(
            f"{name} requires the plugin {missing}, whose code is in that folder. "
            f"Read it, and pass trust_remote_code=True to run it."
        )
    get_class_from_dynamic_module(f"{MODULE}.ToolkitModel", name, **of_hub(options))


def read_files(config: ToolkitConfig, name: str, options: Mapping[str, Any]) -> dict[str, bytes]:
    """The tokenizer and the plugins' files, those that the folder or repository has."""
    of_file = {**of_hub(options), "_raise_exceptions_for_missing_entries": False}
    files = [TOOLKIT_TOKENIZER_FILE, *list_plugin_files(config)]
    found = {file: cached_file(name, file, **of_file) for file in files}
    return {file: Path(path).read_bytes() for file, path in found.items() if path}


def of_hub(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options of `from_pretrained` that say where files are."""
    return {key: options[key] for key in HUB_OPTIONS if key in options}


def list_plugin_files(config: ToolkitConfig) -> list[str]:
    """Names of the plugins' Python files, which lie next to config.json."""
    names = [str(name) for plugin in config.plugins for name in plugin["files"]]
    if any(Path(name).name != name or not name.endswith(".py") for name in names):
        raise ToolkitError(
            f"The files of a plugin must be Python files next to config.json, but are "
            f"{', '.join(names)}. Export the model again."
        )
    return names


def write_files(folder: Path, config: ToolkitConfig, files: Mapping[str, bytes]) -> None:
    """Write these files, and the module that `auto_map` names.

    The module imports plugins, so that Transformers copies their files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    text, modules = STUB, [name.removesuffix(".py") for name in list_plugin_files(config)]
    if modules:
        imports = "".join(f"    from .{name} import __name__ as _{name}\n" for name in modules)
        names = {"arch": config.arch["name"], "task": config.task["name"]}
        text += PLUGIN_STUB.format(**names, imports=imports)
    (folder / f"{MODULE}.py").write_text(text, "utf-8")
