"""Epochs of fine-tuning on GLUE, ours and those of Hugging Face's `Trainer`, on the same rows.

    python benchmarks/glue_speed.py GLUE_DATA [--tasks MRPC,MNLI] [--rows 1024] [--rounds 3]

(needs the extra `hf`; GLUE_DATA is a folder with the benchmark's own, such as GLUE_DATA/MRPC.)

Every contestant trains a BERT of 12 layers, width 256 and 4 heads on the same rows, as the same
ids, 32 rows an update, dropout 0.1, clipping at 1, AdamW; one timing is an epoch of the first
`--rows` rows, its updates and its logging. Theirs is `Trainer.train()` with
`BertForSequenceClassification`: by its defaults (fp32, each batch padded to its longest row by
`DataCollatorWithPadding`), and with rows grouped by length under bf16 autocast. Ours is what
toolkit-train does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from race import Record, Update, machine, race, report

from toolkit.common.system import keep_freed_memory
from toolkit.config.load import compose
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.preprocess import preprocess_files
from toolkit.data.storage.corpora import Corpora
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.tasks.glue.config import DEFAULT_TOKENS, GlueConfig
from toolkit.tasks.glue.examples import GlueExamples
from toolkit.training.callbacks.logging import MetricsLogger
from toolkit.training.data import TrainingData, resolve_task
from toolkit.training.setup import make_trainer

BATCH, LAYERS, WIDTH, HEADS = 32, 12, 256, 4
OURS = "ours, bf16"
WARM_UP = 1


def prepare(table: Path, rows: int, words: int, folder: Path) -> Path:
    """A data folder of a task's first training rows, in the vocabulary of all of them."""
    lines = table.read_text("utf-8-sig").split("\n")
    part = folder / "part.tsv"
    part.write_text("\n".join(lines[: rows + 1]) + "\n", "utf-8")
    task = {"format": "glue", "glue_task": table.parent.name}
    options = {"trainpref": str(table), "vocab_size": words, "destdir": str(folder / "all")}
    preprocess_files(**task, **options)
    options = {"trainpref": str(part), "tokenizer_from": str(folder / "all")}
    preprocess_files(**task, **options, destdir=str(folder / "part"))
    return folder / "part"


def ours(data: Path, precision: str) -> Update:
    """One epoch after the other, as toolkit-train takes them."""
    keep_freed_memory()
    torch.set_flush_denormal(True)
    shape = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "embedding_width": WIDTH}
    given = {"arch": "bert", "task": "glue", **{f"arch.{n}": value for n, value in shape.items()}}
    recipe = {"lr": 5e-5, "batch_size": BATCH, "max_epoch": 1000, "num_workers": 0}
    config = compose({**given, **recipe, "data.dirs": [str(data)], "precision": precision})
    world = World(device=torch.device("cpu"))
    corpora = Corpora.open(str(data))
    found = TrainingData(
        corpora, resolve_task(config.task, config.arch), config.data, world=world, seed=1
    )
    made = make_trainer(
        config, corpora.all, world, total_updates=10**6, resume_point=None, print_message=print
    )
    made.learner.train()
    log = MetricsLogger(made, None, config.logging.log_interval, 10**6)

    def epoch() -> None:
        made.fit(
            lambda epoch: found, max_update=10**6, max_epoch=made.progress.epoch, observers=[log]
        )

    return epoch


def rows_of(data: Path) -> list[dict[str, list[int] | int]]:
    """Each row as Hugging Face's tokenizers give it."""
    split = ClassificationSplit(DataFolder.open(str(data)), "train")
    examples = GlueExamples(GlueConfig(tokens_per_sample=DEFAULT_TOKENS), split, training=True)
    found: list[dict[str, list[int] | int]] = []
    for row in range(len(split)):
        batch = examples.collate(np.array([row]), 1)
        ids = batch.inputs.tokens[0].tolist()
        types = batch.inputs.segments
        found.append(
            {
                "input_ids": ids,
                "token_type_ids": [0] * len(ids) if types is None else types[0].tolist(),
                "attention_mask": [1] * len(ids),
                "labels": int(batch.targets[0]),
            }
        )
    return found


def tokenizer(data: Path) -> Any:
    """Only to pad with."""
    import tokenizers
    import transformers

    words = DataFolder.open(str(data)).vocabulary
    model = tokenizers.models.WordLevel({"[PAD]": words.pad}, unk_token="[PAD]")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), pad_token="[PAD]"
    )


def hugging_faces(data: Path, **options: Any) -> Update:
    """`Trainer.train()` for an epoch, whatever it needs to begin included."""
    import transformers

    transformers.logging.set_verbosity_error()
    rows, padder = rows_of(data), tokenizer(data)
    config = transformers.BertConfig(
        vocab_size=len(DataFolder.open(str(data)).vocabulary),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=128,
        num_labels=len({row["labels"] for row in rows}),
    )
    model = transformers.BertForSequenceClassification(config)
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **options,
    )

    def epoch() -> None:
        trainer = transformers.Trainer(
            model,
            arguments,
            train_dataset=rows,
            data_collator=transformers.DataCollatorWithPadding(padder),
        )
        trainer.train()

    return epoch


def contestants(data: Path) -> dict[str, Any]:
    grouped = {"bf16": True, "train_sampling_strategy": "group_by_length"}
    return {
        OURS: partial(ours, data, "bf16"),
        "ours, fp32": partial(ours, data, "fp32"),
        "HF Trainer, its defaults (fp32)": partial(hugging_faces, data),
        "HF Trainer, grouped by length, bf16": partial(hugging_faces, data, **grouped),
    }


def table(records: Mapping[str, Record], task: str, rows: int) -> str:
    medians = {name: statistics.median(record.seconds) for name, record in records.items()}
    lines = [
        f"| {task}, {rows:,} rows | median s | fastest s | rows/s | times ours | peak memory MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, (seconds, peak) in records.items():
        lines.append(
            f"| {name} | {medians[name]:.1f} | {min(seconds):.1f} | {rows / medians[name]:,.0f} "
            f"| {medians[name] / medians[OURS]:.2f} | {peak:,.0f} |"
        )
    return "\n".join(lines)


def measured(task: str, asked: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        training = Path(asked.data) / task / "train.tsv"
        data = prepare(training, asked.rows, asked.vocab_size, Path(folder))
        rows = len(ClassificationSplit(DataFolder.open(str(data)), "train"))
        return table(race(contestants(data), asked.rounds, WARM_UP), task, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder of GLUE")
    parser.add_argument("--tasks", default="MRPC,MNLI", help="names with commas")
    parser.add_argument("--rows", type=int, default=1024, help="rows of an epoch, at most")
    parser.add_argument("--vocab-size", type=int, default=8000, help="symbols")
    parser.add_argument("--rounds", type=int, default=3, help="epochs timed for each contestant")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    text = f"{machine()}; {asked.vocab_size:,} symbols\n"
    print(text, flush=True)
    for task in asked.tasks.split(","):
        found = measured(task, asked)
        print(found, flush=True)
        text += f"\n{found}\n"
    if asked.report:
        report("glue-speed", "Speed of fine-tuning", __doc__, text)


if __name__ == "__main__":
    main()
