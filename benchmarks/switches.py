"""Cost of each switch of the shared encoder: time of an update, parameters, saved activations.

    OMP_NUM_THREADS=1 python benchmarks/switches.py [--models bert composite_bert] [--layers N]
        [--report]

An update is the trainer's `step` (AdamW, clipping at 1, fp32) of task mlm on random tokens: layers
of width 256 with 4 heads, sentences of 128 tokens, 8,192 tokens in the vocabulary. Models with one
switch each and the one without alternate in one process; the clock is the processor time with one
thread. `time` is the median over the rounds of the ratio to the model without the switch in the
same round, in brackets the ratio of the fastest times. `saved` are the tensors that the forward
pass keeps for the backward pass. Switches that require `pre_norm` are compared with `pre_norm`.
"""

from __future__ import annotations

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
from workloads import make_trainer, masked_batch

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


def build(arch: str, layers: int, options: dict[str, Any]) -> tuple[Update, int, int]:
    """An update, the parameters, and the bytes that the forward pass saves."""
    options = dict(options)
    z_loss, batch = options.pop("z_loss", 0.0), masked_batch(WORDS, LENGTH, TOKENS)
    sizes = {"layers": layers, "width": 256, "heads": 4}
    learner = build_model(arch, vocabulary_size=WORDS, task="mlm", **sizes, **options)
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


def main() -> None:
    options = parser(__doc__, rounds=25)
    options.add_argument("--models", nargs="+", default=["bert", "composite_bert"])
    options.add_argument("--layers", type=int, default=6)
    c = options.parse_args()
    head = ["switch", "fastest ms", "time", "parameters", "saved"]
    parts = [table(head, measure(arch, c.layers, c.rounds)) for arch in c.models]
    text = f"{machine()}; {c.layers} layers, {c.rounds} rounds.\n\n" + "\n\n".join(parts) + "\n"
    publish(text, c.report, "Cost of the encoder's switches", __doc__)


if __name__ == "__main__":
    main()
