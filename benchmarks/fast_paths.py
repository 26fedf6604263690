"""Gain of each fast path of toolkit/nn/ops, end to end.

    OMP_NUM_THREADS=1 python benchmarks/fast_paths.py [--tagged FOLDER] [--models bert_small ...]
        [--precision fp32] [--report]

An update is the trainer's `step` (AdamW, clipping at 1) on 1,024 random tokens in sentences of 128,
or 512 for ModernBERT's window; the decoder's update is on 1,024 tokens, its generation 16 sentences
with a beam of 4. conv_san is trained on a data folder of tagged text. Of each model, one path at a
time is switched off (`toolkit.nn.ops.dispatch`), and at last all; the programs alternate in one
process. A number is the fastest time without the path divided by the fastest with it, which differs
less between runs on a busy machine than medians do; in brackets the median of the rounds' ratios.
With one thread the clock is the processor time, which hardly depends on other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from generate_speed import make_batches, toolkit_generate
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
from rtd_speed import make_batch
from taco_speed import add_masked_positions
from tagging_speed import training
from workloads import PRODUCT_FLOPS, large_product, masked_batch, toolkit_update

from toolkit.models.interface import Inputs
from toolkit.nn.ops.dispatch import PATHS, switched_off
from toolkit.tasks.build import build_model
from toolkit.tasks.language_modeling import BlockBatch

WORDS, LENGTH, TOKENS, WARM_UP = 30_522, 128, 1024, 1
RELATIVE = ("offset_products", "offset_attention", "taps")
EVERYWHERE = ("attention", "add_norm", "dropout")


def masked(precision: str, arch: str, *, length: int = LENGTH, **overrides: Any) -> Update:
    learner = build_model(arch, vocabulary_size=WORDS, task="mlm", **overrides)
    return toolkit_update(learner, masked_batch(WORDS, length, TOKENS), precision)


def replaced(precision: str) -> Update:
    learner = build_model("convbert_small", vocabulary_size=WORDS, task="rtd")
    return toolkit_update(learner, make_batch("rtd", TOKENS // LENGTH), precision)


def masked_positions(precision: str) -> Update:
    learner = build_model("taco_small", vocabulary_size=WORDS, task="mpm")
    batch = add_masked_positions(masked_batch(WORDS, LENGTH, TOKENS // 2))
    return toolkit_update(learner, batch, precision)


def shuffled_positions(precision: str) -> Update:
    """DeBERTa with the position ids of a few tokens exchanged."""
    learner = build_model("deberta_small", vocabulary_size=WORDS, task="mlm")
    batch = masked_batch(WORDS, LENGTH, TOKENS)
    positions = torch.arange(LENGTH).repeat(TOKENS // LENGTH, 1)
    positions[::2, 10:14] = positions[::2, 10:14].flip(1)
    inputs = Inputs(batch.inputs.tokens, positions=positions)
    return toolkit_update(learner, batch._replace(inputs=inputs), precision)


def decoder(precision: str) -> Update:
    learner = build_model(
        "transformer_lm", vocabulary_size=WORDS, task="language_modeling", width=256
    )
    tokens = torch.randint(5, WORDS - 4, (TOKENS // LENGTH, LENGTH))
    count, weights = tokens.numel(), {"lm": float(tokens.numel())}
    batch = BlockBatch(
        Inputs(tokens), torch.arange(count), tokens.flatten(), count, weights, len(tokens), count
    )
    return toolkit_update(learner, batch, precision)


def generation(precision: str) -> Update:
    with torch.inference_mode():
        return torch.inference_mode()(
            toolkit_generate("iwslt", 4, make_batches(16, 16, text_order=False), precision)
        )


MODELS: dict[str, tuple[Callable[[str], Update], tuple[str, ...]]] = {
    "bert_small": (partial(masked, arch="bert_small"), EVERYWHERE),
    "composite_bert_small": (
        partial(masked, arch="composite_bert_small"),
        (*EVERYWHERE, *RELATIVE),
    ),
    "convbert_small rtd": (replaced, (*EVERYWHERE, "banded_convolution", "depthwise")),
    "taco_small mpm": (
        masked_positions,
        (*EVERYWHERE, "channel_mixing", "token_order", *RELATIVE),
    ),
    "deberta_small": (partial(masked, arch="deberta_small"), (*EVERYWHERE, *RELATIVE)),
    "decoder": (decoder, EVERYWHERE),
    "generation": (generation, ("attention", "add_norm", "packed_linear")),
    "deberta_small, shuffled": (shuffled_positions, ("token_order", *RELATIVE)),
    "shaw, with values": (
        partial(masked, arch="bert_small", positions=["shaw"], shaw_values=True),
        RELATIVE,
    ),
    "t5": (partial(masked, arch="bert_small", positions=["t5"]), ("offset_biases",)),
    "xl": (partial(masked, arch="bert_small", positions=["xl"]), ("offset_biases", *RELATIVE)),
    "rope, rms": (
        partial(masked, arch="bert_small", positions=["rope"], norm="rms"),
        ("rotation", "rms_norm"),
    ),
    "modernbert": (
        partial(
            masked, arch="modernbert", layers=12, width=256, heads=4, feed_forward_width=704,
            length=512,
        ),
        ("attention", "rotation", "sliding_window"),
    ),
}  # fmt: skip
TAGGER = "conv_san conv2d"


def plain_form(update: Update, paths: tuple[str, ...]) -> Update:
    def run() -> None:
        with switched_off(*paths):
            update()

    return run


def measure(make: Callable[[str], Update], paths: tuple[str, ...], precision: str, rounds: int):  # type: ignore[no-untyped-def]
    """Ratios by path and of all together, and the time with all fast paths."""
    torch.manual_seed(0)
    update = make(precision)
    programs = {"": update, **{path: plain_form(update, (path,)) for path in paths}}
    programs["all"] = plain_form(update, tuple(PATHS))
    programs["product"] = large_product(precision)
    times = alternate_rounds(programs, rounds, WARM_UP, steady_clock())
    ratios = {
        path: f"{min(of_path) / min(times['']):.2f} ({compare_rounds(of_path, times['']):.2f})"
        for path, of_path in times.items()
        if path not in {"", "product"}
    }
    return ratios, min(times[""]), PRODUCT_FLOPS / min(times["product"])


def main() -> None:
    options = parser(__doc__, rounds=9)
    options.add_argument("--models", nargs="+", choices=[*MODELS, TAGGER])
    options.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    options.add_argument("--tagged", metavar="FOLDER", help="a data folder of tagged text")
    c = options.parse_args()
    models = dict(MODELS)
    if c.tagged:
        models[TAGGER] = (partial(training, c.tagged, "conv2d"), ("convolution", "dropout"))
    columns: dict[str, dict[str, str]] = {}
    for name in c.models or models:
        columns[name], fastest, best = measure(*models[name], c.precision, c.rounds)
        found = ", ".join(f"{path} {ratio}" for path, ratio in columns[name].items())
        print(
            f"{name}: {1e3 * fastest:.0f} ms; {found}; product {best / 1e9:.0f} GFLOP/s", flush=True
        )
    rows = [
        [path, *(ratios.get(path, "") for ratios in columns.values())] for path in (*PATHS, "all")
    ]
    text = f"{machine()}, {c.precision}.\n\n{table(['path', *columns], rows)}\n"
    publish(text, c.report, "Gain of each fast path", __doc__, f"-{c.precision}")


if __name__ == "__main__":
    main()
