"""Updates and inference of DeBERTa and ModernBERT: this toolkit and Hugging Face Transformers.

    OMP_NUM_THREADS=1 python benchmarks/encoder_speed.py [--models deberta] [--report]

(needs the extra `hf` and about 10 GB.)

All encoders have 12 layers of width 256, 4 heads, embeddings of the same width and a vocabulary of
30,522. DeBERTa has content-to-position and position-to-content attention, feed-forward width 1024
and dropout 0.1; ModernBERT gated feed-forward networks of width 704, a window of 128 tokens in two
of three layers, and no dropout. 15 % of the tokens are predicted. The toolkit's update is the
trainer's `step` on the task mlm; that of Transformers is what `transformers.Trainer` does between
two batches: AdamW, clipping at 1. Inference is the encoder alone, without gradients. Transformers'
attention is `eager` and, where it exists, `sdpa`. Each program runs in its own process; they
alternate. The share compares the toolkit's time with that of its products as one large product of
this machine. With one thread the clock is the processor time, which hardly depends on other
processes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import torch
from harness import Update, machine, parser, publish, race, steady_clock, table
from workloads import (
    PRODUCT_FLOPS,
    count_flops,
    large_product,
    masked_batch,
    random_tokens,
    toolkit_update,
    transformers_update,
)

WORDS, WIDTH, LAYERS, HEADS, GATED_WIDTH = 30_522, 256, 12, 4, 704
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
IMPLEMENTATIONS = {"deberta": ["eager"], "modernbert": ["eager", "sdpa"]}
PRECISIONS = ("bf16", "fp32")


def toolkit_model(name: str) -> Any:
    from toolkit.tasks.build import build_model

    shape: dict[str, Any] = {"layers": LAYERS, "width": WIDTH, "heads": HEADS}
    if name == "modernbert":
        shape["feed_forward_width"] = GATED_WIDTH
    return build_model(name, vocabulary_size=WORDS, task="mlm", **shape)


def transformers_model(name: str, implementation: str) -> Any:
    import transformers

    common: dict[str, Any] = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 512,
        "attn_implementation": implementation,
    }
    if name == "modernbert":
        config = transformers.ModernBertConfig(
            **common, **SPECIAL, sep_token_id=2, intermediate_size=GATED_WIDTH
        )
        return transformers.ModernBertForMaskedLM(config)
    config = transformers.DebertaV2Config(
        **common,
        intermediate_size=4 * WIDTH,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=256,
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        type_vocab_size=0,
    )
    return transformers.DebertaV2ForMaskedLM(config)


def make_program(
    name: str, precision: str, work: str, program: str, length: int, tokens: int
) -> Update:
    """One update, or the states of one batch."""
    torch.manual_seed(0)
    if program == "toolkit":
        learner, batch = toolkit_model(name), masked_batch(WORDS, length, tokens)
        if work == "update":
            return toolkit_update(learner, batch, precision)
        from toolkit.common.system import keep_freed_memory

        keep_freed_memory()
        return infer(lambda: learner.encoder(batch.inputs), learner, precision)
    model = transformers_model(name, program)
    if work == "update":
        return transformers_update(model, WORDS, length, tokens, precision)
    ids, _ = random_tokens(WORDS, length, tokens)
    return infer(lambda: model.base_model(ids), model, precision)


def infer(run: Callable[[], object], model: torch.nn.Module, precision: str) -> Update:
    """A batch in evaluation mode."""
    model.eval()

    def predict() -> None:
        with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext():
            run()

    return predict


def without_gradients(make: Callable[[], Update]) -> Update:
    """A program in inference mode, in which FlopCounterMode does not work."""
    return torch.inference_mode()(make())


def measure(
    name: str,
    work: str,
    length: int,
    tokens: int,
    rounds: int,
    implementations: list[str],
    precisions: list[str],
) -> list[list[str]]:
    """A row for each precision: milliseconds, ratios to the toolkit's time, and its share."""
    programs = ["toolkit", *(x for x in IMPLEMENTATIONS[name] if x in implementations)]
    contestants: dict[tuple[str, str], Callable[[], Update]] = {
        (precision, program): partial(make_program, name, precision, work, program, length, tokens)
        for precision in precisions
        for program in programs
    }
    if work == "inference":
        contestants = {key: partial(without_gradients, make) for key, make in contestants.items()}
    contestants |= {
        (precision, "product"): partial(large_product, precision) for precision in precisions
    }
    records = race(contestants, rounds, warm_up=2, clock=steady_clock())
    flops = count_flops(make_program(name, "fp32", work, "toolkit", length, tokens))
    rows = []
    for precision in precisions:
        product_seconds = records[precision, "product"].median * flops / PRODUCT_FLOPS
        own = records[precision, "toolkit"].median
        others = [records[precision, program].median for program in programs[1:]]
        full = [records["fp32", program].median for program in programs[1:] if "fp32" in precisions]
        rows.append(
            [
                f"{name}, T={length}, {work}",
                precision,
                f"{1e3 * own:.0f}",
                " / ".join(f"{1e3 * other:.0f}" for other in others),
                f"{min(others) / own:.2f}",
                f"{min(full) / own:.2f}" if full else "-",
                f"{product_seconds / own:.0%}",
            ]
        )
    return rows


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--models", nargs="+", default=list(IMPLEMENTATIONS))
    options.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    options.add_argument("--tokens", type=int, default=4096, help="tokens per batch")
    options.add_argument("--implementations", nargs="+", default=["eager", "sdpa"])
    options.add_argument("--precisions", nargs="+", default=PRECISIONS)
    options.add_argument("--work", nargs="+", default=["update", "inference"])
    args = options.parse_args()
    rows = []
    for name, length, work in product(args.models, args.lengths, args.work):
        rows += measure(
            *(name, work, length, args.tokens, args.rounds),
            *(args.implementations, args.precisions),
        )
        print(*rows[-len(args.precisions) :], sep="\n", flush=True)
    head = ["program", "precision", "toolkit, ms", "Transformers, ms (eager / sdpa)"]
    head += ["Transformers / toolkit", "Transformers fp32 / toolkit", "share"]
    text = f"{machine()}; {args.tokens:,} tokens per batch\n\n{table(head, rows)}\n"
    publish(text, args.report, "Speed of DeBERTa and ModernBERT", __doc__)


if __name__ == "__main__":
    main()
