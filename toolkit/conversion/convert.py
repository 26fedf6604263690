"""toolkit-convert: import and export of models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from toolkit.checkpoints.save_folder import check_new_folder
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.command import format_columns
from toolkit.config.commands.checkpoints import (
    ConversionOptions,
    ExportConfig,
    ImportConfig,
    OnnxConfig,
)
from toolkit.conversion import fairseq, files, native_classes, toolkit_classes
from toolkit.conversion.files import ConvertedModel
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.reporting.console import Output


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
        facts = convert_model(source, target, c)
        output.write("converted", {"from": str(source), "to": str(target), **facts})
        rows = {name.replace("_", " "): format_fact(it) for name, it in facts.items() if it}
        rows["written to"] = str(target)
        print(format_columns(rows.items()), file=output.text_stream)
    return target


def convert_model(source: Path, target: Path, c: ConversionOptions) -> JsonObject:
    """Write the model in the format that the class of the options means; returns its facts."""
    match c:
        case ImportConfig():
            imported = import_model(source, pairs=c.pairs)
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
        case OnnxConfig():
            return toolkit_classes.export_graph(
                source, target, weights=c.weights, batch=c.batch, length=c.length
            )
    assert isinstance(c, ExportConfig), "there are three directions"
    native = c.classes == "native" or (
        c.classes == "auto" and native_classes.has_native_class(source, c.component)
    )
    export = native_classes.export_native if native else toolkit_classes.export
    return export(source, target, weights=c.weights, component=c.component)


def import_model(source: Path, *, pairs: bool) -> ConvertedModel:
    """The model of a folder or file; `pairs` tells that a classifier reads pairs of texts."""
    if source.is_file():
        return fairseq.import_file(source)
    file = source / fairseq.MODEL_FILE
    if file.is_file() and not (source / files.CONFIG).exists():
        return fairseq.import_file(file)
    config = files.read_model_config(source)
    if config.get("model_type") == toolkit_classes.MODEL_TYPE:
        return toolkit_classes.import_folder(source, config, pairs=pairs)
    return native_classes.import_native(source, pairs=pairs)


def format_fact(value: object) -> str:
    """A fact as text for the console."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.1e}"
    return f"{value:,}" if isinstance(value, int) else str(value)
