"""Import of a folder with the toolkit's own classes, as toolkit_export or save_pretrained wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from toolkit.common import plugins
from toolkit.common.input_files import read_bytes
from toolkit.common.json_files import JsonObject, convert, name_file
from toolkit.common.plugins import PluginRecord
from toolkit.common.registry import TASKS
from toolkit.config.checkpoint_defaults import Size
from toolkit.config.run import RunConfig
from toolkit.config.serialize import from_dict
from toolkit.conversion import mismatches
from toolkit.conversion.huggingface import files
from toolkit.conversion.huggingface.tokenizer_import import load_tokenizer
from toolkit.conversion.write_checkpoint import ConvertedModel, build_on_meta
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer
from toolkit.data.formats.label_settings import read_labels, read_tables
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.tokenizers.single_file import TOOLKIT_TOKENIZER_FILE, unpack_tokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.glue.task import Glue
from toolkit.tasks.tagging.task import PosTagging

MODEL_TYPE = "toolkit"
MAX_TOKENIZER_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class ToolkitSettings:
    """What config.json of a toolkit model says, besides labels."""

    arch: JsonObject
    task: JsonObject
    sizes: dict[str, Size]
    plugins: list[PluginRecord] = field(default_factory=list)


def import_folder(folder: Path, config: JsonObject, *, pairs: bool = False) -> ConvertedModel:
    """The model, after its names, options and tensors have been checked; no code is executed.

    `pairs` tells that a classifier that Transformers made reads pairs of texts.
    """
    found, file = files.read_all_tensors(folder)
    run = read_run(folder, config, found)
    tensors = rename_tensors(found, run.task.name)
    tokenizer = add_labels(read_tokenizer(folder, config), run.task.name, config, pairs=pairs)
    sizes = Sizes({**config["sizes"], **tokenizer.sizes, "tokens": config["sizes"]["tokens"]})
    required = {n: tuple(t.shape) for n, t in build_on_meta(run, sizes).state_dict().items()}
    mismatches.check_none(folder, mismatches.compare_tensors(tensors, required, file))
    return ConvertedModel(run=run, sizes=sizes, tensors=tensors, tokenizer=tokenizer)


def read_run(folder: Path, config: JsonObject, tensors: Mapping[str, Tensor]) -> RunConfig:
    """A run with the architecture, and the task or, without its heads, encode."""
    with name_file(folder / files.CONFIG, files.REMEDY):
        saved = convert(config, ToolkitSettings)
    plugins.check_loaded(saved.plugins, str(folder))
    has_heads = any(name.startswith("task.") for name in tensors)
    generative = "target_eos_token_id" in config
    return from_dict(
        {"arch": saved.arch, "task": saved.task if has_heads or generative else {"name": "encode"}}
    )


def rename_tensors(tensors: Mapping[str, Tensor], task: str) -> dict[str, Tensor]:
    """Tensors under the names of a learner; those of other tasks keep theirs."""
    prefix = f"task.{task}."
    return {
        f"task.{name.removeprefix(prefix)}" if name.startswith(prefix) else name: tensor
        for name, tensor in tensors.items()
    }


def add_labels(tokenizer: Tokenizer, task: str, config: JsonObject, *, pairs: bool) -> Tokenizer:
    """The tokenizer with the labels of a classifier or tagger, unless it has the same ones."""
    factory, plain = TASKS[task].factory, unwrap_tokenizer(tokenizer)
    if issubclass(factory, Glue):
        labels = read_labels(config, {}, pairs=pairs)
        same = isinstance(tokenizer, ClassificationTokenizer) and (
            tokenizer.labels.fingerprint == labels.fingerprint
        )
        return tokenizer if same else ClassificationTokenizer(plain, labels)
    if issubclass(factory, PosTagging):
        tables = read_tables(config, {})
        if not isinstance(tokenizer, TaggingTokenizer):
            return TaggingTokenizer(plain, tables)
        return TaggingTokenizer(plain, replace(tokenizer.tables, tags=tables.tags))
    return tokenizer


def read_tokenizer(folder: Path, config: JsonObject) -> Tokenizer:
    """The toolkit's tokenizer if the folder carries it, else that of Transformers."""
    path = folder / TOOLKIT_TOKENIZER_FILE
    if not path.exists():
        return load_tokenizer(folder, config["sizes"]["tokens"])
    return unpack_tokenizer(read_bytes(path, MAX_TOKENIZER_BYTES))
