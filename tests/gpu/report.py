"""Figures of the simulation as Markdown tables.

python -m tests.gpu.report [sweep] [work] [estimate] [fusion] [graphs] [kernel] [errors] [savings]
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tests.gpu import fake_cuda, kernel_report

if TYPE_CHECKING:
    from tests.gpu.fusion import Fusion
    from tests.gpu.steps import Case

WORKLOADS = [
    ("composite_bert_small", "mlm", 32, 128),
    ("composite_bert_small", "mlm", 1024, 128),
    ("composite_bert", "mlm", 32, 128),
    ("composite_bert", "mlm", 512, 128),
    ("convbert_small", "rtd", 32, 128),
    ("convbert_small", "rtd", 1024, 128),
    ("taco", "mlm", 32, 128),
    ("taco", "mlm", 256, 128),
    ("taco", "mpm", 16, 128),
    ("taco", "mpm", 32, 128),
    ("taco", "mpm", 16, 512),
]
"""Architecture, task, sentences and length; in bf16, with a vocabulary of 30,004 tokens."""
Row = Sequence[object]


def sweep() -> Iterator[Row]:
    """Cases that raise, and those that wait for the device."""
    from tests.gpu.cases import QUICK, SWEEP
    from tests.gpu.steps import count_update

    cases = [*QUICK, *SWEEP]
    raising, waiting = 0, 0
    for case in cases:
        try:
            waiting += bool(count_update(case).waits)
        except Exception as error:
            raising += 1
            print(f"{case.name}: {error}", file=sys.stderr)
    yield "cases", "raise", "wait"
    yield len(cases), raising, waiting


def workloads() -> Iterator[tuple[str, Case, int]]:
    """Name, case and number of tokens; mpm has two copies of each sentence."""
    from tests.gpu.batches import Shape
    from tests.gpu.steps import Case

    for arch, task, sentences, length in WORKLOADS:
        case = Case(arch=arch, task=task, shape=Shape(sentences, length), vocabulary=30004)
        copies = 2 if task == "mpm" else 1
        yield f"{arch} {task}, {sentences} x {length}", case, copies * sentences * length


def work() -> Iterator[Row]:
    """Launches, and kilobytes per token that operations read and write."""
    from tests.gpu.steps import count_update

    yield "workload", "launches f + b + o", "kB a token f + b + o", "waits"
    for name, case, tokens in workloads():
        counts = count_update(case, warm=True)
        kilobytes = [f"{size / tokens / 1e3:,.0f}" for size in counts.bytes.values()]
        launches = [f"{number:,}" for number in counts.launches.values()]
        yield name, " + ".join(launches), " + ".join(kilobytes), len(counts.waits)


def estimate() -> Iterator[Row]:
    """Milliseconds, tokens per second and MFU of an H200 by the model of `time_model`."""
    from tests.gpu.fusion import measure_layers, subtract_savings
    from tests.gpu.graphed_time import estimate_graphed_update
    from tests.gpu.time_model import estimate_update

    header = ("workload", "GPU ms (products + others)", "host ms", "M tokens/s", "MFU")
    yield *header, "compiled M tokens/s", "MFU", "GPU / host ms with CUDA graphs", "M tokens/s"
    for name, case, tokens in workloads():
        e, graphed = estimate_update(case), estimate_graphed_update(case)
        gpu = f"{1e3 * e.gpu:.1f} ({1e3 * e.products:.1f} + {1e3 * e.others:.1f})"
        rate = format_rate(tokens, e.seconds, e.host > e.gpu)
        row = [name, gpu, f"{1e3 * e.host:.1f}", rate, f"{e.mfu(e.seconds):.1%}"]
        fused = subtract_savings(e, measure_layers(case))
        row += [format_rate(tokens, fused.seconds, fused.host > fused.gpu)]
        row += [f"{fused.mfu(fused.seconds):.1%}"]
        if graphed is None:
            yield *row, "-", "-"
            continue
        times = f"{1e3 * graphed.gpu:.2f} / {1e3 * graphed.host:.2f}"
        yield *row, times, format_rate(tokens, graphed.seconds, graphed.host > graphed.gpu)


def format_rate(tokens: int, seconds: float, host_bound: bool) -> str:
    return f"{tokens / seconds / 1e6:.2f}" + (" (host-bound)" if host_bound else "")


def fusion() -> Iterator[Row]:
    """A layer before and after fusion, and with dropout as torch draws it, in separate kernels."""
    from tests.gpu.batches import Shape
    from tests.gpu.fusion import measure_layers
    from tests.gpu.steps import Case

    columns = "layer", "kB a token f + b", "compiled", "separate dropout"
    yield (*columns, "kernels f + b", "compiled")
    for arch in ("bert_small", "composite_bert_small", "composite_bert", "convbert_small"):
        case = Case(arch=arch, task="mlm", shape=Shape(1024, 128), options={"layers": 2})
        first, _ = measure_layers(case)
        masked, _ = measure_layers(case, fallback_random=True)
        eager, tokens = first.eager, 1024 * 128
        sizes = [eager.by_phase(eager.bytes).values(), *map(count_bytes, (first, masked))]
        kernels = eager.by_phase(eager.launches).values(), map(len, first.compiled)
        yield (
            arch,
            *(join_phases(f"{size / tokens / 1e3:.1f}" for size in each) for each in sizes),
            *(join_phases(map(str, each)) for each in kernels),
        )


def count_bytes(fusion: Fusion) -> list[int]:
    return [sum(kernel.bytes for kernel in kernels) for kernels in fusion.compiled]


def join_phases(texts: Iterable[str]) -> str:
    """Forward and backward; a layer has no optimizer."""
    return " + ".join([*texts][:2])


def graphs() -> Iterator[Row]:
    """Graphs of streams of batches, and why Dynamo left them."""
    from tests.gpu.compilation import RUNS, compile_run

    yield "case", "new graphs of each batch", "breaks", "limit met"
    for case, stream in RUNS:
        found = compile_run(case, stream)
        yield case.name, found.graphs, sum(found.breaks.values()), found.exceeded


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    "sweep": sweep,
    "work": work,
    "estimate": estimate,
    "fusion": fusion,
    "graphs": graphs,
    "kernel": kernel_report.usage,
    "errors": kernel_report.errors,
    "savings": kernel_report.savings,
}


def main(names: Sequence[str]) -> None:
    fake_cuda.load()
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    for name in names or TABLES:
        for number, row in enumerate(TABLES[name]()):
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            if not number:
                print("|" + "---|" * len(row))
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
