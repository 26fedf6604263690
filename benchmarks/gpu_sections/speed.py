"""Speed, memory, synchronizations and utilization of updates, in groups that alternate.

A group's first program is its reference. The best bf16 product takes its turn among the programs of
each group, so that shares of it come from the same minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from gpu_sections.batches import Shape
from gpu_sections.context import Context, Row, describe_error
from gpu_sections.observe import observe
from gpu_sections.products import best_product
from gpu_sections.programs import (
    ALL,
    COMPILED,
    EAGER,
    GRAPHED,
    PLAIN,
    PRECISION,
    Model,
    Peer,
    Program,
)
from toolkit.training.callbacks.logging import PEAK_FLOPS

V = 30_004
LONG = (("max_positions", 512),)
BEST = "best product"


class Group(NamedTuple):
    shape: Shape
    programs: tuple[Model | Peer, ...]


def peers(size: str, *names: str, variants: tuple[str, ...] = EAGER) -> tuple[Peer, ...]:
    names = names or ("BERT", "DeBERTa-v2", "ModernBERT")
    return tuple(Peer(name, size, variants) for name in names)


COMPOSITE, CONVBERT = Model("composite_bert_small"), Model("convbert_small", "rtd")
BERT = Model("bert_small")
TACO, TACO_MPM = Model("taco_small", variants=ALL), Model("taco_small", "mpm")
SMALL_BATCHES = (
    Model("composite_bert_small", variants=ALL),
    Model("bert_small", variants=GRAPHED),
    Model("convbert_small", "rtd", GRAPHED),
    Model("taco_small", variants=GRAPHED),
)
BASE_IN_SMALL_BATCHES = Model("composite_bert", variants=GRAPHED), Model("bert", variants=GRAPHED)
TRANSFORMER = Model("transformer", "translation", ALL)
LM = Model("transformer_lm", "language_modeling", ALL)
LONG_SMALL = (
    Model("composite_bert_small", variants=EAGER + PLAIN, options=LONG),
    Model("bert_small", options=LONG),
    CONVBERT,
    Model("taco_small"),
)
LONG_BASE = (
    Model("composite_bert", variants=EAGER + PLAIN, options=LONG),
    Model("bert", options=LONG),
    Model("modernbert", variants=COMPILED, options=(("layers", 12),)),
    Model("deberta", options=LONG),
)
GROUPS = (
    Group(
        Shape(128, 65_536, V),
        (
            Model("composite_bert", variants=COMPILED + PLAIN),
            Model("bert", variants=COMPILED),
            *peers("base", "BERT", variants=COMPILED),
        ),
    ),
    Group(
        Shape(128, 131_072, V),
        (
            Model("composite_bert_small", variants=ALL + PLAIN),
            Model("bert_small", variants=EAGER + PLAIN),
            Model("convbert_small", "rtd", COMPILED + PLAIN),
            *peers("small", "BERT", variants=COMPILED),
        ),
    ),
    Group(
        Shape(512, 65_536, V),
        (*LONG_BASE, *peers("base", "BERT", "ModernBERT", variants=COMPILED)),
    ),
    Group(Shape(128, 4096, V), (*SMALL_BATCHES, *peers("small"))),
    Group(Shape(128, 32_768, V), (TACO, TACO_MPM, *peers("small", "DeBERTa-v2"))),
    Group(Shape(64, 32_768, V), (TRANSFORMER,)),
    Group(Shape(512, 32_768, V), (LM,)),
    Group(Shape(512, 32_768, V), (*LONG_SMALL, *peers("small"))),
    Group(Shape(128, 4096, V), (*BASE_IN_SMALL_BATCHES, *peers("base"))),
    Group(Shape(128, 16_384, V), (COMPOSITE, BERT, *peers("small", "BERT", "ModernBERT"))),
)
ONE_LAYER = (("layers", 1),)
TINY = Shape(16, 64, 100)
SMOKE = (
    Group(
        TINY,
        (
            Model("bert_tiny", variants=ALL + PLAIN, options=ONE_LAYER),
            Model("convbert_tiny", "rtd", options=ONE_LAYER),
            *peers("tiny", "BERT"),
        ),
    ),
    Group(TINY, (Model("taco_tiny", "mpm", options=ONE_LAYER),)),
    Group(TINY, (Model("transformer_lm_tiny", "language_modeling"),)),
)


def run(ctx: Context) -> Iterator[Row]:
    groups = ctx.pick(GROUPS, SMOKE)[: ctx.groups]
    for number, group in enumerate(groups):
        yield from measure(group, ctx, ctx.seconds_left / (len(groups) - number))
        ctx.reset()


def measure(group: Group, ctx: Context, available: float) -> Iterator[Row]:
    """Rows of the programs that failed, then those of the others, which alternate."""
    started, programs, rows = ctx.clock(), {}, {}
    for model in group.programs:
        for variant in model.variants:
            row: Row = {"group": str(group.shape), "program": model.name, "variant": variant}
            if not ctx.seconds_left:
                yield {**row, "failure": "not measured: out of time"}
                continue
            try:
                program, seen = observe(lambda m=model, v=variant: m.make(v, group.shape, ctx), ctx)
                programs[model.name, variant], rows[model.name, variant] = program, {**row, **seen}
            except Exception as error:
                yield {**row, "failure": describe_error(error)}
            ctx.release()
    yield from timed_rows(programs, rows, ctx, available - (ctx.clock() - started))


def timed_rows(
    programs: dict[tuple[str, str], Program],
    rows: dict[tuple[str, str], Row],
    ctx: Context,
    available: float,
) -> Iterator[Row]:
    if not programs:
        return
    try:
        product, flops = best_product(ctx)
        updates = {"\t".join(key): program.update for key, program in programs.items()}
        times = ctx.medians({**updates, BEST: product}, available)
    except Exception as error:
        yield from ({**row, "failure": describe_error(error)} for row in rows.values())
        return
    best, peak = flops / times.pop(BEST), peak_rate(ctx)
    speeds = [p.tokens / t for p, t in zip(programs.values(), times.values(), strict=True)]
    for (key, program), speed in zip(programs.items(), speeds, strict=True):
        rate = program.flops * speed / program.tokens
        yield {
            **rows[key],
            "ms": 1e3 * program.tokens / speed,
            "tokens/s": speed,
            "speed / first": speed / speeds[0],
            "TFLOP/s": rate / 1e12,
            "share of the best product": rate / best,
            "MFU": rate / peak if peak else None,
        }


def peak_rate(ctx: Context) -> float | None:
    """The data sheet's, for GPUs that the toolkit knows."""
    if not ctx.on_gpu:
        return None
    name = torch.cuda.get_device_name(ctx.device)
    return next((rates.get(PRECISION) for gpu, rates in PEAK_FLOPS.items() if gpu in name), None)
