"""ConvBERT's mixed attention block compared with self-attention (Jiang et al. 2020, Table 9).

    python benchmarks/convbert_block.py [--lengths 128 512 1024] [--rounds 7] [--report]

(needs the extra `hf`.)

Blocks of the base size: width 768, 12 heads of self-attention, or 6 of attention and 6 of
convolution over 9 tokens. Projections and output are included, norms and residuals are not. Torch's
flop counter counts the operations of one sentence (2 m k n for a product of m x k and k x n). It
counts banded convolutions as the products that compute them; the column "by hand" counts them by
definition. The paper's 2.6e9 and 1.9e9 are those of 512 tokens without the output W_O. Times are
milliseconds per sentence in batches of 4,096 tokens: inference in fp32, as in the paper, and bf16,
and forward and backward pass of a training step in bf16. The blocks alternate in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from harness import alternate, machine, parser, publish, table
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


class Toolkit(nn.Module):
    def __init__(self, **changes: object) -> None:
        super().__init__()
        self.attention = build_attention(ConvBertConfig(**changes))  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, SequenceContext(Offsets(None, x.shape[1], x.device)))


class Transformers(nn.Module):
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
        SELF: Toolkit(conv_type="none", head_ratio=1),
        "half of its heads": Toolkit(conv_type="none"),
        "mixed attention": Toolkit(),
        "HF mixed attention": Transformers(),
    }


def count_operations(block: nn.Module, length: int) -> int:
    """Operations of one sentence, as counted by torch."""
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):  # the one that the counter knows
        block.eval()(torch.randn(1, length, WIDTH))
    return counter.get_total_flops()


def count_by_hand(length: int, heads: int, *, convolving: bool) -> tuple[int, int]:
    """Operations of self-attention with `heads` of width 64, and as many of convolution.

    With and without W_O.
    """
    inner = 64 * heads
    total = 2 * length * 3 * WIDTH * inner + 4 * length**2 * inner
    if convolving:
        total += 2 * length * 2 * WIDTH * inner  # separate values, span keys
        total += 2 * length * TAPS * (WIDTH + inner * heads + inner)  # depthwise, kernels, taps
    return total + 2 * length * (1 + convolving) * inner * WIDTH, total


def run(block: nn.Module, x: Tensor, kind: str) -> None:
    """A forward pass, and a backward pass in training."""
    training = "training" in kind
    block.train(training)
    inputs = x.detach().requires_grad_(training)
    with (
        torch.autocast("cpu", torch.bfloat16, enabled="bf16" in kind),
        torch.set_grad_enabled(training),
    ):
        y = block(inputs)
    if training:
        y.backward(torch.ones_like(y))


def time_blocks(
    contestants: dict[str, nn.Module], length: int, rounds: int
) -> dict[str, list[str]]:
    """Milliseconds per sentence of each block, medians for each kind of pass."""
    x = torch.randn(TOKENS // length, length, WIDTH)
    times: dict[str, list[str]] = {name: [] for name in contestants}
    for kind in ("inference, fp32", "inference, bf16", "training, bf16"):
        programs = {name: partial(run, block, x, kind) for name, block in contestants.items()}
        for name, seconds in alternate(programs, rounds, warm_up=2).items():
            times[name].append(f"{1e3 * seconds / len(x):.2f}")
    return times


HEAD = ["length", "block", "GFLOP, counted", "by hand", "without W_O"]
TIMES = ["inference fp32, ms per sentence", "bf16", "training bf16"]


def block_table(lengths: list[int], rounds: int) -> str:
    rows, contestants = [], blocks()
    for length in lengths:
        hands = [(HEADS, False), (HEADS // 2, False), (HEADS // 2, True), (HEADS // 2, True)]
        times = time_blocks(contestants, length, rounds)
        for (name, block), (heads, convolving) in zip(contestants.items(), hands, strict=True):
            counts = (
                count_operations(block, length),
                *count_by_hand(length, heads, convolving=convolving),
            )
            rows.append([length, name, *(f"{count / 1e9:.2f}" for count in counts), *times[name]])
    return table([*HEAD, *TIMES], rows)


def main() -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1024])
    args = options.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    text = f"{machine()}\n\n{block_table(args.lengths, args.rounds)}\n"
    publish(text, args.report, "ConvBERT's block", __doc__)


if __name__ == "__main__":
    main()
