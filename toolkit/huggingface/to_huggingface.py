"""A learner as a model of Transformers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import describe_run_plugins, to_dict
from toolkit.data.formats.tagging.tokenizer import PAD, TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import TOOLKIT_TOKENIZER_FILE, pack_tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES
from toolkit.generation.hypothesis import SpecialTokens
from toolkit.huggingface.config import ToolkitConfig
from toolkit.huggingface.generation import ToolkitForCausalLM, ToolkitForConditionalGeneration
from toolkit.huggingface.heads import (
    ToolkitForMaskedLM,
    ToolkitForMultipleChoice,
    ToolkitForPreTraining,
    ToolkitForQuestionAnswering,
    ToolkitForSequenceClassification,
    ToolkitForTokenClassification,
)
from toolkit.huggingface.model import ToolkitModel, ToolkitPreTrainedModel, is_derived_task
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Sizes
from toolkit.tasks.learner import Learner

HEAD_CLASSES: tuple[type[ToolkitPreTrainedModel], ...] = (
    ToolkitForPreTraining,
    ToolkitForMaskedLM,
    ToolkitForSequenceClassification,
    ToolkitForTokenClassification,
    ToolkitForQuestionAnswering,
    ToolkitForMultipleChoice,
    ToolkitForConditionalGeneration,
    ToolkitForCausalLM,
)
"""Classes with heads; the first one for a task is that of its checkpoints."""


def to_huggingface(learner: Learner, *, component: str | None = None) -> ToolkitPreTrainedModel:
    """A learner with its tokenizer as a model of Transformers; the weights are copied.

    A task for which Transformers has no kind of head gives the encoder alone. Of a pair trained
    with rtd, `component` chooses the discriminator, the default, or the generator.
    """
    origin = learner.require_origin()
    run = origin.to_run()
    config = build_config(run, origin.sizes, learner)
    model = choose_class(run.task.name, learner, component)(config)
    tensors = {hf_name(name, run.task.name): t for name, t in learner.state_dict().items()}
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    model.export_files = {
        TOOLKIT_TOKENIZER_FILE: pack_tokenizer(learner.tokenizer),
        **read_plugin_files(config),
    }
    return model.train(learner.training)


def hf_name(name: str, task: str) -> str:
    """The name of a learner's tensor in a ToolkitPreTrainedModel."""
    return name.replace("task.", f"task.{task}.", 1) if name.startswith("task.") else name


def choose_class(
    task: str, learner: Learner, component: str | None
) -> type[ToolkitPreTrainedModel]:
    """The class with the heads of a task; ToolkitModel if none has them."""
    if component == "generator":
        return ToolkitForMaskedLM
    for model_class in HEAD_CLASSES:
        predicts = model_class is not ToolkitForMaskedLM or "mlm" in learner.task.coefficients
        if predicts and is_derived_task(task, model_class.tasks):
            return model_class
    return ToolkitModel


def build_config(run: RunConfig, sizes: Sizes, learner: Learner) -> ToolkitConfig:
    """The configuration of a learner for Transformers."""
    sections, encoder = to_dict(run), learner.encoder
    tokenizer = learner.tokenizer
    roles = tokenizer.vocabulary.roles
    settings: JsonObject = {f"{role}_token_id": roles[role] for role in ROLES}
    if isinstance(tokenizer, TaggingTokenizer) and tokenizer.has_words:
        settings["padding_char_ids"] = tokenizer.char_ids([PAD])[0].tolist()
    if isinstance(encoder, GenerativeModel):
        vocabulary = tokenizer.target.vocabulary
        special = SpecialTokens.from_vocabulary(vocabulary)
        settings |= {
            "is_encoder_decoder": not encoder.decoder_only,
            "target_eos_token_id": special.eos,
            "target_pad_token_id": vocabulary.pad,
            "forbidden_token_ids": list(special.forbidden),
        }
    return ToolkitConfig(
        arch=sections["arch"],
        task=sections["task"],
        sizes=sizes,
        plugins=describe_plugins(run),
        hidden_size=encoder.width,
        max_position_embeddings=encoder.max_positions,
        **settings,
        **tokenizer.label_settings(),
    )


def describe_plugins(run: RunConfig) -> list[dict[str, Any]]:
    """Name, digest and Python files of the plugins of a run's architecture and task."""
    needed = [plugin["name"] for plugin in describe_run_plugins(run)]
    return [
        {
            "name": plugin.name,
            "sha256": plugin.sha256,
            "files": [f.name for f in list_files(plugin)],
        }
        for plugin in plugins.list_loaded()
        if plugin.name in needed
    ]


def read_plugin_files(config: ToolkitConfig) -> dict[str, bytes]:
    """Name -> content of the Python files of the plugins that a model uses."""
    names = [plugin["name"] for plugin in config.plugins]
    used = [plugin for plugin in plugins.list_loaded() if plugin.name in names]
    return {file.name: file.read_bytes() for plugin in used for file in list_files(plugin)}


def list_files(plugin: plugins.Plugin) -> list[Path]:
    """The files of a plugin's folder; none of an installed one."""
    if not plugin.module.startswith(f"{plugins.PACKAGE}."):
        return []
    folder = Path(next(iter(sys.modules[plugin.module].__path__)))
    files = [file for file in plugins.list_direct_files(folder) if file.name != "__init__.py"]
    if plugins.list_subpackages(folder) or (folder / "__init__.py").exists():
        raise ToolkitError(
            f"An export carries a plugin's Python files, which must be next to each other, but "
            f"plugin {plugin.name!r} is or has a package. Move its code out of packages and "
            f"__init__.py, or install it with an entry point of {plugins.GROUP}."
        )
    return files
