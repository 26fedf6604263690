"""Words a second of conv_san, learning and tagging, on a folder that toolkit-preprocess made.

    OMP_NUM_THREADS=1 python benchmarks/tagging_speed.py DATA [--rounds 5] [--fp32] [--busy]
        [--models conv_san_add,conv_san_conv2d] [--report]

Learning is the trainer's own `step`, RMSprop and batches of 32 sentences at 60 places, on the first
batches of an epoch; tagging is an evaluation of the part `valid`. The models take turns. Words are
those of the text, without padding. On a busy machine --busy counts the processor's seconds in place
of the clock's. An update's operations are those of its matrix products. examples/conv_san
has the cost of whole experiments.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from race import Update, race

from toolkit.analysis.flops import count_batch
from toolkit.common.registry import ARCHITECTURES, CRITERIA, LR_SCHEDULERS, OPTIMIZERS, TASKS
from toolkit.common.system import keep_freed_memory
from toolkit.config.run import ComponentConfig, RunConfig
from toolkit.config.sections import DataConfig
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.optim.precision import Precision
from toolkit.tasks.build import build_learner
from toolkit.training.data import LoadedSplit, open_split, to_sizes
from toolkit.training.evaluation import evaluate_model
from toolkit.training.trainer import Trainer

MODELS = [f"conv_san_ud_{name}" for name in ("add", "pr", "temp", "conv1d", "conv2d")]
BATCHES = 8
REPORTS = Path(__file__).parent / "reports"
CPU = World(device=torch.device("cpu"))


def task_of(arch: Any) -> ComponentConfig:
    built = TASKS["pos_tagging"]
    return ComponentConfig("pos_tagging", built.factory.suited(built.config, arch))


def split(data: str, part: str, arch: Any) -> LoadedSplit:
    c = DataConfig(batch_size=32, num_workers=0)
    folder = DataFolder.open(data)
    return open_split(part, folder, task_of(arch), c, world=CPU, seed=1, training=part == "train")


def trainer(data: str, arch: ComponentConfig, precision: str) -> Trainer:
    keep_freed_memory()
    torch.set_flush_denormal(True)
    learner = build_learner(arch, task_of(arch.config), to_sizes(DataFolder.open(data)))
    rmsprop = OPTIMIZERS["rmsprop"]
    config = replace(rmsprop.config, lr=1e-3, alpha=0.9, eps=1e-7)
    fixed, criterion = LR_SCHEDULERS["fixed"], CRITERIA["cross_entropy"]
    return Trainer(
        learner,
        criterion.factory(criterion.config),
        rmsprop.factory(config, list(learner.named_parameters())),
        fixed.factory(fixed.config, 1000),
        world=CPU,
        precision=Precision(precision, CPU.device),
    )


def batches(data: str, arch: Any) -> list[Any]:
    updates = split(data, "train", arch).loader.updates(1)
    return [batch for _, (batch,) in zip(range(BATCHES), updates, strict=False)]


def learning(data: str, model: str, precision: str) -> Update:
    arch = ComponentConfig(model, ARCHITECTURES[model].config)
    made, given = trainer(data, arch, precision), batches(data, arch.config)
    return lambda: [made.step([batch], 1000) for batch in given]


def tagging(data: str, model: str, precision: str) -> Update:
    arch = ComponentConfig(model, ARCHITECTURES[model].config)
    made, part = trainer(data, arch, precision), split(data, "valid", arch.config)
    return lambda: evaluate_model(
        made.learner,
        made.criterion,
        part.loader,
        world=CPU,
        precision=made.precision,
        examples=len(part.examples.lengths),
    )


def operations(data: str, model: str) -> float:
    """Of the products of an update, forwards and backwards, the mean over the batches."""
    arch = ComponentConfig(model, ARCHITECTURES[model].config)
    sizes, task = to_sizes(DataFolder.open(data)), task_of(arch.config)
    run = RunConfig(
        arch=arch,
        task=task,
        criterion=ComponentConfig("cross_entropy", CRITERIA["cross_entropy"].config),
        optimizer=ComponentConfig("rmsprop", OPTIMIZERS["rmsprop"].config),
        lr_scheduler=ComponentConfig("fixed", LR_SCHEDULERS["fixed"].config),
        data=DataConfig(dirs=[data], batch_size=32, num_workers=0),
    )
    given = batches(data, arch.config)
    parts = [both for batch in given for both in count_batch(run, sizes, batch).values()]
    return sum(map(sum, parts)) / len(given)


def table(asked: argparse.Namespace, precision: str) -> str:
    """What was measured, as Markdown."""
    data, models = asked.data, asked.models.split(",")
    arch = ARCHITECTURES[models[0]].config
    learned = sum(batch.tokens for batch in batches(data, arch))
    tagged = sum(batch.tokens for batch in split(data, "valid", arch).loader.evaluation())
    ways = {
        (model, what): partial(make, data, model, precision)
        for model in models
        for what, make in (("learning", learning), ("tagging", tagging))
    }
    clock = time.process_time if asked.busy else time.perf_counter
    records = race(ways, asked.rounds, warm_up=1, clock=clock)
    seconds = {key: statistics.median(record.seconds) for key, record in records.items()}
    lines = [
        f"{precision}, {torch.get_num_threads()} thread(s), {learned} words in {BATCHES} updates "
        f"and {tagged} to tag, seconds of the {'processor' if asked.busy else 'clock'}.\n",
        "| model | ms an update | GFLOP | GFLOP/s | words/s learning | words/s tagging |",
        "|---|---|---|---|---|---|",
    ]
    for model in models:
        learns, tags = seconds[model, "learning"] / BATCHES, seconds[model, "tagging"]
        work = operations(data, model) / 1e9
        lines.append(
            f"| {model} | {1e3 * learns:.0f} | {work:.1f} | {work / learns:.0f} "
            f"| {learned / BATCHES / learns:,.0f} | {tagged / tags:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder of tagged text")
    parser.add_argument("--rounds", type=int, default=5, help="timings of each model")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--fp32", action="store_true", help="single precision, in place of bf16")
    parser.add_argument("--busy", action="store_true", help="count the processor's seconds")
    parser.add_argument("--report", action="store_true", help="add the table to today's report")
    asked = parser.parse_args()
    found = table(asked, "fp32" if asked.fp32 else "bf16")
    print(found)
    if asked.report:
        path = REPORTS / f"{date.today()}-tagging-speed.md"
        with path.open("a", encoding="utf-8") as report:
            report.write(f"{found}\n\n")
        print(f"added to {path}")


if __name__ == "__main__":
    main()
