"""Files of models: folders of Hugging Face Transformers, and converted models as checkpoints.

Files written by torch.save are loaded without executing code; no other module opens them.
PyTorch's weights-only loader creates tensors, plain containers and the classes of an allow-list,
and calls nothing else. The allow-list here maps the classes of fairseq's settings to OpaqueObject.

The model card (README.md) of an export says what the checkpoint records, and how to use the model.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from toolkit.checkpoints.load import EXTRA_FILE, read_complete_starts, read_config, write_model
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import (
    FileName,
    JsonObject,
    convert,
    name_file,
    read_json,
    write_json,
)
from toolkit.common.registry import TASKS
from toolkit.config.command import MANIFEST, format_columns
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner
from toolkit.tasks.pretraining.hybrid import Hybrid
from toolkit.training.callbacks.checkpointing import read_state

CONFIG, TENSORS, INDEX, PICKLED = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
ORIGIN_FILE = "hugging_face.json"
"""In an imported checkpoint: the config.json of the source, for export."""
REMEDY = "Name a folder written by save_pretrained."


@dataclass(frozen=True, kw_only=True)
class ConvertedModel:
    """The contents of the checkpoint of a converted model."""

    run: RunConfig
    sizes: Sizes
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors outside the learner, such as BERT's pooler."""
    origin: JsonObject | None = None
    note: str = ""
    """What the conversion left unused."""


def read_model_config(folder: Path) -> JsonObject:
    """The config.json of a folder; raises a ToolkitError if the folder is no model."""
    reason = "" if (folder / CONFIG).exists() else f"has no {CONFIG}"
    if any((folder / name).exists() for name in (MANIFEST, "checkpoint_last")):
        reason = "is a checkpoint of the toolkit; for that use toolkit-convert export"
    if reason:
        raise ToolkitError(
            f"SOURCE must be a folder written by save_pretrained, or a .pt file of fairseq, but "
            f"{folder} {reason}."
        )
    return read_json(folder / CONFIG, JsonObject, REMEDY)


def read_all_tensors(folder: Path) -> tuple[dict[str, Tensor], str]:
    """All tensors and the name of their file; safetensors are preferred over pickles."""
    if (folder / TENSORS).exists():
        return read_tensors(folder / TENSORS), TENSORS
    if (folder / INDEX).exists():
        index = read_json(folder / INDEX, JsonObject, REMEDY)
        with name_file(folder / INDEX, REMEDY):
            names = convert(index.get("weight_map"), dict[str, FileName]).values()
        shards = [read_tensors(folder / name) for name in sorted(set(names))]
        return {name: tensor for shard in shards for name, tensor in shard.items()}, INDEX
    if not (folder / PICKLED).exists():
        raise ToolkitError(
            f"{folder} must hold {TENSORS} or {PICKLED}, but has neither. Name a folder "
            f"written by save_pretrained."
        )
    path = folder / PICKLED
    return name_tensors(load_torch_file(path), path), PICKLED


def build_on_meta(run: RunConfig, sizes: Sizes) -> Learner:
    """The learner on the meta device, for the names and shapes of its tensors."""
    with torch.device("meta"):
        return build_learner(run.arch, run.task, sizes)


def write_checkpoint(target: Path, model: ConvertedModel, source: Path) -> None:
    """Write a converted model; the manifest names its source."""

    def write_more(folder: Path) -> None:
        if model.extra:
            write_tensors(folder / EXTRA_FILE, model.extra)
        if model.origin is not None:
            write_json(folder / ORIGIN_FILE, model.origin, indent=1, sort_keys=True)

    write_model(
        target,
        model.tensors,
        run=model.run,
        sizes=model.sizes,
        tokenizer=model.tokenizer,
        facts={"reasons": ["conversion"], "converted": str(source)},
        write_more=write_more,
    )


MAX_COPIES = 4
"""Maximum bytes of all tensors per byte of the file; tied weights are stored once."""


class OpaqueObject:
    """Placeholder for an object of another program: it stores its arguments and does nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.arguments = getattr(self, "arguments", ())
        self.state = state


SETTING_CLASSES = (
    "argparse.Namespace",
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    *(f"omegaconf.nodes.{kind}Node" for kind in ("Any", "Boolean", "Enum", "Float", "Integer")),
    "omegaconf.nodes.StringNode",
    "collections.defaultdict",
    "typing.Any",
    "builtins.dict",
    "builtins.list",
    "builtins.int",
    "builtins.str",
    "builtins.float",
    "builtins.bool",
)
"""Classes of settings in fairseq's checkpoints; each is loaded as an OpaqueObject."""


