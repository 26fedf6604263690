"""Folders of Transformers' own classes: import, and export of a checkpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from toolkit.checkpoints.load import EXTRA_FILE, find_checkpoint, read_config, weights_file
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_dir
from toolkit.common.json_files import JsonObject, read_json, write_json
from toolkit.common.registry import TASKS
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig, RunConfig
from toolkit.conversion import architectures, files, heads, tensors
from toolkit.conversion.files import (
    MODEL_CARD_FILE,
    ConvertedModel,
    build_model_card,
    build_on_meta,
)
from toolkit.conversion.model_types import (
    BERT,
    CONVBERT,
    DEBERTA,
    DIFFERENCES,
    ELECTRA,
    ENCODER,
    GPT_BERT,
    HEAD,
    LTG_BERT,
    MODEL_TYPES,
    MODERNBERT,
    NEW_DEBERTA_HEAD,
    ModelType,
    choose_head,
    replace_prefix,
)
from toolkit.conversion.tokenizer_files import write_tokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer, unwrap_tokenizer
from toolkit.data.tokenizers.tokenizer_json import load_tokenizer, read_settings
from toolkit.models.bert import DebertaConfig, ModernBertConfig
from toolkit.models.convbert import ConvBertConfig
from toolkit.models.encoder import EncoderConfig
from toolkit.models.interface import ArchConfig, Sizes
from toolkit.models.ltg_bert import GptBertConfig, LtgBertConfig
from toolkit.tasks.build import load_checkpoint

BUFFERS = re.compile(r"(.*\.)?embeddings\.(position_ids|token_type_ids)")
"""Buffers of old files, which are not weights."""
DROPPED_SETTINGS = ("auto_map", "custom_pipelines", "_name_or_path", "quantization_config")
"""Settings that refer to code or other locations; they are not kept."""
GENERATOR = "task.generator."
PADDING_NOTE = (
    "Transformers lets convolutions see padding, this model does not: predictions near the end of "
    "padded sentences differ (421 of 14,294 tags of a small tagger in batches of 32). Predict one "
    "sentence at a time, or export with --classes toolkit"
)
"""A difference in spite of equal weights, measured on the dev set of UD English EWT."""
NOT_NATIVE = (
    "The architecture must be bert, convbert, deberta or modernbert as in Transformers, or "
    "ltg_bert or gpt_bert as published, but this one {}. Nothing was written. Pass --classes "
    "toolkit."
)
SHARED = tuple(f"{ENCODER}.embeddings.{part}." for part in ("words", "types", "positions", "norm"))


def read_model(folder: Path) -> tuple[ModelType, JsonObject, dict[str, Tensor], str]:
    """Model type, config and tensors (see `current_names`) of a folder, and the tensors' file."""
    config = files.read_model_config(folder)
    name = config.get("model_type")
    if name is None and any(str(key).startswith("num_hidden") for key in config):
        name = "bert"  # folders released by Google do not name it
    if "position_bucket_size" in config:  # its classes are code beside the model, of various names
        gated = "gpt" in f"{name} {config.get('architectures')}".lower()
        name = (GPT_BERT if gated else LTG_BERT).model_type
    if not isinstance(name, str) or name not in MODEL_TYPES:
        raise ToolkitError(
            f"the model_type in {folder / files.CONFIG} must be one of {', '.join(MODEL_TYPES)}, "
            f"but is {name!r}. {DIFFERENCES.get(str(name), 'Other models are not supported.')}"
        )
    model_type = MODEL_TYPES[name]
    saved, file = files.read_all_tensors(folder)
    if model_type is DEBERTA:  # published models do not name the head that they have
        for head, legacy in ((DEBERTA.head, True), (NEW_DEBERTA_HEAD, False)):
            if any(head["task.head"] in name for name in saved):
                config = {**config, "legacy": legacy}
        model_type = choose_head(model_type, config)
    return model_type, config, current_names(model_type, saved), file


