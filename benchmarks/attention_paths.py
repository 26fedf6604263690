"""Time of dropout(softmax(q k^T + bias)) v by products and by torch's SDPA, by length.

    python benchmarks/attention_paths.py [--device cuda] [--tokens 4096] [--report]

`toolkit/nn/ops/attention.py` chooses by these numbers: milliseconds of processor time (device time
on a GPU) for one layer of 4 heads of width 64, batch x length = tokens. Medians; the two alternate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from harness import alternate, device_clock, machine, parser, publish, table
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.ops.attention import BatchedProducts

HEADS, HEAD_WIDTH, SCALE = 4, 64, 0.125


def paths(bias: Tensor | None, rate: float) -> dict[str, Callable[..., Tensor]]:
    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return BatchedProducts.apply(q, k, v, bias, None, SCALE, rate)

    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate, scale=SCALE)

    return {"products": plain, "sdpa": sdpa}


def measure(
    length: int, tokens: int, dtype: torch.dtype, device: str, kind: str, rounds: int
) -> dict[str, float]:
    shape = (max(1, tokens // length), HEADS, length, HEAD_WIDTH)
    training = kind != "inference"
    q, k, v = (
        torch.randn(shape, dtype=dtype, device=device, requires_grad=training) for _ in range(3)
    )
    bias = None
    if "bias" in kind:
        square = (shape[0], HEADS, length, length)
        bias = torch.randn(square, dtype=dtype, device=device, requires_grad=True)
    rate = 0.1 if "dropout" in kind else 0.0

    def step(path: Callable[..., Tensor]) -> None:
        with torch.set_grad_enabled(training):
            context = path(q, k, v)
        if training:
            context.backward(context.detach())

    programs = {name: partial(step, path) for name, path in paths(bias, rate).items()}
    clock = time.process_time if device == "cpu" else device_clock
    return {n: 1e3 * seconds for n, seconds in alternate(programs, rounds, clock=clock).items()}


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--device", default="cpu")
    options.add_argument("--tokens", type=int, default=4096)
    options.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    args = options.parse_args()
    rows = []
    for dtype in (torch.bfloat16, torch.float32):
        for kind in ("training", "dropout", "bias, dropout", "inference"):
            for length in args.lengths:
                milliseconds = measure(length, args.tokens, dtype, args.device, kind, args.rounds)
                times = [f"{milliseconds[name]:.1f}" for name in ("products", "sdpa")]
                rows.append([str(dtype)[6:], kind, length, *times])
    times = table(["dtype", "case", "length", "products, ms", "sdpa, ms"], rows)
    text = f"{machine(args.device)}\n\n{times}\n"
    publish(text, args.report, "Attention by products and by SDPA", __doc__)


if __name__ == "__main__":
    main()
