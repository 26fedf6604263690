"""The mixed attention block alone against self-attention, as the paper's Table 9.

    python benchmarks/convbert_block.py [--lengths 128 512 1024] [--rounds 7] [--report]

(needs the extra `hf`.)

Blocks of the base size: width 768, 12 heads of self-attention, or 6 that attend and 6 that convolve
9 tokens; projections and the output included, norms and residuals not. Operations of one sentence
are counted by torch's flop counter, a product of m x k and k x n as 2 m k n; convolutions that we
compute as products with narrow bands are counted as such, and by hand as what they are. The paper's
2.6e9 and 1.9e9 are those of 512 tokens without the output W_O. Times are milliseconds a sentence,
in batches of 4,096 tokens: inference, as in the paper, in fp32 and bf16, and a training step's
forward and backward pass in bf16. All take turns in one process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from race import machine, report
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from toolkit.common.system import keep_freed_memory
from toolkit.models.convbert import ConvBertConfig, build_attention
from toolkit.nn.attention import Offsets, SequenceContext

TOKENS = 4096
WIDTH, HEADS, TAPS = 768, 12, 9
SELF = "self-attention"
Block = Callable[[Tensor], Tensor]


class Ours(nn.Module):
    def __init__(self, **changes: object) -> None:
        super().__init__()
        self.attention = build_attention(ConvBertConfig(**changes))  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, SequenceContext(Offsets(None, x.shape[1], x.device)))


class HuggingFaces(nn.Module):
    """ConvBertSelfAttention and the linear map after it."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import ConvBertConfig as Config
        from transformers.models.convbert.modeling_convbert import ConvBertSelfAttention

        self.attention, self.output = ConvBertSelfAttention(Config()), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.attention(x)[0])


def blocks() -> dict[str, nn.Module]:
    return {
        SELF: Ours(conv_type="none", head_ratio=1),
        "half of its heads": Ours(conv_type="none"),
        "mixed attention": Ours(),
        "HF's mixed attention": HuggingFaces(),
    }


def operations(block: nn.Module, length: int) -> int:
    """Of one sentence, as torch counts them."""
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # it knows not every other way
        block.eval()(torch.randn(1, length, WIDTH))
    return counter.get_total_flops()


def by_hand(length: int, heads: int, *, convolving: bool) -> tuple[int, int]:
    """Self-attention with so many heads of 64, and as many that convolve; with and without W_O."""
    inner = 64 * heads
    total = 2 * length * 3 * WIDTH * inner + 4 * length**2 * inner
    if convolving:
        total += 2 * length * 2 * WIDTH * inner  # values of their own, span keys
        total += 2 * length * TAPS * (WIDTH + inner * heads + inner)  # depthwise, kernels, taps
    return total + 2 * length * (1 + convolving) * inner * WIDTH, total


def timed(block: nn.Module, x: Tensor, kind: str) -> float:
    """Seconds of one pass."""
    training = "training" in kind
    block.train(training)
    given = x.detach().requires_grad_(training)
    start = time.perf_counter()
    with (
        torch.autocast("cpu", torch.bfloat16, enabled="bf16" in kind),
        torch.set_grad_enabled(training),
    ):
        y = block(given)
    if training:
        y.backward(torch.ones_like(y))
    return time.perf_counter() - start


def measured(contestants: dict[str, nn.Module], length: int, rounds: int) -> dict[str, list[str]]:
    """Milliseconds a sentence of each block, as medians for each kind of pass."""
    x = torch.randn(TOKENS // length, length, WIDTH)
    found: dict[str, list[str]] = {name: [] for name in contestants}
    for kind in ("inference, fp32", "inference, bf16", "training, bf16"):
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(rounds + 2):
            for name, block in contestants.items():
                seconds[name].append(timed(block, x, kind))
        for name, times in seconds.items():
            found[name].append(f"{1e3 * statistics.median(times[2:]) / len(x):.2f}")
    return found


def table(lengths: list[int], rounds: int) -> str:
    lines = [
        "| length | block | GFLOP, counted | by hand | without W_O "
        "| inference fp32, ms a sentence | bf16 | training bf16 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    contestants = blocks()
    for length in lengths:
        hands = [(HEADS, False), (HEADS // 2, False), (HEADS // 2, True), (HEADS // 2, True)]
        times = measured(contestants, length, rounds)
        for (name, block), (heads, convolving) in zip(contestants.items(), hands, strict=True):
            counts = operations(block, length), *by_hand(length, heads, convolving=convolving)
            columns = [f"{count / 1e9:.2f}" for count in counts] + times[name]
            lines.append(f"| {length} | {name} | {' | '.join(columns)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--rounds", type=int, default=7, help="passes timed for each block")
    parser.add_argument("--report", action="store_true", help="write a dated file in reports/")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    text = f"{machine()}\n\n{table(asked.lengths, asked.rounds)}\n"
    print(text)
    if asked.report:
        report("convbert-block", "ConvBERT's block", __doc__, text)


if __name__ == "__main__":
    main()
