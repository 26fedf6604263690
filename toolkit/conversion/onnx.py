"""Export of a checkpoint to ONNX, checked with ONNX Runtime."""

from __future__ import annotations

import importlib
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.conversion import files, toolkit_classes
from toolkit.data.tokenizers.wrapped import unwrap_tokenizer
from toolkit.tasks.load import load_checkpoint

if TYPE_CHECKING:
    from toolkit.huggingface.model import ToolkitPreTrainedModel
    from toolkit.huggingface.program import Shape

MODEL_FILE = "model.onnx"
TOLERANCE = 1e-4
"""Largest difference from PyTorch's outputs, relative to the largest output."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
CHECKED_ROWS = (1, 5)
"""Rows of the batches that are compared; those of the example have other shapes."""


def export(
    source: Path,
    target: Path,
    *,
    weights: str = "auto",
    batch: int | None = None,
    length: int | None = None,
) -> JsonObject:
    """Write the graph, and the configuration and tokenizer for Transformers; gives facts."""
    check_packages()
    huggingface = importlib.import_module("toolkit.huggingface")  # Transformers is optional
    program = importlib.import_module("toolkit.huggingface.program")
    learner = load_checkpoint(source, weights=weights).eval()
    model: ToolkitPreTrainedModel = huggingface.to_huggingface(learner)
    shape = program.resolve_shape(model, batch, length)
    found: list[float] = []

    def fill(folder: Path) -> None:
        write_graph(folder / MODEL_FILE, model, shape)
        model.config.save_pretrained(folder)
        toolkit_classes.export_tokenizer(folder, learner, model)
        found.append(compare_outputs(folder / MODEL_FILE, model, shape))

    files.write_folder(target, fill)
    return {
        "inputs": program.input_names(model),
        "outputs": program.output_names(model),
        "batch": shape.batch or "any",
        "length": shape.length or "any",
        "parameters": model.num_parameters(),
        "tokenizer": unwrap_tokenizer(learner.tokenizer).kind,
        "relative_difference": found[0],
    }


def check_packages() -> None:
    """Raise a ToolkitError that names the packages that ONNX export misses."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ToolkitError(
            f"toolkit-convert onnx requires {', '.join(missing)}. Install with: "
            f"pip install 'toolkit-seq[hf,onnx]'"
        )


def write_graph(path: Path, model: ToolkitPreTrainedModel, shape: Shape) -> None:
    """Trace the model and write it; inputs and outputs have the names of Transformers."""
    program = importlib.import_module("toolkit.huggingface.program")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # packages that are not used
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        try:
            graph = program.export_program(model, shape)
            onnx = torch.onnx.export(
                graph,
                input_names=program.input_names(model),
                output_names=program.output_names(model),
                dynamo=True,
                verbose=False,
            )
        except (torch._dynamo.exc.UserError, torch.onnx.errors.OnnxExporterError) as error:
            raise ToolkitError(
                f"{model.config.arch['name']} cannot be exported with any batch and length: "
                f"{str(error).splitlines()[0]} Fix the shape with --batch 1 --length 128."
            ) from error
        assert onnx is not None, "torch.onnx.export returns a program with dynamo=True"
        onnx.save(str(path))


def compare_outputs(path: Path, model: ToolkitPreTrainedModel, shape: Shape) -> float:
    """The largest relative difference between ONNX Runtime's outputs and PyTorch's."""
    runtime = importlib.import_module("onnxruntime")
    program = importlib.import_module("toolkit.huggingface.program")
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented as error:  # before 1.24
        raise ToolkitError(
            f"ONNX Runtime {runtime.__version__} cannot run this graph: {error}. Install a newer "
            f"version; on Python 3.10, use a newer Python."
        ) from None
    graph, worst = program.Graph(model).eval(), 0.0
    for rows in CHECKED_ROWS:
        inputs = program.example_inputs(model, shape, rows, seed=rows)
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        with torch.no_grad():
            expected = graph(*inputs.values())
        for array, tensor in zip(session.run(None, arrays), expected, strict=True):
            difference = (torch.from_numpy(array) - tensor).abs().max()
            relative = float(difference / tensor.abs().max()) if difference else 0.0
            if not relative <= TOLERANCE:  # or not finite
                raise ToolkitError(
                    f"ONNX Runtime's outputs differ from PyTorch's by {relative:.1g} of the "
                    f"largest number, more than {TOLERANCE:g}. Nothing was written. Please report "
                    f"it with the architecture."
                )
            worst = max(worst, relative)
    return worst