def load_torch_file(path: Path, *, settings: bool = False) -> Any:
    """The tensors and containers of a file; with `settings`, also OpaqueObjects."""
    allowed: list[Any] = [(OpaqueObject, name) for name in SETTING_CLASSES] if settings else []
    with (
        open_regular(path) as file,
        warnings.catch_warnings(),
        torch.serialization.safe_globals(allowed),
    ):
        warnings.simplefilter("ignore")  # about the pickle protocol of old files
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # any exception that a damaged or malicious file causes
            text = " ".join(str(error).split()) or type(error).__name__
            reason = text.rpartition("WeightsUnpickler error: ")[2].partition("Please use")[0]
            raise ToolkitError(
                f"{path} must contain only tensors and settings, but PyTorch's weights-only loader "
                f"says: {reason.strip()[:200].removesuffix('.')}. Nothing was executed. Convert "
                f"the file to safetensors first."
            ) from error


def name_tensors(content: object, path: Path) -> dict[str, Tensor]:
    """Loaded content as tensors by name, if they are dense and the file holds their numbers.

    Tensors that share memory, such as tied weights, become separate ones.
    """
    tensors: dict[Any, Any] = content if isinstance(content, dict) else {"": content}
    wrong = [
        name
        for name, it in tensors.items()
        if not (isinstance(name, str) and isinstance(it, Tensor) and it.layout == torch.strided)
        or (it.device.type != "cpu" or it.is_nested or it.is_quantized)
        or (it.is_complex() or it.is_neg())
    ]
    if wrong:
        raise ToolkitError(
            f"{path} must contain dense tensors by name, but contains other objects "
            f"({str(wrong[0])[:80]!r}). Name a file that save_pretrained or fairseq wrote."
        )
    size, total = path.stat().st_size, sum(it.numel() * it.itemsize for it in tensors.values())
    if total > MAX_COPIES * size:
        raise ToolkitError(
            f"{path} must contain the numbers of its tensors, but has {size:,} bytes and tensors "
            f"of {total:,} bytes. Save the tensors again after .contiguous()."
        )
    users = Counter(it.untyped_storage().data_ptr() for it in tensors.values())
    return {
        name: it.clone() if users[it.untyped_storage().data_ptr()] > 1 else it
        for name, it in tensors.items()
    }


MODEL_CARD_FILE = "README.md"
SECTIONS = ("arch", "task", "criterion", "optimizer", "lr_scheduler", "data", "training")
PIPELINES = {
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForCausalLM": "text-generation",
    "ForConditionalGeneration": "translation",
}
CALLS = {
    "ForMaskedLM": 'model(f"This is a {model.tokenizer.mask_token}.")',
    "ForSequenceClassification": 'model("A lovely film.")',
    "ForTokenClassification": 'model("The sun rose over the hill .")',
    "ForCausalLM": 'model("The sun", return_full_text=True)',
}
PAIR_CALL = 'model({"text": "A lovely film.", "text_pair": "I liked it."})'


SHIFTED = "shifted"
TEXT, PRINT = '"A lovely film."', "print(model(**inputs))"
EXAMPLES = {
    "Model": ("AutoModel", TEXT, PRINT),
    "ForPreTraining": ("AutoModelForPreTraining", TEXT, PRINT),
    SHIFTED: (
        "AutoModelForMaskedLM",
        'f"This is a {tokenizer.mask_token}."',
        'mask = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0]\n'
        "best = model(**inputs).logits[0, mask - 1].argmax()  # from the token before the mask\n"
        "print(tokenizer.decode(best))",
    ),
    "ForConditionalGeneration": (
        "AutoModelForSeq2SeqLM",
        TEXT,
        "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
    ),
    "ForQuestionAnswering": (
        "AutoModelForQuestionAnswering",
        '"What rose?", "The sun rose over the hill."',
        "output = model(**inputs)\n"
        "first, last = output.start_logits.argmax(), output.end_logits.argmax()\n"
        'print(tokenizer.decode(inputs["input_ids"][0, first : last + 1]))',
    ),
    "ForMultipleChoice": (
        "AutoModelForMultipleChoice",
        '["A passage."] * 2, ["One option.", "Another."], padding=True',
        "print(model(**{name: values[None] for name, values in inputs.items()}).logits)",
    ),
}
"""Auto class, arguments of the tokenizer, and Python that calls a model without a pipeline."""


