"""Figures of the simulation as Markdown tables.

python -m tests.gpu.report [sweep] [work] [graphs]
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence

from tests.gpu import fake_cuda

WORKLOADS = [
    ("composite_bert_small", "mlm", 32, 128),
    ("composite_bert_small", "mlm", 1024, 128),
    ("composite_bert", "mlm", 32, 128),
    ("composite_bert", "mlm", 512, 128),
    ("convbert_small", "rtd", 32, 128),
    ("convbert_small", "rtd", 1024, 128),
    ("taco", "mlm", 256, 128),
    ("taco", "mpm", 32, 128),
    ("taco", "mpm", 16, 512),
]
"""Architecture, task, sentences and length; in bf16, with a vocabulary of 30,004 tokens."""
Row = Sequence[object]


def sweep() -> Iterator[Row]:
    """Cases that raise, and those that wait for the device more than once per length."""
    from tests.gpu.cases import QUICK, SWEEP
    from tests.gpu.steps import count_update
    from tests.gpu.test_steps import ONCE_PER_LENGTH

    cases = [*QUICK, *SWEEP]
    raising, waiting = 0, 0
    for case in cases:
        try:
            waiting += not set(count_update(case).waits) <= ONCE_PER_LENGTH
        except Exception as error:
            raising += 1
            print(f"{case.name}: {error}", file=sys.stderr)
    yield "cases", "raise", "wait"
    yield len(cases), raising, waiting


def work() -> Iterator[Row]:
    """Launches, and kilobytes per token that operations read and write."""
    from tests.gpu.batches import Shape
    from tests.gpu.steps import Case, count_update

    yield "workload", "launches f + b + o", "kB a token f + b + o", "waits"
    for arch, task, sentences, length in WORKLOADS:
        shape = Shape(sentences, length)
        counts = count_update(Case(arch=arch, task=task, shape=shape, vocabulary=30004), warm=True)
        tokens = sentences * length * (2 if task == "mpm" else 1)
        kilobytes = [f"{size / tokens / 1e3:,.0f}" for size in counts.bytes.values()]
        launches = [f"{number:,}" for number in counts.launches.values()]
        name = f"{arch} {task}, {sentences} x {length}"
        yield name, " + ".join(launches), " + ".join(kilobytes), len(counts.waits)


def graphs() -> Iterator[Row]:
    """Graphs of the short stream, and why Dynamo left them."""
    from tests.gpu.compilation import CASES, SHORT_STREAM, compile_run

    yield "case", "new graphs of each batch", "breaks", "limit met"
    for case in CASES:
        found = compile_run(case, SHORT_STREAM)
        yield case.name, found.graphs, sum(found.breaks.values()), found.exceeded


TABLES: dict[str, Callable[[], Iterator[Row]]] = {"sweep": sweep, "work": work, "graphs": graphs}


def main(names: Sequence[str]) -> None:
    fake_cuda.load()
    logging.disable(logging.ERROR)
    for name in names or TABLES:
        for number, row in enumerate(TABLES[name]()):
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            if not number:
                print("|" + "---|" * len(row))
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