def current_names(model_type: ModelType, saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by their current names, without the model's prefix and without buffers."""
    found: dict[str, Tensor] = {}
    for name, tensor in saved.items():
        plain = name.removeprefix(model_type.prefix)
        plain = plain.replace("LayerNorm.gamma", "LayerNorm.weight")  # of old files
        plain = plain.replace("LayerNorm.beta", "LayerNorm.bias")
        if not BUFFERS.fullmatch(plain):
            found[f"{plain}, twice" if plain in found else plain] = tensor
    if model_type.code:
        found = tensors.unpack(found)
    for copy, name in model_type.tied.items():  # some files have the copy alone
        if copy in found and name not in found:
            found[name] = found[copy]
    return found


def import_native(folder: Path, *, pairs: bool = False) -> ConvertedModel:
    """The model of a folder, after all settings and tensors have been checked."""
    model_type, config, found, file = read_model(folder)
    problems = architectures.config_mismatches(model_type, config, found)
    named = [it._replace(where=f"{files.CONFIG}: {it.where}") for it in problems]
    tensors.check_none(folder, named)
    predicts_tokens = f"{model_type.head[HEAD]}.bias" in found
    head = heads.read_head(model_type, config, predicts_tokens=predicts_tokens)
    if head.task in heads.CUTTING_TASKS and "tokens_per_sample" not in head.options:
        known = read_settings(folder).get("model_max_length"), config.get("max_position_embeddings")
        longest = min((it for it in known if isinstance(it, int)), default=0)
        head = replace(head, options={**head.options, "tokens_per_sample": longest})
    rows = config.get("vocab_size", model_type.defaults["vocab_size"])
    tokenizer = heads.with_labels(load_tokenizer(folder, rows), head.task, config, pairs=pairs)
    return assemble(folder, file, model_type, config, found, tokenizer, head)


def assemble(
    source: Path,
    file: str,
    model_type: ModelType,
    config: JsonObject,
    found: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    head: heads.ImportedHead,
) -> ConvertedModel:
    """The model with these settings and tensors, after all tensors have been checked."""
    options = architectures.arch_options(model_type, config)
    named = {f"arch.{name}": value for name, value in options.items()}
    named |= {f"task.{name}": value for name, value in head.options.items()}
    run = compose({"arch": model_type.arch, "task": head.task, **named})
    on_meta = build_on_meta(run, Sizes(tokenizer.sizes)).state_dict()
    of_tokens = head.task in model_type.token_tasks
    mappings = model_type.mappings(on_meta, model_type.head if of_tokens else head.names)
    required = tensors.expected_shapes(mappings, on_meta)
    copies = {name: tensor for name, tensor in found.items() if name in model_type.tied}
    rest = [name for name in found if name not in required and name not in copies]
    renamed = {name: replace_prefix(name, model_type.extra) for name in rest}
    extra = {new: found[name] for name, new in renamed.items() if new is not None}
    model = {n: it for n, it in found.items() if n not in copies and renamed.get(n) is None}
    tensors.check_none(
        source,
        tensors.compare_tensors(model, required, file)
        + tensors.compare_tied(copies, model_type.tied, model, file),
    )
    return ConvertedModel(
        run=run,
        sizes=Sizes(tokenizer.sizes),
        tensors={**{it.toolkit_name: it.join(model) for it in mappings}, **head.buffers},
        tokenizer=tokenizer,
        extra=extra,
        origin={key: value for key, value in config.items() if key not in DROPPED_SETTINGS},
        note="; ".join(filter(None, (head.note, dropout_note(run.arch.config)))),
    )


def export_native(
    source: Path, target: Path, *, weights: str = "auto", component: str | None = None
) -> JsonObject:
    """Write the folder of a checkpoint's model, complete or not at all; gives facts about it."""
    folder = find_checkpoint(source)
    run, sizes = read_config(folder)
    arch = select_arch(run, component)
    if differences := architectures.native_differences(run.arch.name, arch):
        raise ToolkitError(NOT_NATIVE.format(" and ".join(differences)))
    task, found = select_component(run.task, read_merged(folder, weights), component)
    tokenizer, origin = Tokenizer.load(folder), read_origin(folder)
    model_type, names = choose_model_type(arch, task, origin)
    extra = read_tensors(folder / EXTRA_FILE) if (folder / EXTRA_FILE).exists() else {}
    renamed, omitted = rename_tensors(model_type, task, names, found, extra)
    settings = heads.head_settings(model_type, task, found, tokenizer) if names else {}
    hf_config = architectures.to_hf_config(
        model_type, arch, sizes["tokens"], tokenizer.vocabulary.pad, {**settings, **origin}
    )
    counts: Counter[torch.dtype] = Counter()
    for tensor in renamed.values():
        counts[tensor.dtype] += tensor.numel()
    hf_config["dtype"] = str(counts.most_common(1)[0][0]).removeprefix("torch.")
    classes = hf_config.get("architectures")
    if not (isinstance(classes, list) and classes and isinstance(classes[0], str)):
        classes = hf_config["architectures"] = [class_name(model_type, task, names)]
    parameters, plain = counts.total(), unwrap_tokenizer(tokenizer)
    card = build_model_card(target.name, folder, classes[0], parameters, tokenizer, native=True)
    with atomic_dir(target, sync=True, replace=False) as temporary:
        (temporary / MODEL_CARD_FILE).write_text(card, "utf-8")
        write_json(temporary / files.CONFIG, hf_config, indent=2, sort_keys=True)
        save_file(renamed, temporary / files.TENSORS, {"format": "pt"})
        write_tokenizer(
            temporary,
            plain,
            positions=heads.input_length(task, arch) or hf_config["max_position_embeddings"],
            token_types=hf_config.get("type_vocab_size", 0),
        )
    return {
        "class": classes[0],
        "parameters": parameters,
        "tensors": len(renamed),
        "omitted_tensors": omitted,
        "tokenizer": plain.kind,
        "symbols": hf_config["vocab_size"],
        "note": "; ".join(filter(None, export_notes(model_type, arch, task, names))),
    }


def read_merged(folder: Path, weights: str) -> dict[str, Tensor]:
    """The tensors of a checkpoint; those of adapters are merged with the weights they change."""
    if read_manifest(folder).base:
        return dict(load_checkpoint(folder, weights=weights).state_dict())
    return read_tensors(folder / weights_file(folder, weights))


def class_name(
    model_type: ModelType, task: ComponentConfig, names: tensors.NameTable | None
) -> str:
    """Name of the class of Transformers for a model and its head."""
    ending = "ForMaskedLM" if task.name in model_type.token_tasks else "Model"
    if names:
        ending = heads.CLASS_ENDINGS[task.name]
    elif task.name == "rtd" and model_type is ELECTRA:
        ending = "ForPreTraining"
    return model_type.class_prefix + ending


def check_component(task: str, component: str | None) -> None:
    """Raise if --component is given for a task that has no such parts."""
    if component is not None and task != "rtd":
        raise ToolkitError(
            f"--component {component} requires a checkpoint trained with --task rtd, but the task "
            f"is {task}."
        )


def select_arch(run: RunConfig, component: str | None) -> Any:
    """The architecture of the model to export: for rtd of the discriminator or the generator."""
    check_component(run.task.name, component)
    arch = run.arch.config
    if component != "generator":
        return arch
    scaled = arch.scaled_options(run.task.config.generator_size)
    return replace(arch, **scaled, embedding_width=arch.embedding_width or arch.width)


def select_component(
    task: ComponentConfig, found: Mapping[str, Tensor], component: str | None
) -> tuple[ComponentConfig, dict[str, Tensor]]:
    """Task and tensors of the model to export.

    The generator of rtd has the embedding tables that it shares with the discriminator.
    """
    if component != "generator":
        return task, {n: tensor for n, tensor in found.items() if not n.startswith(GENERATOR)}
    renamed = {name: tensor for name, tensor in found.items() if name.startswith(SHARED)}
    prefixes = {f"{GENERATOR}encoder.": f"{ENCODER}.", f"{GENERATOR}head.": f"{HEAD}."}
    of_generator = {name: replace_prefix(name, prefixes) for name in found}
    renamed |= {new: found[name] for name, new in of_generator.items() if new}
    return ComponentConfig("mlm", TASKS["mlm"].config), renamed


def rename_tensors(
    model_type: ModelType,
    task: ComponentConfig,
    names: tensors.NameTable | None,
    found: Mapping[str, Tensor],
    extra: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under the names of Transformers, and the names of those that it lacks."""
    of_tokens = task.name in model_type.token_tasks
    mappings = model_type.mappings(found, model_type.head if of_tokens else names or {})
    split = [mapping.split(found[mapping.toolkit_name]) for mapping in mappings]
    renamed = {name: tensor for parts in split for name, tensor in parts.items()}
    mapped = {mapping.toolkit_name for mapping in mappings}
    mapped |= {heads.NULL_THRESHOLD} if names else set()
    prefixes = {prefix: name for name, prefix in model_type.extra.items()}
    rest = {n: it for n, it in {**found, **extra}.items() if n in extra or n not in mapped}
    head = [n for n in found if n.startswith(f"{HEAD}.") and task.name != "rtd"]
    hf_names = {n: None if n in head else replace_prefix(n, prefixes) for n in rest}
    renamed |= {new: rest[n] for n, new in hf_names.items() if new is not None}
    inner, prefix = model_type.inner, model_type.prefix
    if not all(name.startswith(inner) for name in renamed):  # there is a head
        renamed = {(prefix if n.startswith(inner) else "") + n: t for n, t in renamed.items()}
    if model_type.code:
        renamed = tensors.pack(renamed, model_type.tied)
    return renamed, sorted(n for n, new in hf_names.items() if new is None)


def read_origin(folder: Path) -> JsonObject:
    """The config.json of an imported checkpoint; empty for one trained here."""
    path = folder / files.ORIGIN_FILE
    return read_json(path, JsonObject, "Convert the model again.") if path.exists() else {}


def choose_model_type(
    arch: EncoderConfig, task: ComponentConfig, origin: JsonObject
) -> tuple[ModelType, tensors.NameTable | None]:
    """The original model type, else the first one with the same encoder, and the task's head if one
    has it; with the names of this head.
    """
    known: dict[type[ArchConfig], ModelType] = {
        **{ConvBertConfig: CONVBERT, DebertaConfig: DEBERTA, ModernBertConfig: MODERNBERT},
        **{GptBertConfig: GPT_BERT, LtgBertConfig: LTG_BERT},
    }
    model_types = [it for config, it in known.items() if isinstance(arch, config)]
    if origin.get("model_type") in MODEL_TYPES:
        model_types = [choose_head(MODEL_TYPES[str(origin["model_type"])], origin)]
    elif not model_types:
        model_types = [BERT] * (not arch.projects_embeddings and task.name != "rtd") + [ELECTRA]
    has_head = task.name in heads.CLASS_ENDINGS and not task.config.layer_mixing
    for model_type in model_types if has_head else ():
        tables = heads.HEADS[task.name].get(model_type.model_type, {})
        if names := tables.get(heads.head_option(task)):
            return model_type, names
    return model_types[0], None


def dropout_note(arch: ArchConfig) -> str:
    """A note on dropout at other places than in Transformers, in spite of equal outputs."""
    if not isinstance(arch, ModernBertConfig) or not (arch.dropout or arch.attention_dropout):
        return ""
    return (
        "Transformers has attention_dropout after attention and no dropout after feed-forward "
        "networks, this model has arch.dropout after both: fine-tuning differs, predictions do not"
    )


def export_notes(
    model_type: ModelType, arch: ArchConfig, task: ComponentConfig, names: tensors.NameTable | None
) -> Iterator[str]:
    """Notes on what an export lacks, needs or computes in another way."""
    if isinstance(arch, ConvBertConfig) and not arch.convolve_padding:
        yield PADDING_NOTE
    yield dropout_note(arch)
    if names is None and task.name in heads.CLASS_ENDINGS:
        kind = heads.head_option(task)
        option = f"--task.head {kind}" if kind else f"--task {task.name}"
        if task.config.layer_mixing:
            option = "--task.layer-mixing true"
        yield f"no class of Transformers computes {option}: the head was not exported"
    if model_type.code:
        needed = sorted({f"{name.partition('.')[0]}.py" for name in model_type.code.values()})
        yield f"copy {' and '.join(needed)} of the model's authors into the folder"


def missing_native_class(path: Path, component: str | None = None) -> str:
    """Why no class of Transformers computes the same as a checkpoint, its head included, or ""."""
    folder = find_checkpoint(path)
    run, _ = read_config(folder)
    arch = select_arch(run, component)
    if differences := architectures.native_differences(run.arch.name, arch):
        return f"no class of Transformers computes it: the model {' and '.join(differences)}"
    model_type, names = choose_model_type(arch, run.task, read_origin(folder))
    if model_type.code:
        return f"no class of Transformers computes {run.arch.name}, but code of its authors does"
    has_class = run.task.name in ("mlm", "rtd", "encode") or names is not None
    return "" if has_class else f"no class of Transformers has the head of task {run.task.name}"
