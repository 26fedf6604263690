"""A learner as a model of Transformers, and as a graph of torch's operations, for ONNX.

N questions   O options   B rows   S tokens of a row   C characters of a word
"""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import describe_run_plugins, to_dict
from toolkit.data.formats.tagging.tokenizer import PAD, TaggingTokenizer
from toolkit.data.tokenizers.tokenizer import TOOLKIT_TOKENIZER_FILE, pack_tokenizer
from toolkit.data.tokenizers.vocabulary import ROLES
from toolkit.generation.hypothesis import SpecialTokens
from toolkit.huggingface import heads
from toolkit.huggingface.config import ToolkitConfig
from toolkit.huggingface.model import ToolkitModel, ToolkitPreTrainedModel, is_derived_task
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Sizes
from toolkit.tasks.learner import Learner
from toolkit.tasks.pretraining.hybrid import Hybrid

HEAD_CLASSES: tuple[type[ToolkitPreTrainedModel], ...] = (
    heads.ToolkitForPreTraining,
    heads.ToolkitForMaskedLM,
    heads.ToolkitForSequenceClassification,
    heads.ToolkitForTokenClassification,
    heads.ToolkitForQuestionAnswering,
    heads.ToolkitForMultipleChoice,
    heads.ToolkitForConditionalGeneration,
    heads.ToolkitForCausalLM,
)
"""Classes with heads; the first one for a task is that of its checkpoints."""


def to_huggingface(learner: Learner, *, component: str | None = None) -> ToolkitPreTrainedModel:
    """A learner with its tokenizer as a model of Transformers; the weights are copied.

    A task for which Transformers has no kind of head gives the encoder alone. Of a pair trained
    with rtd, `component` chooses the discriminator, the default, or the generator.
    """
    origin = learner.require_origin()
    run = origin.to_run()
    used = [it["name"] for it in describe_run_plugins(run)]
    files = {it: list_files(it) for it in plugins.list_loaded() if it.name in used}
    described = [
        {"name": it.name, "sha256": it.sha256, "files": [file.name for file in found]}
        for it, found in files.items()
    ]
    config = build_config(run, origin.sizes, learner, described)
    model = choose_class(run.task.name, learner, component)(config)
    tensors = {
        re.sub(r"^task\.", f"task.{run.task.name}.", name): tensor
        for name, tensor in learner.state_dict().items()
    }
    model.load_state_dict({name: tensors[name] for name in model.state_dict()})
    model.export_files = {TOOLKIT_TOKENIZER_FILE: pack_tokenizer(learner.tokenizer)}
    model.export_files |= {it.name: it.read_bytes() for found in files.values() for it in found}
    return model.train(learner.training)


def choose_class(
    task: str, learner: Learner, component: str | None
) -> type[ToolkitPreTrainedModel]:
    """The class with the heads of a task; ToolkitModel if none has them."""
    if component == "generator":
        return heads.ToolkitForMaskedLM
    masks = {"mlm", "mntp"} & learner.task.coefficients.keys()
    classes = [it for it in HEAD_CLASSES if masks or it is not heads.ToolkitForMaskedLM]
    return next((it for it in classes if is_derived_task(task, it.tasks)), ToolkitModel)


def build_config(
    run: RunConfig, sizes: Sizes, learner: Learner, described: list[dict[str, Any]]
) -> ToolkitConfig:
    """The configuration of a learner for Transformers, with the plugins that it needs."""
    sections, encoder, tokenizer = to_dict(run), learner.encoder, learner.tokenizer
    roles = tokenizer.vocabulary.roles
    settings: JsonObject = {f"{role}_token_id": roles[role] for role in ROLES}
    if isinstance(tokenizer, TaggingTokenizer) and tokenizer.has_words:
        settings["padding_char_ids"] = tokenizer.char_ids([PAD])[0].tolist()
    generates = isinstance(encoder, GenerativeModel)
    if generates or isinstance(learner.task, Hybrid):
        vocabulary = tokenizer.target.vocabulary
        special = SpecialTokens.from_vocabulary(vocabulary)
        never = () if generates else (special.eos,)  # hybrid does not train it
        settings |= {
            "is_encoder_decoder": generates and not encoder.decoder_only,
            "target_eos_token_id": special.eos,
            "target_pad_token_id": vocabulary.pad,
            "forbidden_token_ids": [*special.forbidden, *never],
        }
    return ToolkitConfig(
        arch=sections["arch"],
        task=sections["task"],
        sizes=sizes,
        plugins=described,
        hidden_size=encoder.width,
        max_position_embeddings=encoder.max_positions,
        **settings,
        **tokenizer.label_settings(),
    )


def list_files(plugin: plugins.Plugin) -> list[Path]:
    """The files of a plugin's folder; none of an installed one."""
    if not plugin.module.startswith(f"{plugins.PACKAGE}."):
        return []
    files = plugins.list_python_files(plugin.folder)
    if any(file.name == "__init__.py" for file in files):
        raise ToolkitError(
            f"An export carries a plugin's Python files, which must be next to each other, but "
            f"plugin {plugin.name!r} is or has a package. Move its code out of packages and "
            f"__init__.py, or install it with an entry point of {plugins.GROUP}."
        )
    return files


