"""The model card (README.md) of an export: what the checkpoint records, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import STATE, read_json
from toolkit.common.json_files import JsonObject
from toolkit.config.columns import format_columns
from toolkit.config.serialize import to_dict
from toolkit.data.formats.classification.tokenizer import ClassificationTokenizer
from toolkit.tasks.learner import Learner

if TYPE_CHECKING:
    from toolkit.huggingface.model import ToolkitPreTrainedModel

MODEL_CARD_FILE = "README.md"
SECTIONS = ("arch", "task", "criterion", "optimizer", "lr_scheduler", "data", "training")
PIPELINES = {
    "ToolkitForMaskedLM": "fill-mask",
    "ToolkitForSequenceClassification": "text-classification",
    "ToolkitForTokenClassification": "token-classification",
    "ToolkitForQuestionAnswering": "question-answering",
    "ToolkitForCausalLM": "text-generation",
    "ToolkitForConditionalGeneration": "translation",
}
CALLS = {
    "ToolkitForMaskedLM": 'model(f"This is a {model.tokenizer.mask_token}.")',
    "ToolkitForSequenceClassification": 'model("A lovely film.")',
    "ToolkitForTokenClassification": 'model("The sun rose over the hill .")',
    "ToolkitForQuestionAnswering": (
        'model(question="What rose?", context="The sun rose over the hill.")'
    ),
    "ToolkitForCausalLM": 'model("The sun", return_full_text=True)',
}
PAIR_CALL = 'model({"text": "A lovely film.", "text_pair": "I liked it."})'
AUTO_CLASSES = {
    "ToolkitForPreTraining": "AutoModelForPreTraining",
    "ToolkitForMultipleChoice": "AutoModelForMultipleChoice",
    "ToolkitModel": "AutoModel",
}


def build_model_card(
    name: str, checkpoint: Path, learner: Learner, model: ToolkitPreTrainedModel
) -> str:
    """Markdown; nothing is said that the checkpoint does not record. `name` is the export's."""
    class_name = type(model).__name__
    arch, task = model.config.arch["name"], model.config.task["name"]
    header = {"library_name": "transformers", "tags": ["toolkit", str(arch)]}
    if class_name in PIPELINES:
        header["pipeline_tag"] = PIPELINES[class_name]
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n",
        f"# {name}\n",
        f"Architecture `{arch}`, task `{task}`, {model.num_parameters():,} parameters, class "
        f"`{class_name}`.\n",
        "## Use\n",
        "The model requires the toolkit: `pip install 'toolkit-seq[hf]'`.\n",
        f"```python\n{build_snippet(name, class_name, learner)}```\n",
        *describe_run(checkpoint, learner),
    ]
    return "\n".join(parts)


def build_snippet(name: str, class_name: str, learner: Learner) -> str:
    """Python that loads the folder from the one that it is in."""
    source = f'"{name}", trust_remote_code=True'
    if class_name in CALLS:
        tokenizer = learner.tokenizer
        pairs = isinstance(tokenizer, ClassificationTokenizer) and tokenizer.labels.pairs
        return (
            "from transformers import pipeline\n\n"
            f'model = pipeline("{PIPELINES[class_name]}", model={source})\n'
            f"print({PAIR_CALL if pairs else CALLS[class_name]})\n"
        )
    if class_name == "ToolkitForConditionalGeneration":
        auto = "AutoModelForSeq2SeqLM"
        call = "tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True)"
    else:
        auto, call = AUTO_CLASSES[class_name], "model(**inputs)"
    text = '"A lovely film."'
    if class_name == "ToolkitForMultipleChoice":
        text = '["A passage."] * 2, ["One option.", "Another."], padding=True'
        call = "model(**{name: values[None] for name, values in inputs.items()}).logits"
    return (
        f"from transformers import {auto}, AutoTokenizer\n\n"
        f"tokenizer = AutoTokenizer.from_pretrained({source})\n"
        f"model = {auto}.from_pretrained({source})\n"
        f'inputs = tokenizer({text}, return_tensors="pt")\n'
        f"print({call})\n"
    )


def describe_run(checkpoint: Path, learner: Learner) -> list[str]:
    """Sections on the training run: progress, versions, metrics, options."""
    facts = manifest.read(checkpoint)
    state = read_json(checkpoint / STATE) if (checkpoint / STATE).exists() else {}
    rows = {
        "updates": f"{facts['update']:,}" if facts.get("update") else "",
        "epochs": str(facts.get("epoch") or ""),
        "converted from": Path(str(facts.get("converted", ""))).name,
        **{f"{name} version": str(version) for name, version in facts.get("versions", {}).items()},
        **{str(name): str(value) for name, value in learner.metadata.items()},
    }
    rows = {name: value for name, value in rows.items() if value}
    parts = ["## Training\n", *(f"* {name}: {value}" for name, value in rows.items()), ""]
    if metrics := read_metrics(state):
        table = format_columns(metrics.items())
        parts += ["## Validation\n", f"```\n{table}\n```\n"]
    if learner.origin is not None and learner.origin.run is not None and state:
        parts += ["## Options\n", f"```yaml\n{describe_options(to_dict(learner.origin.run))}```\n"]
    return parts


def read_metrics(state: Mapping[str, JsonObject]) -> dict[str, str]:
    """Metrics of the last validation before the checkpoint was written."""
    validation = state.get("callbacks", {}).get("validation", {})
    return {
        f"{split}: {name}": f"{value:,.6g}"
        for split, values in (validation.get("latest") or {}).items()
        for name, value in values.items()
    }


def describe_options(run: JsonObject) -> str:
    """The options of the run as YAML, with names of data folders but no paths."""
    sections = {name: dict(run[name]) for name in SECTIONS}
    sections["data"]["dirs"] = [Path(folder).name for folder in sections["data"]["dirs"]]
    text: str = yaml.safe_dump(sections, sort_keys=False)
    return text