def build_model_card(
    name: str,
    checkpoint: Path,
    class_name: str,
    parameters: int,
    tokenizer: Tokenizer,
    *,
    native: bool,
) -> str:
    """Markdown; nothing is said that the checkpoint does not record. `name` is the export's.

    `native` tells that the class is one of Transformers', which needs no toolkit.
    """
    run, _ = read_config(checkpoint)
    arch, start = run.arch.name, class_name.find("For")
    ending = class_name[start:] if start >= 0 else "Model"  # without the name of the model type
    if ending == "ForMaskedLM" and TASKS[run.task.name].factory is Hybrid:
        ending = SHIFTED  # pipelines expect the prediction at the mask itself
    header = {"library_name": "transformers", "tags": ["toolkit", arch]}
    if ending in PIPELINES:
        header["pipeline_tag"] = PIPELINES[ending]
    source = f'"{name}"' if native else f'"{name}", trust_remote_code=True'
    if ending in CALLS:
        pairs = isinstance(tokenizer, ClassificationTokenizer) and tokenizer.labels.pairs
        code = (
            "from transformers import pipeline\n\n"
            f'model = pipeline("{PIPELINES[ending]}", model={source})\n'
            f"print({PAIR_CALL if pairs else CALLS[ending]})\n"
        )
    else:
        auto_class, tokenized, call = EXAMPLES[ending]
        code = (
            f"from transformers import {auto_class}, AutoTokenizer\n\n"
            f"tokenizer = AutoTokenizer.from_pretrained({source})\n"
            f"model = {auto_class}.from_pretrained({source})\n"
            f'inputs = tokenizer({tokenized}, return_tensors="pt")\n'
            f"{call}\n"
        )
    requirement = "The model requires the toolkit: `pip install 'toolkit-seq[hf]'`.\n"
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n",
        f"# {name}\n",
        f"Architecture `{arch}`, task `{run.task.name}`, {parameters:,} parameters, class "
        f"`{class_name}`.\n",
        "## Use\n",
        *([] if native else [requirement]),
        f"```python\n{code}```\n",
        *describe_run(checkpoint, run),
    ]
    return "\n".join(parts)


def describe_run(checkpoint: Path, run: RunConfig) -> list[str]:
    """Sections on the training run: progress, versions, last validation, options.

    Commits, data and device are those of the last start of the run, if they are recorded.
    """
    facts, state = read_manifest(checkpoint), read_state(checkpoint)
    rows = {
        "updates": f"{facts.update:,}" if facts.update else "",
        "epochs": str(facts.epoch or ""),
        "words seen": f"{facts.words:,}" if facts.words else "",
        "converted from": Path(facts.converted).name,
        **{f"{name} version": version for name, version in facts.versions.items()},
    }
    if starts := read_complete_starts(checkpoint.parent):
        last = starts[-1]
        sources = {
            "toolkit": last["toolkit"],
            **{str(it.get("name")): it for it in last["plugins"]},
        }
        for name, source in sources.items():
            changed = " with uncommitted changes" * bool(source.get("uncommitted_changes"))
            rows[f"{name} commit"] = f"{source.get('commit') or ''}{changed}"
        folders = [
            (Path(it["folder"]).name, it["fingerprint"][:12]) for it in last.get("data") or ()
        ]
        rows["data"] = ", ".join(f"{name} (fingerprint {digest})" for name, digest in folders)
        rows["device"] = last["device"]
    rows |= facts.metadata
    parts = ["## Training\n", *(f"* {name}: {value}" for name, value in rows.items() if value), ""]
    metrics = {
        f"{split}: {name}": f"{value:,.6g}"
        for split, values in (
            state.validation["latest"] if state and state.validation else {}
        ).items()
        for name, value in values.items()
    }
    if metrics:
        parts += ["## Validation\n", f"```\n{format_columns(metrics.items())}\n```\n"]
    if state:
        saved = to_dict(run)
        sections = {name: dict(saved[name]) for name in SECTIONS}
        sections["data"]["dirs"] = [Path(folder).name for folder in sections["data"]["dirs"]]
        options = yaml.safe_dump(sections, sort_keys=False)  # names of data folders, no paths
        parts += ["## Options\n", f"```yaml\n{options}```\n"]
    return parts