OPTIONS, LENGTH, CHARACTERS = 4, 18, 7
"""Sizes of example inputs where any size works."""


class Shape(NamedTuple):
    """The only number of rows and of tokens in a row that a graph reads; None if any."""

    batch: int | None = None
    length: int | None = None


class Graph(nn.Module):
    """A model in evaluation as a function of its inputs, in order, to a tuple of tensors.

    Of an encoder-decoder model it is the encoder: decoding calls a model once per token.
    """

    def __init__(self, model: ToolkitPreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.outputs = input_names(model), output_names(model)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        if isinstance(model, heads.ToolkitForConditionalGeneration):
            outputs = model.get_encoder()(*inputs)
        else:
            outputs = model(**dict(zip(self.inputs, inputs, strict=True)), return_dict=True)
        return tuple(outputs[name] for name in self.outputs)


def input_names(model: ToolkitPreTrainedModel) -> list[str]:
    """Names of the graph's inputs, in order."""
    types = model.config.arch.get("token_types", 1) > 1
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * types
    return names + ["char_ids"] * bool(model.config.padding_char_ids)


def output_names(model: ToolkitPreTrainedModel) -> list[str]:
    """Names of the graph's outputs, in order."""
    if not model.tasks or isinstance(model, heads.ToolkitForConditionalGeneration):
        return ["last_hidden_state"]
    return ["start_logits", "end_logits"] if "squad" in model.tasks else ["logits"]


def export_program(model: ToolkitPreTrainedModel, shape: Shape | None = None) -> ExportedProgram:
    """`Graph` of the model for inputs of any shape that it reads, or of a given one."""
    shape = shape or resolve_shape(model)
    inputs = tuple(example_inputs(model, shape, rows=3).values())
    choice = isinstance(model, heads.ToolkitForMultipleChoice)
    free = [shape.batch is None, *[True] * choice, shape.length is None]
    dynamic = {axis: Dim.DYNAMIC for axis, is_free in enumerate(free) if is_free}
    shapes = (tuple(dynamic for _ in inputs),)
    with torch.no_grad():
        return torch.export.export(Graph(model).eval(), inputs, dynamic_shapes=shapes)


def resolve_shape(
    model: ToolkitPreTrainedModel, batch: int | None = None, length: int | None = None
) -> Shape:
    """The shape of the graph's inputs."""
    longest, only = model.encoder.max_positions, model.encoder.fixed_length
    if length is not None and (length > (longest or length) or length != (only or length)):
        raise ToolkitError(
            f"--length must be {f'{only}' if only else f'at most {longest}'}, as the model was "
            f"trained, but is {length}."
        )
    return Shape(batch, length or only)


def example_inputs(
    model: ToolkitPreTrainedModel, shape: Shape, rows: int, seed: int = 0
) -> dict[str, Int[Tensor, ...]]:
    """Random tokens by the names of the inputs; a single row is one token, of others the last is
    half padding.
    """
    random = torch.Generator().manual_seed(seed)
    length, limit = LENGTH + rows if rows > 1 else 1, model.encoder.max_positions
    if limit is not None:
        length = min(length, max(1, limit - rows % 3))  # another one for 1, 3 and 5 rows
    size: tuple[int, ...] = (shape.batch or rows, shape.length or length)
    if isinstance(model, heads.ToolkitForMultipleChoice):
        size = (size[0], OPTIONS, size[1])
    ids = torch.randint(0, model.config.vocab_size, size, generator=random)
    mask = torch.ones_like(ids)
    mask[-1, ..., (size[-1] + 1) // 2 :] = 0
    tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    if model.config.padding_char_ids:
        characters = (*size, len(model.config.padding_char_ids))
        tensors["char_ids"] = torch.randint(
            1, model.config.sizes["characters"], characters, generator=random
        )
    return {name: tensors[name] for name in input_names(model)}


TOLERANCE = 1e-4
"""Largest difference of ONNX Runtime's outputs from PyTorch's, relative to the largest output."""
CHECKED_ROWS = (1, 5)
"""Rows of the batches that are compared; those of the example have other shapes."""


def write_graph(path: Path, model: ToolkitPreTrainedModel, shape: Shape) -> None:
    """Trace the model and write it; inputs and outputs have the names of Transformers."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # packages that are not used
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        try:
            onnx = torch.onnx.export(
                export_program(model, shape),
                input_names=input_names(model),
                output_names=output_names(model),
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
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented as error:  # before 1.24
        raise ToolkitError(
            f"ONNX Runtime {runtime.__version__} cannot run this graph: {error}. Install a newer "
            f"version; on Python 3.10, use a newer Python."
        ) from None
    graph, worst = Graph(model).eval(), 0.0
    for rows in CHECKED_ROWS:
        inputs = example_inputs(model, shape, rows, seed=rows)
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
