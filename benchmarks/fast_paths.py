"""Gain of each fast path of toolkit/nn/ops, end to end.

    OMP_NUM_THREADS=1 python benchmarks/fast_paths.py [--tagged FOLDER] [--models bert_small ...]
        [--precision fp32] [--words N] [--length N] [--tokens N] [--layers N] [--report]

An update is the trainer's `step` (AdamW, clipping at 1) on random tokens. Generation decodes 16
sentences with a beam of 4. conv_san is trained on a data folder of tagged text. Few layers and a
small vocabulary give an upper bound of the gain in less time. Of each model, one path at a
time is switched off (`toolkit.nn.ops.dispatch`), and at last all; the programs alternate in one
process. A number is the fastest time without the path divided by the fastest with it, which differs
less between runs on a busy machine than medians do; in brackets the median of the rounds' ratios.
With one thread the clock is the processor time, which hardly depends on other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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
from taco_speed import add_masked_positions
from tagging_speed import training
from workloads import PRODUCT_FLOPS, large_product, masked_batch, toolkit_update

from toolkit.models.interface import Inputs
from toolkit.nn.ops.dispatch import PATHS, fast, switched_off
from toolkit.tasks.build import build_model
from toolkit.tasks.examples import TargetBatch
from toolkit.tasks.pretraining.rtd import ReplacedTokensBatch

WARM_UP = 2
RELATIVE = ("offset_products", "offset_attention")
EVERYWHERE = ("attention", "add_norm", "dropout")


class Load(NamedTuple):
    """The size of an update."""

    precision: str
    words: int
    length: int
    tokens: int
    layers: int

    def batch(self) -> Any:
        return masked_batch(self.words, self.length, self.tokens)

    def update(self, arch: str, task: str, batch: Any, **overrides: Any) -> Update:
        options = {"layers": self.layers, **overrides}
        learner = build_model(arch, vocabulary_size=self.words, task=task, **options)
        return toolkit_update(learner, batch, self.precision)


def masked(load: Load, arch: str, **overrides: Any) -> Update:
    limit = {} if arch == "modernbert" else {"max_positions": max(128, load.length)}
    return load.update(arch, "mlm", load.batch(), **limit, **overrides)


def replaced(load: Load) -> Update:
    words = load.batch()
    draws = torch.rand(len(words.selected))
    weights = {**words.weights, "rtd": float(words.tokens)}
    fields = words._asdict() | {"draws": draws, "weights": weights}
    return load.update("convbert_small", "rtd", ReplacedTokensBatch(**fields), max_positions=512)


def masked_positions(load: Load, arch: str) -> Update:
    batch = add_masked_positions(load._replace(tokens=load.tokens // 2).batch())
    task_options = {"tokens_per_sample": load.length}
    return load.update(arch, "mpm", batch, max_positions=512, task_options=task_options)


def decoder(load: Load) -> Update:
    tokens = torch.randint(5, load.words - 4, (load.tokens // load.length, load.length))
    count, weights = tokens.numel(), {"lm": float(tokens.numel())}
    batch = TargetBatch(
        *(Inputs(tokens), torch.arange(count), tokens.flatten(), weights, len(tokens), count),
        word_count=count,
    )
    return load.update("transformer_lm", "language_modeling", batch, width=256)


def generation(load: Load) -> Update:
    batches = make_batches(16, 16, text_order=False)
    with switched_off("packed_linear"):  # weights are packed once, before the first update
        plain = toolkit_generate("iwslt", 4, batches, load.precision)
    packed = toolkit_generate("iwslt", 4, batches, load.precision)
    return torch.inference_mode()(lambda: packed() if fast("packed_linear") else plain())


def with_terms(*terms: str, **options: Any) -> Callable[[Load], Update]:
    return partial(masked, arch="bert_small", positions=list(terms), **options)


GATED = {"width": 256, "heads": 4, "feed_forward_width": 704}
MODELS: dict[str, tuple[Callable[[Load], Update], tuple[str, ...]]] = {
    "bert_small": (partial(masked, arch="bert_small"), EVERYWHERE),
    "composite_bert_small": (
        partial(masked, arch="composite_bert_small"),
        (*EVERYWHERE, *RELATIVE),
    ),
    "convbert_small rtd": (replaced, (*EVERYWHERE, "banded_convolution")),
    "taco_small mpm": (
        partial(masked_positions, arch="taco_small"),
        (*EVERYWHERE, *RELATIVE),
    ),
    "composite_bert_small mpm": (
        partial(masked_positions, arch="composite_bert_small"),
        RELATIVE,
    ),
    "deberta_small": (partial(masked, arch="deberta_small"), (*EVERYWHERE, *RELATIVE)),
    "decoder": (decoder, EVERYWHERE),
    "generation": (generation, ("attention", "add_norm", "packed_linear")),
    "shaw, with values": (with_terms("shaw", shaw_values=True), RELATIVE),
    "xl": (with_terms("xl"), RELATIVE),
    "modernbert": (
        partial(masked, arch="modernbert", **GATED),
        ("attention", "sliding_window"),
    ),
}
TAGGER = "conv_san conv2d"


def plain_form(update: Update, paths: tuple[str, ...]) -> Update:
    def run() -> None:
        with switched_off(*paths):
            update()

    return run


def measure(
    make: Callable[[Load], Update], paths: tuple[str, ...], load: Load, rounds: int
) -> tuple[dict[str, str], float, float]:
    """Ratios by path and of all together, the time with all paths, the speed of a product."""
    torch.manual_seed(0)
    update = make(load)
    programs = {"": update, **{path: plain_form(update, (path,)) for path in paths}}
    programs["all"] = plain_form(update, tuple(PATHS))
    programs["product"] = large_product(load.precision)
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
    options.add_argument("--words", type=int, default=30_522)
    options.add_argument("--length", type=int, default=128)
    options.add_argument("--tokens", type=int, default=1024)
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--tagged", metavar="FOLDER", help="a data folder of tagged text")
    c = options.parse_args()
    models = dict(MODELS)
    if c.tagged:
        models[TAGGER] = (
            lambda load: training(c.tagged, "conv2d", load.precision),
            ("convolution", "dropout"),
        )
    load = Load(c.precision, c.words, c.length, c.tokens, c.layers)
    columns: dict[str, dict[str, str]] = {}
    for name in c.models or models:
        columns[name], fastest, best = measure(*models[name], load, c.rounds)
        found = ", ".join(f"{path} {ratio}" for path, ratio in columns[name].items())
        print(
            f"{name}: {1e3 * fastest:.0f} ms; {found}; product {best / 1e9:.0f} GFLOP/s", flush=True
        )
    rows = [
        [path, *(ratios.get(path, "") for ratios in columns.values())] for path in (*PATHS, "all")
    ]
    text = f"{machine()}; {load}.\n\n{table(['path', *columns], rows)}\n"
    publish(text, c.report, "Gain of each fast path", __doc__, f"-{c.precision}-{c.length}")


if __name__ == "__main__":
    main()
