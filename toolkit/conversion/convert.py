"""toolkit-convert: one model from one program's files to another's, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.config.columns import columns
from toolkit.config.convert import ConvertConfig
from toolkit.conversion import exporting, fairseq, importing, written
from toolkit.conversion.exporting import Exported
from toolkit.conversion.written import Converted
from toolkit.metrics.output import Output


def convert(c: ConvertConfig) -> Path:
    """Write DST, and show what it holds."""
    source, target = map(Path, c.paths)
    written.refuse_target(target)
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
    saved = fairseq.file_of(source)
    model = fairseq.converted(saved) if saved else importing.converted(source)
    written.write(target, model, source)
    return facts_of(model)


def given(source: Path, target: Path, c: ConvertConfig) -> dict[str, Any]:
    """A checkpoint as a folder for Transformers."""
    model = exporting.exported(source, weights=c.weights, net=c.net)
    exporting.write(target, model)
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
