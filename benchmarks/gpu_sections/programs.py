"""Updates of the toolkit's models and of those of Transformers, with the FLOPs of each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from harness import Update
from workloads import make_trainer, random_tokens, transformers_update

from gpu_sections.batches import Shape, make_batch
from gpu_sections.context import Context
from gpu_sections.hugging_face import make_model
from toolkit.nn.ops.dispatch import switched_off
from toolkit.tasks.build import build_model
from toolkit.training.callbacks.logging import update_flops
from toolkit.training.flop_counter import FlopCounter

PRECISION = "bf16"
GRAPHS = {"cuda_graph": "auto"}
VARIANTS: dict[str, dict[str, Any]] = {
    "eager": {},
    "compiled": {"compile": True},
    "graphed": GRAPHS,
    "compiled, graphed": {"compile": True, **GRAPHS},
    "without attention kernel": {"packing": False},
    "unmeasured paths": {},
}
"""Name -> options of the section `training`. A new one is a column of the summary."""
EAGER, COMPILED, GRAPHED = ("eager",), ("eager", "compiled"), ("eager", "graphed")
ALL, PLAIN = tuple(VARIANTS)[:4], tuple(VARIANTS)[4:]
"""Batches of 65,536 tokens and more have no graphs."""


class Program(NamedTuple):
    update: Update
    flops: float
    """Of matrix products and convolutions, forward and backward."""
    tokens: int


@dataclass(frozen=True)
class Model:
    """A model of the toolkit with a task."""

    arch: str
    task: str = "mlm"
    variants: tuple[str, ...] = EAGER
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.arch} {self.task}"

    def make(self, variant: str, shape: Shape, ctx: Context, *, padded: bool = False) -> Program:
        torch.manual_seed(0)
        v = shape.vocabulary
        sizes = {"tokens": v, "targets": v}
        learner = build_model(self.arch, sizes=sizes, task=self.task, **dict(self.options))
        learner.to(ctx.device)
        batch = ctx.pin(make_batch(self.task, shape, padded=padded))
        with torch.autocast(ctx.device.type, torch.bfloat16):
            flops = update_flops(learner, batch, ctx.device)
        trainer = self.trainer(learner, VARIANTS[variant], ctx)
        paths = switched_off if variant == "unmeasured paths" else nullcontext

        def update() -> None:
            with paths():
                trainer.step([batch], 1000)

        return Program(update, flops, batch.tokens)

    def trainer(self, learner: Any, training: Mapping[str, Any], ctx: Context) -> Any:
        device = str(ctx.device)
        return make_trainer(learner, PRECISION, clip_norm=1.0, device=device, training=training)


@dataclass(frozen=True)
class Peer:
    """A model of Transformers: an update as `transformers.Trainer` does it, under autocast."""

    model: str
    size: str
    variants: tuple[str, ...] = EAGER
    """`eager` and `compiled`, by torch.compile of the whole model."""

    @property
    def name(self) -> str:
        return f"HF {self.model} {self.size}"

    def make(self, variant: str, shape: Shape, ctx: Context) -> Program:
        torch.manual_seed(0)
        model = make_model(self.model, self.size, shape.vocabulary, shape.length).to(ctx.device)
        ids = random_tokens(shape.vocabulary, shape.length, shape.tokens)[0].to(ctx.device)
        with torch.no_grad(), torch.autocast(ctx.device.type, torch.bfloat16), FlopCounter() as it:
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        arguments = shape.vocabulary, shape.length, shape.tokens, PRECISION, ctx.device.type
        compiled = torch.compile(model) if variant == "compiled" else model
        update = transformers_update(compiled, *arguments)
        return Program(with_default_attention(update), 3.0 * it.total, ids.numel())


def with_default_attention(update: Update) -> Update:
    """The update with torch's default choice of attention kernels, which the toolkit restricts."""

    def run() -> None:
        torch.backends.cuda.enable_cudnn_sdp(True)
        try:
            update()
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)

    return run
