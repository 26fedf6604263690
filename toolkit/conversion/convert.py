"""toolkit-convert, and folders of the toolkit's own classes (toolkit.huggingface).

These exist for every architecture and task. Graphs, for ONNX, are checked with ONNX Runtime.
"""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.checkpoints.load import find_checkpoint, read_config
from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common import json_files, plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_dir, read_bytes
from toolkit.common.json_files import JsonObject, name_file
from toolkit.common.plugins import PluginRecord
from toolkit.config.command import format_columns
from toolkit.config.commands.checkpoints import (
    ConversionOptions,
    ExportConfig,
    ImportConfig,
    OnnxConfig,
)
from toolkit.config.serialize import from_dict
from toolkit.config.values import Size
from toolkit.conversion import fairseq, files, native_classes, tensors
from toolkit.conversion.files import (
    MODEL_CARD_FILE,
    ConvertedModel,
    build_model_card,
    build_on_meta,
)
from toolkit.conversion.heads import input_length, with_labels
from toolkit.conversion.native_classes import check_component
from toolkit.conversion.tokenizer_files import Template, extend_vocabulary, write_tokenizer
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import (
    TOOLKIT_TOKENIZER_FILE,
    unpack_tokenizer,
    unwrap_tokenizer,
)
from toolkit.data.tokenizers.tokenizer_json import load_tokenizer
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Sizes
from toolkit.reporting.console import Output, heartbeat
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.learner import Learner

if TYPE_CHECKING:
    from toolkit.huggingface.model import ToolkitPreTrainedModel


def convert(c: ConversionOptions) -> Path:
    """Convert SOURCE to DESTINATION and report what was converted."""
    source, target = map(Path, c.paths)
    check_new_folder(target, "DESTINATION")
    if not source.exists():
        raise ToolkitError(
            f"No such file or directory: {source}. Models of the Hugging Face Hub must be "
            f"downloaded first: hf download NAME --local-dir FOLDER."
        )
    with Output(c.json) as output:
        with heartbeat("converting"):
            facts = convert_model(source, target, c)
        output.write("converted", {"from": str(source), "to": str(target), **facts})
        rows = {name.replace("_", " "): format_fact(it) for name, it in facts.items() if it}
        lines = facts.get("open_with", [])
        rows["written to"] = str(target)
        text = format_columns((name, it) for name, it in rows.items() if name != "open with")
        print(text, *(f"    {line}" for line in lines), sep="\n", file=output.text_stream)
    return target


def convert_model(source: Path, target: Path, c: ConversionOptions) -> JsonObject:
    """Write the model in the format that the class of the options means; returns its facts."""
    match c:
        case ImportConfig():
            imported = import_model(source, pairs=c.pairs)
            if c.extend_vocabulary_from and c.extend_by:
                imported = extend_vocabulary(imported, c.extend_vocabulary_from, c.extend_by)
            files.write_checkpoint(target, imported, source)
            options = asdict(imported.run.arch.config)
            return {
                "architecture": imported.run.arch.name,
                "task": imported.run.task.name,
                "layers": options.get("layers"),
                "width": options.get("width"),
                "parameters": sum(tensor.numel() for tensor in imported.tensors.values()),
                "tensors": len(imported.tensors),
                "extra_tensors": sorted(imported.extra),
                "tokenizer": unwrap_tokenizer(imported.tokenizer).kind,
                "symbols": imported.sizes["tokens"],
                "note": imported.note,
            }
        case _ if read_config(find_checkpoint(source))[0].training.bottleneck:
            raise ToolkitError(
                f"{source} has bottleneck adapters, which no other class computes. Train with "
                f"--lora-rank: its changes become part of the weights."
            )
        case OnnxConfig():
            return export_graph(source, target, weights=c.weights, batch=c.batch, length=c.length)
    assert isinstance(c, ExportConfig), "there are three directions"
    reason = f"--classes {c.classes}"
    if c.classes == "auto":
        reason = native_classes.missing_native_class(source, c.component)
    native = c.classes == "native" or not reason
    export = native_classes.export_native if native else export_own
    facts = export(source, target, weights=c.weights, component=c.component)
    card = (target / MODEL_CARD_FILE).read_text("utf-8").replace(f'"{target.name}"', f'"{target}"')
    return {
        **facts,
        "reason": reason or "Transformers has a class for the model and its head",
        "open_with": [*OPENING_LINES.findall(card)],
    }


OPENING_LINES = re.compile(r"^(?:from transformers|model =).*", re.M)
"""The two lines of a model card's Python that open the model."""


def import_model(source: Path, *, pairs: bool) -> ConvertedModel:
    """The model of a folder or file; `pairs` tells that a classifier reads pairs of texts."""
    file = source if source.is_file() else source / fairseq.MODEL_FILE
    if file.is_file() and not (source / files.CONFIG).exists():
        return fairseq.import_file(file)
    config = files.read_model_config(source)
    if config.get("model_type") == MODEL_TYPE:
        return import_own(source, config, pairs=pairs)
    return native_classes.import_native(source, pairs=pairs)


def format_fact(value: object) -> str:
    """A fact as text for the console."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


MODEL_TYPE = "toolkit"
MAX_TOKENIZER_BYTES = 256 << 20
UNLIMITED = int(1e30)
"""Transformers' maximum length of a tokenizer without one."""


@dataclass(frozen=True, kw_only=True)
class ToolkitSettings:
    """What config.json of a toolkit model says, besides labels."""

    arch: JsonObject
    task: JsonObject
    sizes: dict[str, Size]
    plugins: list[PluginRecord] = field(default_factory=list)


