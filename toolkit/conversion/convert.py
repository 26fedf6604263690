"""toolkit-convert: one model from one program's files to another's, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.convert import ConvertConfig
from toolkit.config.help import columns
from toolkit.conversion import write_checkpoint
from toolkit.conversion.fairseq import roberta
from toolkit.conversion.huggingface import exporter, importer
from toolkit.conversion.huggingface.exporter import Exported
from toolkit.conversion.write_checkpoint import Converted
from toolkit.reporting.json_output import Output


def convert(c: ConvertConfig) -> Path:
    """Write DST, and show what it holds."""
    source, target = map(Path, c.paths)
    write_checkpoint.refuse_target(target)
    if not source.exists():
        raise ToolkitError(f"SRC must be there, but {source} is not. Check the path.")
    with Output(c.json) as output:
        facts = taken(source, target) if c.to == "toolkit" else given(source, target, c)
        output.write("converted", {"from": str(source), "to": str(target), **facts})
        shown = {name.replace("_", " "): text(value) for name, value in facts.items() if value}
        shown["written to"] = str(target)
        print(columns(shown.items()), file=output.people)
    return target


def taken(source: Path, target: Path) -> dict[str, Any]:
    """Another program's model as a checkpoint."""
    saved = roberta.file_of(source)
    model = roberta.converted(saved) if saved else importer.converted(source)
    write_checkpoint.write(target, model, source)
    return facts_of(model)


def given(source: Path, target: Path, c: ConvertConfig) -> dict[str, Any]:
    """A checkpoint as a folder for Transformers."""
    model = exporter.exported(source, weights=c.weights, net=c.net)
    exporter.write(target, model)
    return told(model)


def facts_of(model: Converted) -> dict[str, Any]:
    arch: Any = model.run.arch.config
    return {
        "architecture": model.run.arch.name,
        "task": model.run.task.name,
        "layers": arch.layers,
        "width": arch.width,
        "parameters": count(model.tensors),
        "tensors": len(model.tensors),
        "beside_them": sorted(model.spare),
        "tokenizer": model.codec.kind,
        "symbols": model.sizes.tokens,
    }


def told(model: Exported) -> dict[str, Any]:
    return {
        "class": model.config["architectures"][0],
        "parameters": count(model.tensors),
        "tensors": len(model.tensors),
        "left_out": model.left_out,
        "tokenizer": model.codec.kind,
        "symbols": model.config["vocab_size"],
        "note": model.note,
    }


def count(tensors: Mapping[str, Any]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
