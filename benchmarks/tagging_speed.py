"""Words per second of conv_san, training and tagging, on a data folder of tagged text.

    OMP_NUM_THREADS=1 python benchmarks/tagging_speed.py DATA [--rounds 5] [--fp32] [--busy]
        [--rows add,conv2d] [--report]

Training is the trainer's `step` with the recipe of examples/conv_san (RMSprop, batches of 32
sentences of 60 positions), on the first batches of an epoch; tagging is an evaluation of the split
`valid`. The models are rows of the paper's Table 2 at the size of conv_san_ud; they alternate.
Words do not include padding. With --busy, seconds are processor time, for busy machines. An
update's operations are those of its matrix products.
"""

from __future__ import annotations

import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from harness import Update, machine, parser, publish, race, table
from workloads import make_trainer

from toolkit.analysis.flops import count_on_device
from toolkit.config.commands.train import TRAIN
from toolkit.config.load import load
from toolkit.config.sections import RunConfig
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import SHAPE_MULTIPLE, SplitSource
from toolkit.training.data import LoadedSplit, open_split, resolve_task, to_sizes
from toolkit.training.evaluation import evaluate_model

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "conv_san"
BATCHES = 8
CPU = World(device=torch.device("cpu"))


@cache
def run_config(data: str, row: str) -> RunConfig:
    recipes = ["--config=recipe:dufter2020", f"--config={EXAMPLE / 'rows' / row}.yaml"]
    return load([data, *recipes, "--arch", "conv_san_ud"], TRAIN).config


def load_split(data: str, part: str, row: str) -> LoadedSplit:
    c = run_config(data, row)
    task, folder = resolve_task(c.task, c.arch), DataFolder.open(data)
    source = SplitSource(folder, part, 1, part == "train", SHAPE_MULTIPLE)
    return open_split(source, task, c.data, world=CPU)


def build_trainer(data: str, row: str, precision: str) -> Any:
    torch.set_flush_denormal(True)
    c = run_config(data, row)
    sizes = to_sizes(DataFolder.open(data))
    learner = build_learner(c.arch, resolve_task(c.task, c.arch), sizes)
    options = {"lr": 1e-3, "alpha": 0.9, "eps": 1e-7}
    return make_trainer(
        learner, precision, optimizer="rmsprop", options=options, lr_scheduler="fixed"
    )


def load_batches(data: str, row: str) -> list[Any]:
    updates = load_split(data, "train", row).loader.updates(1)
    return [batch for _, (batch,) in zip(range(BATCHES), updates, strict=False)]


def training(data: str, row: str, precision: str) -> Update:
    trainer, updates = build_trainer(data, row, precision), load_batches(data, row)
    return lambda: [trainer.step([batch], 1000) for batch in updates]


def tagging(data: str, row: str, precision: str) -> Update:
    trainer, part = build_trainer(data, row, precision), load_split(data, "valid", row)
    return lambda: evaluate_model(
        trainer.learner,
        trainer.criterion,
        part.loader,
        world=CPU,
        precision=trainer.precision,
        examples=len(part.examples.lengths),
    )


def count_operations(data: str, row: str) -> float:
    """Mean FLOPs of the matrix products of an update, forward and backward."""
    c, sizes, updates = (
        run_config(data, row),
        to_sizes(DataFolder.open(data)),
        load_batches(data, row),
    )
    parts = [
        part for batch in updates for part in count_on_device(CPU.device, c, sizes, batch).values()
    ]
    return sum(map(sum, parts)) / len(updates)


def speed_table(data: str, rows: list[str], precision: str, rounds: int, *, busy: bool) -> str:
    trained = sum(batch.tokens for batch in load_batches(data, rows[0]))
    tagged = sum(batch.tokens for batch in load_split(data, "valid", rows[0]).loader.evaluation())
    programs = {
        (row, what): partial(make, data, row, precision)
        for row in rows
        for what, make in (("training", training), ("tagging", tagging))
    }
    clock = time.process_time if busy else time.perf_counter
    records = race(programs, rounds, warm_up=1, clock=clock)
    lines = []
    for row in rows:
        update, tags = records[row, "training"].median / BATCHES, records[row, "tagging"].median
        work = count_operations(data, row) / 1e9
        speeds = [f"{trained / BATCHES / update:,.0f}", f"{tagged / tags:,.0f}"]
        costs = [f"{1e3 * update:.0f}", f"{work:.1f}", f"{work / update:.0f}"]
        lines.append([row, *costs, *speeds])
    head = ["row", "ms per update", "GFLOP", "GFLOP/s", "words/s training", "words/s tagging"]
    return (
        f"{precision}, {trained} words in {BATCHES} updates and {tagged} to tag, "
        f"{'processor' if busy else 'wall'} seconds\n\n{table(head, lines)}"
    )


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("data", help="data folder of tagged text")
    options.add_argument("--rows", default="add,pr,temp,conv1d,conv2d", help="comma-separated")
    options.add_argument("--fp32", action="store_true", help="single precision instead of bf16")
    options.add_argument("--busy", action="store_true", help="measure processor time")
    args = options.parse_args()
    precision, rows = "fp32" if args.fp32 else "bf16", args.rows.split(",")
    text = speed_table(args.data, rows, precision, args.rounds, busy=args.busy)
    publish(f"{machine()}; {text}\n", args.report, "Speed of tagging", __doc__)


if __name__ == "__main__":
    main()