def import_own(folder: Path, config: JsonObject, *, pairs: bool = False) -> ConvertedModel:
    """The model, after its names, options and tensors have been checked; no code is executed.

    A model without heads of its task becomes one of task encode.
    """
    found, file = files.read_all_tensors(folder)
    with name_file(folder / files.CONFIG, files.REMEDY):
        saved = json_files.convert(config, ToolkitSettings)
    plugins.check_loaded(saved.plugins, str(folder))
    has_task = "target_eos_token_id" in config or any(name.startswith("task.") for name in found)
    run = from_dict({"arch": saved.arch, "task": saved.task if has_task else {"name": "encode"}})
    prefix, rows = f"task.{run.task.name}.", saved.sizes["tokens"]
    renamed = {
        f"task.{name.removeprefix(prefix)}" if name.startswith(prefix) else name: tensor
        for name, tensor in found.items()
    }
    path = folder / TOOLKIT_TOKENIZER_FILE
    plain = (
        unpack_tokenizer(read_bytes(path, MAX_TOKENIZER_BYTES))
        if path.exists()
        else load_tokenizer(folder, rows)
    )
    tokenizer = with_labels(plain, run.task.name, config, pairs=pairs)
    sizes = Sizes({**saved.sizes, **tokenizer.sizes, "tokens": rows})
    required = {n: tuple(t.shape) for n, t in build_on_meta(run, sizes).state_dict().items()}
    tensors.check_none(folder, tensors.compare_tensors(renamed, required, file))
    return ConvertedModel(run=run, sizes=sizes, tensors=renamed, tokenizer=tokenizer)


def export_own(
    source: Path, target: Path, *, weights: str = "auto", component: str | None = None
) -> JsonObject:
    """Write the folder, complete or not at all; gives facts about it."""
    huggingface = importlib.import_module("toolkit.huggingface")  # Transformers is optional
    learner = load_checkpoint(source, weights=weights)
    task = learner.require_origin().task.name
    check_component(task, component)
    model: ToolkitPreTrainedModel = huggingface.to_huggingface(learner, component=component)
    name, parameters, tokenizer = type(model).__name__, model.num_parameters(), learner.tokenizer
    folder = find_checkpoint(source)
    card = build_model_card(target.name, folder, name, parameters, tokenizer, native=False)
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    with atomic_dir(target, sync=True, replace=False) as temporary:
        model.save_pretrained(temporary)
        export_tokenizer(temporary, learner, model)
        (temporary / MODEL_CARD_FILE).write_text(card, "utf-8")
    kept = {name.replace(f"task.{task}.", "task.") for name in model.state_dict()}
    return {
        "class": name,
        "parameters": parameters,
        "tensors": len(kept),
        "omitted_tensors": sorted(set(learner.state_dict()) - kept),
        "tokenizer": unwrap_tokenizer(tokenizer).kind,
        "symbols": model.config.vocab_size,
        "note": "",
    }


def export_tokenizer(folder: Path, learner: Learner, model: ToolkitPreTrainedModel) -> None:
    """A tokenizer.json if it gives the same ids, else files for ToolkitTokenizer."""
    tokenizer, encoder = learner.tokenizer, learner.encoder
    template: Template = "pair" if tokenizer.vocabulary.cls != tokenizer.vocabulary.pad else "none"
    if isinstance(encoder, GenerativeModel):
        template = "prompt" if encoder.decoder_only else "source"
    length = input_length(learner.require_origin().task, encoder) or UNLIMITED
    token_types: Any = model.config.arch.get("token_types", 1)
    # whether ids alone do not make an input, or targets have other ids
    has_words = isinstance(tokenizer, TaggingTokenizer) and tokenizer.has_words
    if not has_words and tokenizer.target.vocabulary is tokenizer.vocabulary:
        plain = unwrap_tokenizer(tokenizer)
        with suppress(ToolkitError):  # if no tokenizer.json can express it
            write_tokenizer(
                folder, plain, positions=length, token_types=token_types, template=template
            )
            return
    own = importlib.import_module("toolkit.huggingface.tokenizer")
    path = folder / TOOLKIT_TOKENIZER_FILE
    path.write_bytes(model.export_files[path.name])
    types = ["token_type_ids"] if token_types > 1 else []
    own.ToolkitTokenizer(
        str(path),
        template=template,
        model_max_length=length,
        model_input_names=["input_ids", *types, "attention_mask"],
    ).save_pretrained(folder)


MODEL_FILE = "model.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def export_graph(
    source: Path,
    target: Path,
    *,
    weights: str = "auto",
    batch: int | None = None,
    length: int | None = None,
) -> JsonObject:
    """Write the graph, and the configuration and tokenizer for Transformers; gives facts."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise ToolkitError(
            f"toolkit-convert onnx requires {', '.join(missing)}. Install with: "
            f"pip install 'toolkit-seq[hf,onnx]'"
        )
    huggingface = importlib.import_module("toolkit.huggingface")  # Transformers is optional
    program = importlib.import_module("toolkit.huggingface.program")
    learner = load_checkpoint(source, weights=weights).eval()
    model: ToolkitPreTrainedModel = huggingface.to_huggingface(learner)
    shape = program.resolve_shape(model, batch, length)
    with atomic_dir(target, sync=True, replace=False) as folder:
        program.write_graph(folder / MODEL_FILE, model, shape)
        model.config.save_pretrained(folder)
        export_tokenizer(folder, learner, model)
        difference = program.compare_outputs(folder / MODEL_FILE, model, shape)
    return {
        "inputs": program.input_names(model),
        "outputs": program.output_names(model),
        "batch": shape.batch or "any",
        "length": shape.length or "any",
        "parameters": model.num_parameters(),
        "tokenizer": unwrap_tokenizer(learner.tokenizer).kind,
        "relative_difference": difference,
    }
