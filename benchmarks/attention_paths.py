"""Which path computes dropout(softmax(q k^T + bias)) v fastest, by length: the figures behind
`toolkit/nn/ops/attention.py`.

    python benchmarks/attention_paths.py [--device cuda] [--tokens 4096]

Milliseconds of processor time (of device time on a GPU) for one layer of 4 heads of 64, batch x
length = tokens; medians, the paths taking turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from toolkit.nn.ops.attention import batched_products

HEADS, HEAD_WIDTH, SCALE = 4, 64, 0.125


def timed(run: Callable[[], object], device: str) -> float:
    start = time.process_time() if device == "cpu" else time.perf_counter()
    run()
    if device != "cpu":
        torch.cuda.synchronize()
    return 1e3 * ((time.process_time() if device == "cpu" else time.perf_counter()) - start)


def paths(bias: Tensor | None, rate: float) -> dict[str, Callable[..., Tensor]]:
    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return batched_products(q, k, v, bias, None, scale=SCALE, dropout=rate)

    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate, scale=SCALE)

    return {"products": plain, "sdpa": sdpa}


def measure(
    length: int, tokens: int, dtype: torch.dtype, device: str, kind: str, repeats: int
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

    times: dict[str, list[float]] = {}
    for _ in range(repeats + 1):
        for name, path in paths(bias, rate).items():
            times.setdefault(name, []).append(timed(lambda path=path: step(path), device))  # type: ignore[misc]
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print("| dtype | case | length | products | sdpa |\n|---|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float32):
        for kind in ("training", "dropout", "bias, dropout", "inference"):
            for length in asked.lengths:
                found = measure(length, asked.tokens, dtype, asked.device, kind, asked.repeats)
                times = " | ".join(f"{found[name]:.1f}" for name in ("products", "sdpa"))
                print(f"| {str(dtype)[6:]} | {kind} | {length} | {times} |", flush=True)


if __name__ == "__main__":
    main()
