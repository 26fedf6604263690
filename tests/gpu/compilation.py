"""A run with compiled parts on a fake GPU: graphs that Dynamo makes of a stream of batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from torch._dynamo.utils import counters

from tests.gpu.batches import BATCHES, Shape
from tests.gpu.steps import DEVICE, Case, build_trainer, fake_device
from toolkit.data.loading.batching import BatchPlanner
from toolkit.tasks.examples import to_device
from toolkit.training.setup import compile_parts
from toolkit.training.trainer import Trainer

MAX_LENGTH, MEAN_LENGTH = 128, 40


class Compilation(NamedTuple):
    graphs: list[int]
    """New graphs of each batch."""
    sizes: list[int]
    """Operations of each graph."""
    breaks: dict[str, int]
    """Why Dynamo left the graph, and how often."""
    exceeded: int
    """How often a layer ran eagerly because Dynamo had made as many graphs as it may."""


class Stream(NamedTuple):
    """Batches of training, then those of a validation."""

    training: Sequence[Shape]
    validation: Sequence[Shape]


SHORT_STREAM = Stream(
    [Shape(4, 24), Shape(4, 20, padding=True), Shape(5, 28, padding=True), Shape(3, 17)],
    [Shape(6, 22, padding=True)],
)


def planned_stream(training: int, validation: int) -> Stream:
    """Shapes as the batch planner makes them of sentences of varying length, a short batch last."""
    lengths = np.random.default_rng(1).lognormal(np.log(MEAN_LENGTH), 0.6, 32 * training)
    lengths = lengths.astype(np.int64).clip(4, MAX_LENGTH)
    planner = BatchPlanner(lengths, max_tokens=1280, batch_size=None, seed=1, fingerprint="")
    plans = planner.epoch(1), planner.in_order()
    shapes = [[to_shape(lengths[plan.batch(i)]) for i in range(len(plan))] for plan in plans]
    return Stream([*shapes[0][: training - 1], Shape(3, 17, padding=True)], shapes[1][:validation])


def to_shape(lengths: Any) -> Shape:
    return Shape(len(lengths), int(lengths.max()), padding=bool(lengths.min() < lengths.max()))


RUNS = [
    (Case(arch="composite_bert_tiny", task="mlm"), SHORT_STREAM),
    (Case(arch="taco_tiny", task="mpm", options={"layers": 1}), SHORT_STREAM),
    (Case(arch="convbert_tiny", task="mlm", options={"layers": 1}), SHORT_STREAM),
    (
        Case(
            arch="transformer_tiny",
            task="translation",
            options={"encoder_layers": 2, "decoder_layers": 2},
        ),
        planned_stream(training=9, validation=2),
    ),
]
"""One of them with many lengths. Others have one layer where graphs take long to make."""


def compile_run(case: Case, stream: Stream) -> Compilation:
    torch._dynamo.reset()
    counters.clear()
    sizes: list[int] = []
    with fake_device():
        trainer = build_trainer(case)
        with recorded_graphs(sizes):
            compile_parts(trainer.learner, DEVICE)
        made = [0]
        for shape in stream.training:
            train(trainer, BATCHES[case.task](shape))
            made.append(len(sizes))
        for shape in stream.validation:
            validate(trainer, BATCHES[case.task](shape))
            made.append(len(sizes))
    return Compilation(np.diff(made).tolist(), sizes, *read_counters())


def read_counters() -> tuple[dict[str, int], int]:
    """Breaks with the first line of their reasons, and how often the limit was met."""
    reasons: Counter[str] = Counter()
    for kind in ("graph_break", "unimplemented"):
        for reason, times in counters[kind].items():
            reasons[reason.splitlines()[0]] += times
    exceeded = sum(reasons.pop(reason) for reason in list(reasons) if "recompile limit" in reason)
    return dict(reasons), exceeded


@contextmanager
def recorded_graphs(sizes: list[int]) -> Iterator[None]:
    """Modules that are compiled run their graphs as they are, and add their sizes to the list."""
    compile_module = nn.Module.compile

    def record(graph: Any, inputs: Any) -> Any:
        calls = ("call_function", "call_method", "call_module")
        sizes.append(sum(node.op in calls for node in graph.graph.nodes))
        return graph.forward

    def compile_recorded(module: nn.Module, **options: Any) -> None:
        options.pop("options", None)
        compile_module(module, backend=record, **options)

    with patch.object(nn.Module, "compile", compile_recorded):
        yield


def train(trainer: Trainer, batch: Any) -> None:
    known = dict(batch.weights), False
    with patch.object(trainer, "sync_weights_and_stop", lambda batches: known):
        trainer.step([batch], 10**9)


@torch.no_grad()
def validate(trainer: Trainer, batch: Any) -> None:
    trainer.learner.eval()
    with trainer.precision.autocast():
        trainer.criterion(
            trainer.learner(to_device(batch, DEVICE, packs=trainer.learner.encoder.uses_packing))
        )
    trainer.learner.train()
