"""Forward and backward pass of an encoder with each position term, against one without positions.

    python benchmarks/position_terms.py [--lengths 128 512] [--terms rope,fixed t5] [--report]

The encoder is `bert_small`: 12 layers of width 256, 4 heads, embeddings of width 128, 30,522 tokens
in the vocabulary, dropout 0.1, in fp32 and with the trainer's bf16 autocast. A batch has 4,096
tokens. Programs alternate in one process and one thread; the clock is the processor time, which
hardly depends on other processes. The column `ms` is the median of milliseconds, `times none` the
median over the rounds of the ratio to `none` in the same round. The column `share` compares with
the time that the same products would take as one large product of this machine.

Arithmetic comes first, relative to `none`: operations of the products (FLOPs), and bytes that all
operations read and write. `ids` marks position ids as in a batch of the task mpm: in order in the
first half of the sentences, with 15 % of them hidden in the second.
"""

from __future__ import annotations

import statistics
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

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
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from workloads import PRODUCT_FLOPS, count_flops, large_product

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.registry import ARCHITECTURES
from toolkit.common.system import keep_freed_memory
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.build import build_model  # noqa: F401  registers the architectures

TOKENS, WORDS, HIDDEN_RATE = 4096, 30_522, 0.15
TERMS = (
    *("none", "learned", "sinusoidal", "rope", "alibi", "t5", "shaw", "shaw+values", "xl"),
    *("deberta", "fixed", "composite", "rope,fixed"),
)
WITH_IDS = ("rope", "alibi", "t5", "shaw", "xl", "deberta", "fixed", "composite")
PRECISIONS = ("fp32", "bf16")


class Cost(NamedTuple):
    flops: int
    bytes: int


class ByteCounter(TorchDispatchMode):
    """Bytes of the tensors that operations read and write; views are free."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and not func._schema.name.startswith("aten::empty"):
            tensors = [x for x in tree_leaves((args, kwargs, out)) if isinstance(x, Tensor)]
            self.bytes += sum({id(x): count_bytes(x) for x in tensors}.values())
        return out


def count_bytes(x: Tensor) -> int:
    """Bytes of a tensor; those of its memory if windows of it overlap."""
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())


def make_update(term: str, precision: str, length: int, layers: int) -> Update:
    """Forward and backward pass of an encoder; `term` may end in +values and +ids."""
    names, *marks = term.split("+")
    entry = ARCHITECTURES["bert_small"]
    config = replace(
        entry.config,
        layers=layers,
        positions=names.split(","),
        shaw_values="values" in marks,
        max_positions=length,
    )
    torch.manual_seed(0)
    model = entry.factory(config, Sizes(tokens=WORDS)).train()
    inputs = make_inputs(length, ids="ids" in marks)
    gradient = torch.randn(*inputs.tokens.shape, config.width)

    def update() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        half = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()
        with half:
            states = model(inputs).states
        states.backward(gradient.to(states.dtype))

    return update


def make_inputs(length: int, *, ids: bool) -> Inputs:
    tokens = torch.randint(WORDS, (TOKENS // length, length))
    if not ids:
        return Inputs(tokens)
    hidden = torch.rand(tokens.shape) < HIDDEN_RATE
    hidden[: len(tokens) // 2] = False
    order = torch.arange(length).expand_as(tokens)
    return Inputs(tokens, positions=order.masked_fill(hidden, HIDDEN_POSITION))


def count_cost(update: Update) -> Cost:
    with ByteCounter() as counter:
        flops = count_flops(update)
    return Cost(flops, counter.bytes)


def measure(
    length: int, precision: str, terms: list[str], layers: int, rounds: int
) -> list[list[str]]:
    """A row for each term."""
    programs = {term: make_update(term, precision, length, layers) for term in terms}
    costs = {term: count_cost(program) for term, program in programs.items()}
    programs["product"] = large_product(precision)
    times = alternate_rounds(
        programs, rounds, warm_up=0, clock=steady_clock()
    )  # counting warmed up
    best = PRODUCT_FLOPS / statistics.median(times["product"])
    none = costs["none"]
    return [
        [
            term,
            f"{cost.flops / none.flops:.2f}",
            f"{cost.bytes / none.bytes:.2f}",
            f"{1e3 * statistics.median(times[term]):.0f}",
            f"{compare_rounds(times[term], times['none']):.2f}",
            f"{cost.flops / best / statistics.median(times[term]):.0%}",
        ]
        for term, cost in costs.items()
    ]


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    options.add_argument("--precisions", nargs="+", default=PRECISIONS)
    every = [*TERMS, *(f"{term}+ids" for term in WITH_IDS)]
    options.add_argument("--terms", nargs="+", default=every[1:], help="none is always measured")
    options.add_argument("--layers", type=int, default=12)
    args = options.parse_args()
    keep_freed_memory()
    head = ["positions", "FLOPs", "bytes", "ms", "times none", "share"]
    text = machine() + "\n"
    for length in args.lengths:
        for precision in args.precisions:
            rows = measure(length, precision, ["none", *args.terms], args.layers, args.rounds)
            text += f"\n## {precision}, T={length}\n\n{table(head, rows)}\n"
    publish(text, args.report, "Position terms", __doc__)


if __name__ == "__main__":
    main()
