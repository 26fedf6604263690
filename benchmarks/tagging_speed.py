"""Words a second of conv_san, learning and tagging, on a folder that toolkit-preprocess made.

    OMP_NUM_THREADS=1 python benchmarks/tagging_speed.py DATA [--rounds 5] [--fp32]

Learning is the trainer's own `step`, RMSprop and batches of 32 sentences at 60 places, on the first
batches of an epoch; tagging is an evaluation of the part `valid`. The models take turns. Words are
those of the text, without padding. What a whole experiment takes, examples/conv_san/collect.py
tells from its runs.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from race import Update, race

from toolkit.common.memory import keep_freed_memory
from toolkit.common.registry import ARCHITECTURES, CRITERIA, LR_SCHEDULERS, OPTIMIZERS, TASKS
from toolkit.config.run import Chosen
from toolkit.config.sections import DataConfig
from toolkit.data.folder import DataFolder
from toolkit.distributed import World
from toolkit.optim.precision import Precision
from toolkit.training.build import build_learner
from toolkit.training.data import Split, sizes_of, split_of
from toolkit.training.trainer import Trainer
from toolkit.training.validate import validate

MODELS = ("add", "pr", "temp", "conv1d", "conv2d")
BATCHES = 8
CPU = World(device=torch.device("cpu"))


def task_of(arch: Any) -> Chosen:
    built = TASKS["pos_tagging"]
    return Chosen("pos_tagging", built.build.suited(built.config, arch))


def split(data: str, part: str, arch: Any) -> Split:
    c = DataConfig(batch_size=32, num_workers=0)
    folder = DataFolder.open(data)
    return split_of(part, folder, task_of(arch), c, world=CPU, seed=1, training=part == "train")


def trainer(data: str, arch: Chosen, precision: str) -> Trainer:
    keep_freed_memory()
    torch.set_flush_denormal(True)
    learner = build_learner(arch, task_of(arch.config), sizes_of(DataFolder.open(data)))
    rmsprop = OPTIMIZERS["rmsprop"]
    config = replace(rmsprop.config, lr=1e-3, alpha=0.9, eps=1e-7)
    fixed, criterion = LR_SCHEDULERS["fixed"], CRITERIA["cross_entropy"]
    return Trainer(
        learner,
        criterion.build(criterion.config),
        rmsprop.build(config, list(learner.named_parameters())),
        fixed.build(fixed.config, 1000),
        world=CPU,
        precision=Precision(precision, CPU.device),
    )


def batches(data: str, arch: Any) -> list[Any]:
    updates = split(data, "train", arch).loader.updates(1)
    return [batch for _, (batch,) in zip(range(BATCHES), updates, strict=False)]


def learning(data: str, model: str, precision: str) -> Update:
    arch = Chosen(model, ARCHITECTURES[model].config)
    made, given = trainer(data, arch, precision), batches(data, arch.config)
    return lambda: [made.step([batch], 1000) for batch in given]


def tagging(data: str, model: str, precision: str) -> Update:
    arch = Chosen(model, ARCHITECTURES[model].config)
    made, part = trainer(data, arch, precision), split(data, "valid", arch.config)
    return lambda: validate(
        made.learner,
        made.criterion,
        part.loader,
        world=CPU,
        precision=made.precision,
        examples=len(part.examples.lengths),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder of tagged text")
    parser.add_argument("--rounds", type=int, default=5, help="timings of each model")
    parser.add_argument("--fp32", action="store_true", help="single precision, in place of bf16")
    asked = parser.parse_args()
    precision = "fp32" if asked.fp32 else "bf16"
    arch = ARCHITECTURES["conv_san_ud"].config
    learnt = sum(batch.tokens for batch in batches(asked.data, arch))
    tagged = sum(batch.tokens for batch in split(asked.data, "valid", arch).loader.evaluation())
    print(f"{precision}, {torch.get_num_threads()} thread(s), {learnt} and {tagged} words")
    print("| model | ms an update | words/s learning | words/s tagging |\n|---|---|---|---|")
    ways = {
        (model, what): partial(make, asked.data, f"conv_san_ud_{model}", precision)
        for model in MODELS
        for what, make in (("learning", learning), ("tagging", tagging))
    }
    seconds = {
        key: statistics.median(record.seconds) for key, record in race(ways, asked.rounds).items()
    }
    for model in MODELS:
        learns, tags = seconds[model, "learning"], seconds[model, "tagging"]
        print(
            f"| {model} | {1e3 * learns / BATCHES:.0f} | {learnt / learns:,.0f} "
            f"| {tagged / tags:,.0f} |"
        )


if __name__ == "__main__":
    main()
