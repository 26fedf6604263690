"""The model card (README.md) of an export: what the checkpoint records, and how to use it."""

from __future__ import annotations

from pathlib import Path

import yaml

from toolkit.checkpoints.load import read_config
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.checkpoints.start_record import read_complete_starts
from toolkit.config.command import format_columns
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.training.callbacks.checkpointing import read_state

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


TEXT, PRINT = '"A lovely film."', "print(model(**inputs))"
EXAMPLES = {
    "Model": ("AutoModel", TEXT, PRINT),
    "ForPreTraining": ("AutoModelForPreTraining", TEXT, PRINT),
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
        folders = [(Path(it["folder"]).name, it["fingerprint"][:12]) for it in last.get("data", [])]
        rows["data"] = ", ".join(f"{name} (fingerprint {digest})" for name, digest in folders)
        rows["device"] = last["device"]
    rows |= facts.metadata
    parts = ["## Training\n", *(f"* {name}: {value}" for name, value in rows.items() if value), ""]
    metrics = {
        f"{split}: {name}": f"{value:,.6g}"
        for split, values in (state.validation.latest if state and state.validation else {}).items()
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
