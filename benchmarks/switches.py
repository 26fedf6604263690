"""Cost of each switch of the shared encoder: time of an update, parameters, saved activations.

    OMP_NUM_THREADS=1 python benchmarks/switches.py [--models bert composite_bert] [--layers N]
        [--optimizers] [--report]

An update is the trainer's `step` (AdamW, clipping at 1, fp32) of task mlm on random tokens: layers
of width 256 with 4 heads, sentences of 128 tokens, 8,192 tokens in the vocabulary. Models with one
switch each and the one without alternate in one process; the clock is the processor time with one
thread. `time` is the median over the rounds of the ratio to the model without the switch in the
same round, in brackets the ratio of the fastest times. `saved` are the tensors that the forward
pass keeps for the backward pass. Switches that require `pre_norm` are compared with `pre_norm`.

With `--optimizers`, the switches are those of the optimizer. `step` is the optimizer's own step on
fixed gradients, which does not depend on the batch: the median and the quartiles of the rounds.
`times` and `update` are the median ratios, in the same round, of a step and of a whole update of
1,024 tokens to those of plain Muon, for `layerwise_lr_decay` and Muon itself to those of AdamW;
the quartiles are in brackets. `GFLOPs` are the operations of the step's products, `state` is what
the optimizer keeps.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from harness import (
    Update,
    alternate_rounds,
    compare_rounds,
    machine,
    parser,
    publish,
    steady_clock,
    table,
)
from workloads import count_flops, make_trainer, masked_batch

from toolkit.tasks.build import build_model

WORDS, LENGTH, TOKENS = 8192, 128, 1024
PRE_NORM = {"pre_norm": True}
SWITCHES: dict[str, dict[str, Any]] = {
    **{name: {name: True} for name in ("qk_norm", "smeared_keys", "attention_gate")},
    "layer_average": {"layer_average": True},
    "weighted_residuals": {"weighted_residuals": True, **PRE_NORM},
    "value_residual": {"value_residual": True},
    "value_embeddings 1": {"value_embeddings": 1},
    "value_embeddings 3": {"value_embeddings": 3},
    "logit_cap 30": {"logit_cap": 30.0},
    "z_loss 1e-4": {"z_loss": 1e-4},
}
POLAR = {"newton_schulz": "polar_express"}
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("adamw", {}),
    "layerwise_lr_decay 0.9": ("adamw", {"layerwise_lr_decay": 0.9}),
    "muon": ("muon", {}),
    "normuon_beta2 0.95": ("muon", {"normuon_beta2": 0.95}),
    "polar_express": ("muon", POLAR),
    "polar_express, 6 steps": ("muon", {**POLAR, "newton_schulz_steps": 6}),
    "cautious_decay": ("muon", {"cautious_decay": True}),
}
"""Switches of optimizers, and the optimizers without them."""


def build_learner(arch: str, layers: int, options: dict[str, Any]) -> Any:
    sizes = {"layers": layers, "width": 256, "heads": 4}
    return build_model(arch, vocabulary_size=WORDS, task="mlm", **sizes, **options)


def build(arch: str, layers: int, options: dict[str, Any]) -> tuple[Update, int, int]:
    """An update, the parameters, and the bytes that the forward pass saves."""
    options = dict(options)
    z_loss, batch = options.pop("z_loss", 0.0), masked_batch(WORDS, LENGTH, TOKENS)
    learner = build_learner(arch, layers, options)
    trainer = make_trainer(learner, "fp32", clip_norm=1.0)
    trainer.criterion.z_loss = z_loss
    saved: dict[int, int] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        kept = trainer.criterion(learner(batch))
    parameters = list(learner.parameters())
    for p in parameters:
        saved.pop(p.untyped_storage().data_ptr(), None)
    del kept
    return (
        lambda: trainer.step([batch], 1000),
        sum(p.numel() for p in parameters),
        sum(saved.values()),
    )


def measure(arch: str, layers: int, rounds: int) -> list[list[str]]:
    """A row for each switch."""
    models = {"": {}, "pre_norm": PRE_NORM, **SWITCHES}
    built = {name: build(arch, layers, options) for name, options in models.items()}
    programs = {name: update for name, (update, _, _) in built.items()}
    times = alternate_rounds(programs, rounds, 3, steady_clock())
    rows = []
    for name, (_, parameters, saved) in built.items():
        base = "pre_norm" if models[name].get("pre_norm") and name != "pre_norm" else ""
        ratio, fastest = compare_rounds(times[name], times[base]), min(times[name])
        rows.append(
            [
                name or f"{arch} without",
                f"{1e3 * fastest:.0f}",
                f"{ratio:.3f} ({fastest / min(times[base]):.3f})",
                f"{parameters - built[base][1]:+,}",
                f"{saved / built[base][2]:.3f}",
            ]
        )
    return rows


def measure_optimizers(arch: str, layers: int, rounds: int) -> list[list[str]]:
    """A row for each switch of the optimizer."""
    batch, trainers = masked_batch(WORDS, LENGTH, TOKENS), {}
    for name, (optimizer, options) in OPTIMIZERS.items():
        learner = build_learner(arch, layers, {})
        trainer = make_trainer(learner, "fp32", optimizer=optimizer, options=options, clip_norm=1.0)
        trainers[name] = trainer
    clock = steady_clock()
    updates = {name: lambda it=it: it.step([batch], 1000) for name, it in trainers.items()}
    update_times = alternate_rounds(updates, rounds, 3, clock)
    for trainer in trainers.values():
        for p in trainer.parameters:
            p.grad = torch.randn_like(p)
    steps = {name: it.optimizer.step for name, it in trainers.items()}
    step_times = alternate_rounds(steps, rounds, 3, clock)
    rows = []
    for name, trainer in trainers.items():
        optimizer = OPTIMIZERS[name][0]
        base = optimizer if name != optimizer else "adamw"
        states = [x for state in trainer.optimizer.state.values() for x in state.values()]
        rows.append(
            [
                name,
                spread([1e3 * x for x in step_times[name]], 1),
                *(spread(ratios(times[name], times[base])) for times in (step_times, update_times)),
                f"{count_flops(steps[name]) / 1e9:.2f}",
                f"{sum(x.nbytes for x in states) / 2**20:.2f} MiB",
            ]
        )
    return rows


def ratios(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ones, others, strict=True)]


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The median, and the quartiles."""
    low, middle, high = (f"{x:.{digits}f}" for x in statistics.quantiles(values))
    return f"{middle} ({low} to {high})"


def main() -> None:
    options = parser(__doc__, rounds=25)
    options.add_argument("--models", nargs="+", default=["bert", "composite_bert"])
    options.add_argument("--layers", type=int, default=6)
    options.add_argument("--optimizers", action="store_true", help="switches of the optimizer")
    c = options.parse_args()
    head, rows, what = ["switch", "fastest ms", "time", "parameters", "saved"], measure, "encoder"
    if c.optimizers:
        head, rows = ["switch", "step ms", "times", "update", "GFLOPs", "state"], measure_optimizers
        what = "optimizer"
    parts = [table(head, rows(arch, c.layers, c.rounds)) for arch in c.models]
    text = f"{machine()}; {c.layers} layers, {c.rounds} rounds; mean load of the last 15 minutes "
    text += f"{os.getloadavg()[2]:.1f}.\n\n" + "\n\n".join(parts) + "\n"
    suffix = "-optimizer" * c.optimizers
    publish(text, c.report, f"Cost of the {what}'s switches", __doc__, suffix)


if __name__ == "__main__":
    main()
