"""Whether training twice from one seed gives the same bits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gpu_sections.batches import Shape, make_batch
from gpu_sections.context import Context, Row, describe_error
from gpu_sections.programs import VARIANTS, Model
from toolkit.tasks.build import build_model
from toolkit.tasks.examples import to_device

MODELS = [
    Model("composite_bert_small"),
    Model("bert_small"),
    Model("convbert_small", "rtd"),
    Model("taco_small"),
    Model("taco_small", "mpm"),
    Model("transformer", "translation"),
    Model("transformer_lm", "language_modeling"),
]
SMOKE = [Model("bert_tiny", options=(("layers", 1),))]
SHAPE, TINY = Shape(128, 4096, 30_004), Shape(16, 64, 100)
UPDATES = 5


def run(ctx: Context) -> Iterator[Row]:
    for model in ctx.pick(MODELS, SMOKE):
        for padded in (False, True):
            row: Row = {"program": model.name, "padding": padded}
            if not ctx.seconds_left:
                yield {**row, "first difference": "not measured: out of time"}
                continue
            try:
                yield {**row, **compare(model, padded, ctx)}
            except Exception as error:
                yield {**row, "first difference": describe_error(error)}
            ctx.reset()


def compare(model: Model, padded: bool, ctx: Context) -> Row:
    one, other = (train(model, padded, ctx) for _ in range(2))
    differing = [name for name in one if not torch.equal(one[name], other[name])]
    greatest = max(float((one[name] - other[name]).abs().max()) for name in one)
    return {
        "updates": UPDATES,
        "same bits": not differing,
        "differing tensors": len(differing),
        "greatest difference": greatest,
        "first difference": differing[0] if differing else None,
    }


def train(model: Model, padded: bool, ctx: Context) -> dict[str, Tensor]:
    """The parameters after a few updates with dropout."""
    shape = ctx.pick(SHAPE, TINY)
    torch.manual_seed(0)
    sizes = {"tokens": shape.vocabulary, "targets": shape.vocabulary}
    learner = build_model(model.arch, sizes=sizes, task=model.task, **dict(model.options))
    batch = to_device(make_batch(model.task, shape, padded=padded), ctx.device)
    trainer = model.trainer(learner, VARIANTS["eager"], ctx)
    for _ in range(UPDATES):
        trainer.step([batch], 1000)
    return {name: p.detach() for name, p in learner.named_parameters()}
