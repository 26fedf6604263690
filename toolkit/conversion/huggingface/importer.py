"""Import of a folder of Hugging Face Transformers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from torch import Tensor

from toolkit.conversion import mismatches
from toolkit.conversion.huggingface import config_mapping, files
from toolkit.conversion.huggingface.head_import import read_head
from toolkit.conversion.huggingface.model_type import ModelType
from toolkit.conversion.huggingface.modernbert import dropout_note
from toolkit.conversion.huggingface.tokenizer_import import load_tokenizer
from toolkit.conversion.mismatches import Mismatch
from toolkit.conversion.tensor_mapping import expected_shapes
from toolkit.conversion.write_checkpoint import ConvertedModel, build_on_meta, compose_run
from toolkit.models.interface import Sizes

DROPPED_SETTINGS = ("auto_map", "custom_pipelines", "_name_or_path", "quantization_config")
"""Settings that refer to code or other locations; they are not kept."""


def import_folder(folder: Path, *, pairs: bool = False) -> ConvertedModel:
    """The model of a folder, after all settings and tensors have been checked.

    `pairs` tells that a classifier reads pairs of texts.
    """
    source = files.read_model(folder)
    model_type, config = source.model_type, source.config
    mismatches.check_none(
        folder,
        config_mapping.config_mismatches(model_type, config)
        + mismatches.compare_layers(
            f"{files.CONFIG}: num_hidden_layers", config.get("num_hidden_layers"), source.tensors
        ),
    )
    predicts_tokens = model_type.bias in source.tensors
    head = read_head(model_type, config, predicts_tokens=predicts_tokens, pairs=pairs)
    run = compose_run(
        model_type.arch, head.task, config_mapping.arch_options(model_type, config), head.options
    )
    rows = config.get("vocab_size", model_type.defaults["vocab_size"])
    arch = run.arch.config
    mappings = [
        *model_type.mappings(arch, head=head.task == "mlm"),
        *head.mappings,
    ]
    shapes = build_on_meta(run, Sizes(tokens=rows, **head.sizes)).state_dict()
    required = expected_shapes(mappings, shapes)
    model, extra, copies = split_tensors(model_type, source.tensors, required)
    mismatches.check_none(
        folder,
        mismatches.compare_tensors(model, required, source.file)
        + tying_mismatches(model_type, model, copies, source.file),
    )
    tokenizer = head.add_labels(load_tokenizer(folder, rows))
    tensors = {mapping.toolkit_name: mapping.join(model) for mapping in mappings}
    return ConvertedModel(
        run=run,
        sizes=Sizes(tokenizer.sizes),
        tensors={**tensors, **head.buffers},
        tokenizer=tokenizer,
        extra=extra,
        origin={key: value for key, value in config.items() if key not in DROPPED_SETTINGS},
        note="; ".join(filter(None, (head.note, dropout_note(arch)))),
    )


def split_tensors(
    model_type: ModelType, tensors: Mapping[str, Tensor], required: Collection[str]
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Tensors of the learner (external names), extra ones (toolkit names) and tied copies."""
    model: dict[str, Tensor] = {}
    extra: dict[str, Tensor] = {}
    copies: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        toolkit_name = model_type.toolkit_name(name)
        if name in model_type.tied:
            copies[name] = tensor
        elif toolkit_name is not None and name not in required:
            extra[toolkit_name] = tensor
        else:
            model[name] = tensor
    return model, extra, copies


def tying_mismatches(
    model_type: ModelType, model: Mapping[str, Tensor], copies: Mapping[str, Tensor], file: str
) -> list[Mismatch]:
    """Copies of tied tensors that differ from the original."""
    untied = []
    for name, tensor in copies.items():
        original = model_type.tied[name]
        if original not in model or not mismatches.is_equal(tensor, model[original]):
            untied.append(Mismatch("untied tensor", f"{file}: {name}", "others", f"as {original}"))
    return untied
