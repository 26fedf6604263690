"""Epochs of fine-tuning on GLUE: toolkit-train and the `Trainer` of Hugging Face Transformers.

    python benchmarks/glue_speed.py GLUE_DATA [--tasks MRPC,MNLI] [--rows 1024] [--rounds 3]

(needs the extra `hf`; GLUE_DATA contains folders such as GLUE_DATA/MRPC.)

All programs train a BERT of 12 layers, width 256 and 4 heads on the same rows and token ids: 32
rows per update, dropout 0.1, clipping at 1, AdamW. One timing is an epoch of the first `--rows`
rows, with updates and logging. The Transformers program is `Trainer.train()` with
`BertForSequenceClassification`: with its defaults (fp32, each batch padded to its longest row by
`DataCollatorWithPadding`), and with rows grouped by length under bf16 autocast.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Record, Update, machine, parser, publish, race, table

from toolkit import preprocess
from toolkit.common.system import keep_freed_memory
from toolkit.config.load import compose
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue import Glue, GlueConfig, GlueExamples
from toolkit.training.callbacks.logging import MetricsLogger
from toolkit.training.data import TrainingData, resolve_task
from toolkit.training.setup import make_trainer

BATCH, LAYERS, WIDTH, HEADS = 32, 12, 256, 4
REFERENCE = "toolkit, bf16"
WARM_UP = 1


def preprocess_rows(table: Path, rows: int, words: int, folder: Path) -> Path:
    """A data folder of a task's first training rows, in the vocabulary of all of them."""
    lines = table.read_text("utf-8-sig").split("\n")
    part = folder / "part.tsv"
    part.write_text("\n".join(lines[: rows + 1]) + "\n", "utf-8")
    task = {"format": "glue", "glue_task": table.parent.name}
    options = {"trainpref": str(table), "vocab_size": words, "destdir": str(folder / "all")}
    preprocess(**task, **options)
    options = {"trainpref": str(part), "tokenizer_from": str(folder / "all")}
    preprocess(**task, **options, destdir=str(folder / "part"))
    return folder / "part"


def toolkit_epoch(data: Path, precision: str) -> Update:
    """Consecutive epochs of toolkit-train's trainer."""
    keep_freed_memory()
    torch.set_flush_denormal(True)
    shape = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "embedding_width": WIDTH}
    components = {
        "arch": "bert",
        "task": "glue",
        **{f"arch.{n}": value for n, value in shape.items()},
    }
    recipe = {"lr": 5e-5, "batch_size": BATCH, "max_epoch": 1000, "num_workers": 0}
    config = compose({**components, **recipe, "data.dirs": [str(data)], "precision": precision})
    world = World(device=torch.device("cpu"))
    corpora = Corpora.open(str(data))
    training = TrainingData(
        corpora, resolve_task(config.task, config.arch), config.data, world=world, seed=1
    )
    trainer = make_trainer(
        config, corpora.all, world, total_updates=10**6, resume_point=None, print_message=print
    )
    trainer.learner.train()
    log = MetricsLogger(trainer, None, config.logging.log_interval, 10**6)

    def epoch() -> None:
        trainer.fit(
            training.loader_for, max_update=10**6, max_epoch=trainer.progress.epoch, callbacks=[log]
        )

    return epoch


def load_rows(data: Path) -> list[dict[str, list[int] | int]]:
    """The rows in the format of Transformers' tokenizers."""
    source = SplitSource(DataFolder.open(str(data)), "train", training=True)
    examples = GlueExamples(GlueConfig(tokens_per_sample=Glue.default_tokens), source)
    split = examples.split
    rows: list[dict[str, list[int] | int]] = []
    for index in range(len(split)):
        batch = examples.collate(np.array([index]), 1)
        ids = batch.inputs.tokens[0].tolist()
        types = batch.inputs.segments
        rows.append(
            {
                "input_ids": ids,
                "token_type_ids": [0] * len(ids) if types is None else types[0].tolist(),
                "attention_mask": [1] * len(ids),
                "labels": int(batch.targets[0]),
            }
        )
    return rows


def padding_tokenizer(data: Path) -> Any:
    """A tokenizer that is only used for padding."""
    import tokenizers
    import transformers

    words = DataFolder.open(str(data)).vocabulary
    model = tokenizers.models.WordLevel({"[PAD]": words.pad}, unk_token="[PAD]")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), pad_token="[PAD]"
    )


def transformers_epoch(data: Path, **options: Any) -> Update:
    """`Trainer.train()` for an epoch, its start included."""
    import transformers

    transformers.logging.set_verbosity_error()
    rows, padder = load_rows(data), padding_tokenizer(data)
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
        hf_trainer = transformers.Trainer(
            model,
            arguments,
            train_dataset=rows,
            data_collator=transformers.DataCollatorWithPadding(padder),
        )
        hf_trainer.train()

    return epoch


def contestants(data: Path) -> dict[str, Any]:
    grouped = {"bf16": True, "train_sampling_strategy": "group_by_length"}
    return {
        REFERENCE: partial(toolkit_epoch, data, "bf16"),
        "toolkit, fp32": partial(toolkit_epoch, data, "fp32"),
        "HF Trainer, defaults (fp32)": partial(transformers_epoch, data),
        "HF Trainer, grouped by length, bf16": partial(transformers_epoch, data, **grouped),
    }


def epoch_table(records: Mapping[str, Record], task: str, rows: int) -> str:
    head = [f"{task}, {rows:,} rows", "median s", "fastest s", "rows/s"]
    lines = [
        [
            name,
            f"{record.median:.1f}",
            f"{min(record.seconds):.1f}",
            f"{rows / record.median:,.0f}",
            f"{record.median / records[REFERENCE].median:.2f}",
            f"{record.peak_mib:,.0f}",
        ]
        for name, record in records.items()
    ]
    return table([*head, f"times {REFERENCE}", "peak memory MiB"], lines)


def measure_task(task: str, args: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(args.data) / task / "train.tsv"
        data = preprocess_rows(table, args.rows, args.vocab_size, Path(folder))
        rows = len(ClassificationSplit(DataFolder.open(str(data)), "train"))
        return epoch_table(race(contestants(data), args.rounds, WARM_UP), task, rows)


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("data", help="folder of GLUE")
    options.add_argument("--tasks", default="MRPC,MNLI", help="comma-separated names")
    options.add_argument("--rows", type=int, default=1024, help="maximum number of rows per epoch")
    options.add_argument("--vocab-size", type=int, default=8000)
    args = options.parse_args()
    tables = [measure_task(task, args) for task in args.tasks.split(",")]
    text = "\n\n".join([f"{machine()}; vocabulary of {args.vocab_size:,}", *tables]) + "\n"
    publish(text, args.report, "Speed of fine-tuning", __doc__)


if __name__ == "__main__":
    main()
